#!/bin/bash
# driver-update.sh [COUNT] [OPTION...]: what a program finds after an update of its driver, with two real drivers:
# RADV's null device of the distribution's older Mesa package, which is unpacked aside, and of the installed one. Prints
# what the first run on the new driver costs with the driver's own cache (filled by the old driver), after
# `vkstash prewarm`, and after an idle minute with VKSTASH_UPDATE=1. Options are for the client
# (target/release/vkstash-corpus): with --all-features it enables whatever the driver offers. Needs a release build, the
# corpus (scripts/corpus.sh), and two versions of mesa-vulkan-drivers in apt's lists.
set -euo pipefail
cd "$(dirname "$0")/.."
count=${1:-300}
client=("${@:2}")
built=$PWD/target/release
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

installed=$(dpkg-query -W -f '${Version}' mesa-vulkan-drivers)
older=$(apt-cache madison mesa-vulkan-drivers | awk '{ print $3 }' | sort -uV | head -n 1)
if [ "$older" = "$installed" ]; then
    echo "SKIPPED: apt knows one version of mesa-vulkan-drivers only"
    exit 0
fi
(cd "$folder" && apt-get -o APT::Sandbox::User=root download "mesa-vulkan-drivers=$older" >/dev/null)
dpkg -x "$folder"/mesa-vulkan-drivers_*.deb "$folder/older"
library=$(find "$folder/older" -name libvulkan_radeon.so)
echo "{\"file_format_version\":\"1.0.0\",\"ICD\":{\"library_path\":\"$library\",\"api_version\":\"1.3.0\"}}" \
    >"$folder/older.json"
new=$(find /usr/share/vulkan/icd.d -name 'radeon_icd*.json' ! -name '*i686*' | head -n 1)

export HOME=$folder/home XDG_DATA_HOME=$folder/home/data RADV_FORCE_FAMILY=navi21 NODEVICE_SELECT=1
mkdir -p "$HOME" "$folder/share/vulkan/implicit_layer.d"
export XDG_DATA_DIRS=$folder/share:/usr/local/share:/usr/share
sed -e "s#@LIBRARY_PATH@#$built/libVkLayer_vkstash.so#" -e "s/@LIBRARY_ARCH@/64/" \
    manifest/VkLayer_vkstash.implicit.json.in \
    >"$folder/share/vulkan/implicit_layer.d/VkLayer_vkstash.json"

# on old|new cache|stash... OPTIONS: the client's line about its calls.
on() {
    local driver=$new
    [ "$1" = old ] && driver=$folder/older.json
    shift
    VK_DRIVER_FILES=$driver VK_ICD_FILENAMES=$driver "$built/vkstash-corpus" --modules corpus --count "$count" \
        "${client[@]}" "$@" \
        2>/dev/null | sed -n 's/^Create: //p'
}
with_stash() { VKSTASH=1 VKSTASH_DIR=$1 VKSTASH_REPORT=$1.reports MESA_SHADER_CACHE_DISABLE=1 "${@:2}"; }
with_cache() { VKSTASH_DISABLE=1 MESA_SHADER_CACHE_DIR=$1 "${@:2}"; }
prewarm() {
    VK_DRIVER_FILES=$new VK_ICD_FILENAMES=$new VKSTASH_LIBRARY=$built/libVkLayer_vkstash.so \
        "$built/vkstash" prewarm --all
}
export VKSTASH_TOOL=$built/vkstash

echo "old driver: Mesa $older; new driver: Mesa $installed; $count pipelines"
with_cache "$folder/cache" on old >/dev/null
echo "old driver, its own cache, warm:       $(with_cache "$folder/cache" on old)"
echo "new driver, its own cache:             $(with_cache "$folder/cache" on new)"
with_stash "$folder/one" on old >/dev/null
cp -a "$folder/one" "$folder/two"
echo "new driver, stash, nothing done:       $(cp -a "$folder/one" "$folder/three"; with_stash "$folder/three" on new)"
with_stash "$folder/one" prewarm 2>&1 | tail -n 1
echo "new driver, after prewarm:             $(with_stash "$folder/one" on new)"
echo "new driver, 2 s after vkCreateDevice:  $(with_stash "$folder/one" on new --pause-ms 2000)"
echo "new driver, after an idle minute:      $(VKSTASH_UPDATE=1 with_stash "$folder/two" on new --pause-ms 60000)"
for stash in one two; do
    VKSTASH_DIR=$folder/$stash "$built/vkstash" stats | grep ' ready' | sed "s/^/$stash, last run: /"
done
