#!/bin/bash
# run-cost.sh [ROUNDS]: milliseconds of `true`, of `env true`, which only executes it, of `sh -c 'true; exit'`, which
# starts it as `vkstash run` does, and of `vkstash run -- true`: quartiles of so many rounds in turn. The stash is in a
# folder of its own. Needs a release build.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-150}
bin=$(realpath target/release)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export VKSTASH_DIR=$folder/stash VKSTASH_LIBRARY=$bin/libVkLayer_vkstash.so

# The drivers are asked once for each set of their files.
"$bin/vkstash" run -- true 2>/dev/null

# timed NAME COMMAND...: appends a line with the milliseconds.
timed() {
    local name=$1 began=$EPOCHREALTIME ended
    shift
    "$@" >/dev/null 2>&1
    ended=$EPOCHREALTIME
    echo "$name $(((${ended/./} - ${began/./})))" >>"$folder/times"
}
names=(true env sh vkstash)
run_one() {
    case $1 in
    true) timed true /bin/true ;;
    env) timed env env /bin/true ;;
    sh) timed sh sh -c '/bin/true; exit' ;;
    vkstash) timed vkstash "$bin/vkstash" run -- /bin/true ;;
    esac
}
for ((round = 0; round < rounds; round++)); do
    for ((place = 0; place < 4; place++)); do
        run_one "${names[(round + place) % 4]}"
    done
done
for name in "${names[@]}"; do
    awk -v name="$name" '$1 == name { print $2 }' "$folder/times" | sort -n | awk -v name="$name" '{ of[NR] = $1 / 1e3 }
        END { printf "%-8s %5.2f ms (%.2f to %.2f)\n", name, of[int(NR / 2)], of[int(NR / 4)], of[int(NR * 3 / 4)] }'
done
