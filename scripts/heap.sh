#!/usr/bin/env bash
# heap.sh [PIPELINES]: runs 50 programs whose pipelines have much data (115 KB each on NVIDIA's driver) on the driver of
# the environment (VK_DRIVER_FILES), with four threads each: in every cache habit, with workers and without, over an
# empty disk cache of the driver and a warm one, in the first run and in later ones. The C library checks the heap, with
# the layer and without. Prints how many of them died. Needs a release build; VKSTASH_BUILT names another folder with
# both programs and the library.
set -euo pipefail
cd "$(dirname "$0")/.."
pipelines=${1:-4}
built=${VKSTASH_BUILT:-$PWD/target/release}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

checker=$(find /lib /usr/lib /lib64 -name 'libc_malloc_debug.so.0' 2>/dev/null | head -n 1)
[ -n "$checker" ] || { echo "heap.sh: no libc_malloc_debug.so.0, which is part of glibc" >&2 && exit 1; }
export HOME=$folder/home XDG_DATA_HOME=$folder/home/data XDG_CACHE_HOME=$folder/home/cache NODEVICE_SELECT=1
mkdir -p "$HOME" "$folder/share/vulkan/implicit_layer.d"
export XDG_DATA_DIRS=$folder/share:/usr/local/share:/usr/share
sed -e "s#@LIBRARY_PATH@#$built/libVkLayer_vkstash.so#" -e "s/@LIBRARY_ARCH@/64/" \
    manifest/VkLayer_vkstash.implicit.json.in \
    >"$folder/share/vulkan/implicit_layer.d/VkLayer_vkstash.json"
export VKSTASH_TOOL=$built/vkstash

# client HABIT VARIABLE=VALUE...: one program, with the heap checked.
client() {
    env "${@:2}" LD_PRELOAD="$checker" GLIBC_TUNABLES=glibc.malloc.check=3 "$built/vkstash-corpus" \
        --made "$pipelines" --threads 4 --pause-ms 100 --cache "$1" >"$folder/out" 2>&1
}
no_disk=(__GL_SHADER_DISK_CACHE=0 MESA_SHADER_CACHE_DISABLE=1)

client none VKSTASH_DISABLE=1 || { cat "$folder/out" >&2 && exit 1; }
for layer in VKSTASH_DISABLE=1 VKSTASH=1; do
    programs=0 died=0
    for habit in none fresh fresh-read shared "file:$folder/cache"; do
        for workers in "" VKSTASH_BACKGROUND_WORKERS=0; do
            rm -f "$folder/cache"
            for run in cold 2 3 warm 5; do
                [ "$run" != warm ] || rm -f "$folder/cache"
                stash=$folder/$programs
                case $run in 2 | 3 | 5) stash=$last ;; esac
                last=$stash
                settings=("$layer" "VKSTASH_DIR=$stash")
                [ -z "$workers" ] || settings+=("$workers")
                case $run in cold | 2 | 3) settings+=("${no_disk[@]}") ;; esac
                programs=$((programs + 1))
                if ! client "$habit" "${settings[@]}"; then
                    died=$((died + 1))
                    echo "$layer $habit ${workers:-with workers} run $run: $(tail -n 1 "$folder/out")"
                fi
            done
        done
    done
    echo "$layer: $died of $programs programs died"
done
