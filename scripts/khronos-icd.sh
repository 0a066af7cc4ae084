#!/usr/bin/env bash
# Builds the driver of the suite layer-tests/tests/khronos.rs: layer-tests/khronos/driver.cpp around the test
# driver of the Khronos loader's own tests, from the distribution's source package of the installed loader.
# Needs no root. Quick when it has been built already.
#
# VKSTASH_LOADER_SOURCE names an unpacked source of the loader to use in place of the package.
#
# Exit status: 0 built; 3 the source cannot be had here, and standard error says why; 1 anything else.
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

# deb_sources FILE...: the entries of the package sources in these files, as source-package entries: both formats
# are kept, and with them mirror, suite and key.
deb_sources() {
    local file
    for file in "$@"; do
        [ -r "$file" ] || continue
        case $file in
        *.list)
            sed -nE 's/^[[:space:]]*deb([[:space:]])/deb-src\1/p' "$file" >>"$folder/apt/sources/all.list"
            ;;
        *.sources)
            sed -E 's/^Types:.*/Types: deb-src/I' "$file" >"$folder/apt/sources/$(basename "$file")"
            ;;
        esac
    done
}

# The private configuration: lists, cache and sources below our own folder.
apt_options=(
    -o "Dir::Etc::SourceList=/dev/null" -o "Dir::Etc::SourceParts=$folder/apt/sources"
    -o "Dir::State::Lists=$folder/apt/lists" -o "Dir::Cache=$folder/apt/cache"
    # Files below this folder belong to the caller, and may be unreadable to apt's own user.
    -o "APT::Sandbox::User=$(id -un)" -o "Acquire::Retries=1"
)

fetch() {
    local version=$1
    have apt-get || cannot "no apt-get here to fetch the loader's source with"
    have dpkg-source || cannot "no dpkg-source here (package dpkg-dev)"
    rm -rf "$folder/apt" "$folder/package"
    mkdir -p "$folder"/apt/{sources,lists/partial,cache/archives/partial} "$folder/package"
    deb_sources /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources
    apt-get update -qq "${apt_options[@]}" >"$folder/apt/log" 2>&1 || true
    (cd "$folder/package" && apt-get source -qq "${apt_options[@]}" "vulkan-loader=$version") \
        >>"$folder/apt/log" 2>&1 ||
        cannot "the source package vulkan-loader $version cannot be fetched here ($folder/apt/log says why)"
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
# What was built of something else must not be taken for this.
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
# The headers of the same version, where the package brings them; else the system's.
header=$(find "$source/" -path '*/include/vulkan/vk_icd.h' -print -quit)
[ -z "$header" ] || includes+=(-I "$(dirname "$(dirname "$header")")")
# CMake would fill it with paths that only the loader's own tests need.
: >"$folder/include/framework_config.h"
say "building the Khronos test driver"
g++ -std=c++17 -O1 -w -shared -fPIC -Wl,-z,defs -DFRAMEWORK_CONFIG_HEADER='"framework_config.h"' \
    "${includes[@]}" -I "$folder/include" -I "$framework/icd" -I "$framework" "$own" -o "$driver.new" -ldl
mv "$driver.new" "$driver"
printf '%s\n' "$stamp" >"$folder/stamp"
