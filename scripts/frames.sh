#!/bin/bash
# frames.sh [ROUNDS]: how long the frames of a program are that presents, alone, and beside the service that compiles
# pipelines again after an update of the driver (`vkstash prewarm --after-update`). The program is vkcube on lavapipe
# in an X server without a screen, which computes on every processor and waits for no refresh. The service compiles for
# RADV's null device what an older Mesa package had. The program runs without the layer, so that the service does not
# give way, and with it. In turn, each round in another order. Needs a release build, the corpus (scripts/corpus.sh) and
# two versions of mesa-vulkan-drivers in apt's lists.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
rounds=${1:-9}
folder=$(mktemp -d)
service=
finish() {
    [ -z "$service" ] || kill "$service" 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT
older_mesa "$folder" || exit 0
bin=$(realpath target/release)
radv=$(echo /usr/share/vulkan/icd.d/radeon_icd*.json)
lavapipe=$(echo /usr/share/vulkan/icd.d/lvp_icd*.json)
export VKSTASH_LIBRARY=$bin/libVkLayer_vkstash.so MESA_SHADER_CACHE_DIR=$folder/disk RADV_FORCE_FAMILY=navi21

for _ in 1 2; do
    VK_DRIVER_FILES=$folder/older.json VKSTASH_DIR=$folder/played "$bin/vkstash" run --quiet -- \
        "$bin/vkstash-corpus" --modules corpus --count 600 >"$folder/log"
done

# begin_service: on a stash of its own, as after an update.
begin_service() {
    rm -rf "$folder/stash" "$folder/disk"
    cp -a "$folder/played" "$folder/stash"
    VK_DRIVER_FILES=$radv "$bin/vkstash" prewarm --after-update --at-once --dir "$folder/stash" >"$folder/log" 2>&1 &
    service=$!
    sleep 1
}
end_service() {
    # What it did until then is said by the log.
    kill "$service" 2>/dev/null && echo "the service still worked" >>"$folder/works" || true
    wait "$service" 2>/dev/null || true
    service=
}

# present KIND: runs the program, and prints the median, the 99th percentile and the longest of its frames, in ms. The
# first frames make its pipelines.
present() {
    local layer=()
    [ "$1" != with-layer ] || layer=("$bin/vkstash" run --quiet --dir "$folder/stash" --)
    rm -f "$folder/frames.csv"
    VK_DRIVER_FILES=$lavapipe VK_INSTANCE_LAYERS=VK_LAYER_MESA_overlay \
        VK_LAYER_MESA_OVERLAY_CONFIG=output_file=$folder/frames.csv,fps_sampling_period=1,no_display \
        xvfb-run -a "${layer[@]}" vkcube --c 4000 >"$folder/log.vkcube" 2>&1
    tail -n +20 "$folder/frames.csv" | awk -F', ' '{ print $4 }' | sort -n | awk '{ of[NR] = $1 }
        END { printf "%.2f %.2f %.2f\n", of[int(NR / 2)] / 1e3, of[int(NR * 0.99)] / 1e3, of[NR] / 1e3 }'
}

kinds=(alone beside with-layer)
for ((round = 0; round < rounds; round++)); do
    for ((place = 0; place < 3; place++)); do
        kind=${kinds[(round + place) % 3]}
        [ "$kind" = alone ] || begin_service
        echo "$round $kind $(present "$kind")" >>"$folder/result"
        [ "$kind" = alone ] || end_service
    done
done
echo "frames of vkcube on lavapipe, ms: medians of $rounds rounds (least to most)"
for kind in "${kinds[@]}"; do
    for column in 3:median 4:99th-percentile 5:longest; do
        awk -v kind="$kind" -v at="${column%%:*}" '$2 == kind { print $at }' "$folder/result" | sort -n |
            awk -v what="$kind ${column#*:}" '{ of[NR] = $1 }
                END { printf "%-28s %8.2f (%.2f to %.2f)\n", what, of[int((NR + 1) / 2)], of[1], of[NR] }'
    done
done
echo "the service still worked at the end of $(wc -l <"$folder/works") of $((2 * rounds)) runs beside it"
