#!/usr/bin/env bash
# Builds command-line programs of Fossilize, with which the tests check what vkstash reads and writes
# (crates/fossilize/tests/tools.rs, layer-tests/tests/classes/foz.rs): fossilize-list, -convert-db, -merge-db, -rehash
# and -prune, fossilize-replay, and Fossilize's layer.
# Needs a compiler, no root, no network and no CMake. Quick if they are already built.
#
#   scripts/fossilize.sh SOURCE [TARGET]
#
# SOURCE is a folder with Fossilize's source or a git directory of it, of which the last commit is built. TARGET is the
# folder for the programs, "fossilize" in Cargo's target folder if it is not given. The tests find them there with
# VKSTASH_FOSSILIZE=TARGET.
#
# What Fossilize has as submodules is taken from SOURCE where it is there, otherwise from these, each a folder or a git
# directory, otherwise from the distribution's packages:
#
#   VKSTASH_RAPIDJSON_SOURCE       rapidjson      (package rapidjson-dev)
#   VKSTASH_VOLK_SOURCE            volk           (fossilize-replay needs it, newer than packages have it)
#   VKSTASH_SPIRV_HEADERS_SOURCE   SPIRV-Headers  (package spirv-headers if it is new enough; fossilize-replay needs it)
#
# SPIRV-Tools and SPIRV-Cross are not used: fossilize-replay is built without its option --spirv-val, and the programs
# that rewrite or print shaders are not built.
#
# Exit status: 0: built, and a line says if fossilize-replay is missing and why; 3: something is missing here, and
# standard error says what; 1: any other failure.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

cannot() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 3
}

