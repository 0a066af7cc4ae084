#!/usr/bin/env bash
# Builds the driver for the suite layer-tests/tests/khronos.rs: layer-tests/khronos/driver.cpp and the test driver of
# the Khronos loader's own tests. The source is the distribution's source package of the installed loader. Needs no
# root. Quick if the driver is already built.
#
# VKSTASH_LOADER_SOURCE names a folder with the loader's source, which replaces the package.
#
# Exit status: 0: built; 3: the source is not available here, and standard error says why; 1: any other failure.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

folder=$(target_folder)/khronos
case $folder in /*) ;; *) folder=$PWD/$folder ;; esac
driver=$folder/libkhronos_test_icd.so
own=$repository/layer-tests/khronos/driver.cpp

cannot() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 3
}

# The source of the installed loader; if it is no longer available, the source of the loader in the stable release: the
# driver works with every loader.
fetch() {
    local version=$1
    have apt-get || cannot "no apt-get here to fetch the loader's source with"
    rm -rf "$folder/package"
    fetch_source_package vulkan-loader "$version" "$folder/package" 2>"$folder/log" ||
        fetch_source_package vulkan-loader "" "$folder/package" stable 2>>"$folder/log" ||
        cannot "the source package vulkan-loader cannot be fetched here ($folder/log says why)"
    (cd "$folder/package" && for archive in *.orig*.tar.*; do tar -xf "$archive"; done)
    printf '%s\n' "$version" >"$folder/package/version"
}

if [ -n "${VKSTASH_LOADER_SOURCE:-}" ]; then
    source=$VKSTASH_LOADER_SOURCE
    stamp="source $source $(sha256sum <"$own")"
else
    version=$(dpkg-query -W -f '${source:Version}' libvulkan1 2>/dev/null || true)
    [ -n "$version" ] || cannot "libvulkan1 is not installed as a package, so its source is not known"
    stamp="package $version $(sha256sum <"$own")"
fi
if [ -e "$driver" ] && [ "$(cat "$folder/stamp" 2>/dev/null)" = "$stamp" ]; then
    exit 0
fi
# A build from other sources must not be reused.
rm -f "$driver" "$folder/stamp"
have g++ || cannot "no g++ here"
mkdir -p "$folder/include"
if [ -z "${source:-}" ]; then
    if [ "$(cat "$folder/package/version" 2>/dev/null)" != "$version" ]; then
        say "fetching the source package vulkan-loader $version"
        fetch "$version"
    fi
    source=$folder/package
fi

test_icd=$(find "$source/" -path '*/tests/framework/icd/test_icd.cpp' -print -quit)
[ -n "$test_icd" ] || cannot "$source holds no tests/framework/icd/test_icd.cpp"
framework=$(dirname "$(dirname "$test_icd")")
[ -e "$framework/test_util.cpp" ] || cannot "the loader's tests are laid out in a way that is not known here yet"
includes=()
# The headers of the same version if the package contains them; otherwise the system's headers.
header=$(find "$source/" -path '*/include/vulkan/vk_icd.h' -print -quit)
[ -z "$header" ] || includes+=(-I "$(dirname "$(dirname "$header")")")
# CMake would write paths into this header that only the loader's own tests need.
: >"$folder/include/framework_config.h"
say "building the Khronos test driver"
g++ -std=c++17 -O1 -w -shared -fPIC -Wl,-z,defs -DFRAMEWORK_CONFIG_HEADER='"framework_config.h"' \
    "${includes[@]}" -I "$folder/include" -I "$framework/icd" -I "$framework" "$own" -o "$driver.new" -ldl
mv "$driver.new" "$driver"
printf '%s\n' "$stamp" >"$folder/stamp"