[ "$#" = 1 ] || [ "$#" = 2 ] || fail "usage: $(basename "$0") SOURCE [TARGET]"
source=$1
target=${2:-$(target_folder)/fossilize}
case $target in /*) ;; *) target=$PWD/$target ;; esac
programs=(fossilize-{list,convert-db,merge-db,rehash,prune,replay})
for command in gcc g++ git tar; do have "$command" || cannot "no $command here"; done

# git_directory FOLDER: prints the git directory that a folder has or is; nothing for other folders, also if they lie
# in a work tree of something else.
git_directory() {
    if [ -e "$1/.git" ]; then
        printf '%s\n' "$1/.git"
    elif [ -e "$1/HEAD" ] && [ -d "$1/objects" ]; then
        printf '%s\n' "$1"
    fi
}

# identity FOLDER: what a source is for the stamp: its commit, or where it lies.
identity() {
    local directory
    directory=$(git_directory "$1")
    if [ -n "$directory" ]; then git --git-dir="$directory" rev-parse HEAD; else realpath "$1"; fi
}

# export_source FOLDER TO: what is committed, or a folder as it is.
export_source() {
    local directory
    directory=$(git_directory "$1")
    mkdir -p "$2"
    if [ -n "$directory" ]; then
        git --git-dir="$directory" archive HEAD | tar -x -C "$2"
    else
        cp -R "$1/." "$2/"
    fi
}

# part SUBMODULE VARIABLE FILE: exports the submodule into the tree, and says in `found` whether it has FILE.
part() {
    local folder=$source/$1
    [ -e "$folder/$3" ] || folder=${!2:-}
    if [ -n "$folder" ]; then export_source "$folder" "$tree/$1"; fi
    if [ -e "$tree/$1/$3" ]; then found=yes; else found=no; fi
}

[ -d "$source" ] || cannot "$source is no folder"
stamp=$({
    identity "$source"
    for folder in "$source/cli/volk" "$source/cli/SPIRV-Headers" "$source/rapidjson" \
        "${VKSTASH_VOLK_SOURCE:-}" "${VKSTASH_SPIRV_HEADERS_SOURCE:-}" "${VKSTASH_RAPIDJSON_SOURCE:-}"; do
        if [ -d "$folder" ]; then identity "$folder"; fi
    done
    sha256sum <"$0"
})
if [ "$(cat "$target/stamp" 2>/dev/null)" = "$stamp" ]; then
    exit 0
fi
mkdir -p "$target"
# A build from other sources must not be reused.
rm -f "$target/stamp" "${programs[@]/#/$target/}"
work=$(mktemp -d "$target/build.XXXXXX")
trap 'rm -rf "$work"' EXIT
tree=$work/source objects=$work/objects
mkdir "$tree" "$objects"
export_source "$source" "$tree"
[ -e "$tree/fossilize_db.cpp" ] || cannot "$source holds no source of Fossilize (no fossilize_db.cpp)"

includes=(-I . -I khronos -I miniz -I cli -I cli/volk)
defines=()
part rapidjson VKSTASH_RAPIDJSON_SOURCE include/rapidjson/document.h
if [ "$found" = yes ]; then
    includes+=(-I rapidjson/include)
else
    [ -e /usr/include/rapidjson/document.h ] ||
        cannot "no rapidjson here: install rapidjson-dev, or set VKSTASH_RAPIDJSON_SOURCE"
    # Debian's version 1.1.0 has no name for its allocator, and a string buffer whose length is called its size.
    grep -q 'define RAPIDJSON_DEFAULT_ALLOCATOR' /usr/include/rapidjson/*.h ||
        defines+=("-DRAPIDJSON_DEFAULT_ALLOCATOR=::rapidjson::MemoryPoolAllocator<::rapidjson::CrtAllocator>"
            -DGetLength=GetSize)
fi
without=
part cli/volk VKSTASH_VOLK_SOURCE volk.c
[ "$found" = yes ] || without="no volk here: set VKSTASH_VOLK_SOURCE"
part cli/SPIRV-Headers VKSTASH_SPIRV_HEADERS_SOURCE include/spirv/unified1/spirv.hpp
if [ "$found" = yes ]; then
    includes+=(-I cli/SPIRV-Headers/include/spirv/unified1)
elif [ -e /usr/include/spirv/unified1/spirv.hpp ]; then
    includes+=(-I /usr/include/spirv/unified1)
else
    without=${without:-"no SPIR-V headers here: set VKSTASH_SPIRV_HEADERS_SOURCE"}
fi

# compile SOURCE: in the background, at most one for each processor at a time. Exceptions are off as in Fossilize's
# own build.
processors=$(nproc)
compile() {
    local object name
    name=$(basename "$1")
    # A program has a file of the same name.
    case $1 in layer/*) name=layer-$name ;; esac
    object=$objects/${name%.*}
    while [ "$(jobs -rp | wc -l)" -ge "$processors" ]; do wait -n || true; done
    local compiler=(g++ -std=c++14 -fno-exceptions "${defines[@]}")
    case $1 in *.c) compiler=(gcc -D_LARGEFILE64_SOURCE) ;; esac
    (cd "$tree" && "${compiler[@]}" -O1 -w -fPIC -pthread "${includes[@]}" -c "$1" -o "$object.o" 2>"$object.log") &
}
object() { printf '%s\n' "${@/#/$objects/}" | sed 's/$/.o/'; }
# all_compiled NAME...: whether they have objects; otherwise `error` is the compiler's first error.
error=
all_compiled() {
    local name
    for name in "$@"; do
        [ -e "$objects/$name.o" ] && continue
        error=$(grep -m 1 error "$objects/$name.log" || printf '%s has no object' "$name")
        return 1
    done
}
# link PROGRAM OBJECT...
link() {
    local files
    mapfile -t files < <(object "${@:2}" "${library[@]}")
    g++ -pthread "${files[@]}" -o "$target/$1" -ldl -lrt
}

library=(cli_parser path varint fossilize_db fossilize_application_filter fossilize_external_replayer miniz fossilize)
replay=(file device fossilize_feature_filter volk)
say "building Fossilize's programs"
# The largest sources first.
sources=(fossilize.cpp)
[ -n "$without" ] || sources+=(cli/{fossilize_replay,fossilize_feature_filter,device,file}.cpp cli/volk/volk.c)
sources+=({fossilize_db,fossilize_application_filter,fossilize_external_replayer,path,varint}.cpp cli/cli_parser.cpp
    miniz/miniz.c)
sources+=(cli/fossilize_{list,convert_db,merge_db,rehash,prune}.cpp)
sources+=(layer/{instance,dispatch,dispatch_helper}.cpp layer/device.cpp)
for file in "${sources[@]}"; do compile "$file"; done
wait

all_compiled "${library[@]}" || fail "Fossilize's library does not compile here: $error"
for program in "${programs[@]}"; do
    main=${program//-/_}
    if [ "$program" = fossilize-replay ]; then
        [ -n "$without" ] || all_compiled "$main" "${replay[@]}" ||
            without="$error (one reason: older SPIR-V headers than Fossilize's; see VKSTASH_SPIRV_HEADERS_SOURCE)"
        [ -n "$without" ] || link "$program" "$main" "${replay[@]}"
    else
        all_compiled "$main" || fail "$program does not compile here: $error"
        link "$program" "$main"
    fi
done
recorder=(layer-{instance,device,dispatch,dispatch_helper})
all_compiled "${recorder[@]}" || fail "Fossilize's layer does not compile here: $error"
mapfile -t files < <(object "${recorder[@]}" "${library[@]}")
g++ -shared -pthread "${files[@]}" -o "$target/libVkLayer_fossilize.so" -ldl -lrt
sed 's|@FOSSILIZE_LAYER_PATH@|./libVkLayer_fossilize.so|' "$tree/layer/VkLayer_fossilize.json.in" \
    >"$target/VkLayer_fossilize.json"
[ -z "$without" ] || say "built without fossilize-replay: $without"
printf '%s\n' "$stamp" >"$target/stamp"
say "built in $target"
