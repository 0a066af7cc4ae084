#!/usr/bin/env bash
# Fetches the real programs that layer-tests/tests/programs.rs runs: from the distribution, npm, PyPI and crates.io, in
# fixed versions where the distribution does not fix them. They go to the folder "programs" in Cargo's target folder,
# together with a library built from Mesa's source that lets RADV run them without a GPU. The script prints which
# programs are not available here, and writes their names to a file, so that the suite leaves them out. Quick if
# everything is there.
#
# With --fetched: neither what is compiled, nor the largest packages.
# With --table: runs every program several times with and without the layer, and writes docs/evidence/programs.md.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

webgpu=0.6.2 llama=3.22.1 ncnn=1.0.20261020 taichi=1.7.4 slangpy=0.43.1 pygfx=0.17.0
rust_for_wgpu=1.87
node_for_llama=20
# The first version whose Vulkan renderer draws the same as the other renderers.
gtk_wanted=4.14

table=no compile=yes
case ${1:-} in
"") ;;
--fetched) compile=no ;;
--table) table=yes ;;
*) fail "unknown option $1 (there are --fetched and --table)" ;;
esac

folder=$(target_folder)/programs
mkdir -p "$folder"
: >"$folder/skipped"
: >"$folder/versions"

# skip NAME REASON: records the reason for the suite, and prints it.
skip() {
    printf '%s: %s\n' "$1" "$2" >>"$folder/skipped"
    say "skipped $1: $2"
}
# version NAME VERSION
version() { printf '%s: %s\n' "$1" "$2" >>"$folder/versions"; }

# --- from the distribution --------------------------------------------------------------------------------

packages=(vkd3d-demos mpv vulkan-tools xvfb xauth xdotool python3-venv mesa-utils libgl1-mesa-dri
    qml-qt6 qml6-module-qtquick qml6-module-qtquick-window qml6-module-qtqml-workerscript)
# has_gtk VERSION
has_gtk() { dpkg --compare-versions "${1:-0}" ge "$gtk_wanted"; }
has_gtk "$(candidate_version libgtk-4-bin)" && packages+=(libgtk-4-bin)
missing=()
for package in "${packages[@]}"; do installed "$package" || missing+=("$package"); done
if [ "${#missing[@]}" != 0 ] && may_install; then
    apt_update
    say "installing: ${missing[*]}"
    # One installation of all packages is quicker; if one package does not exist, the others are installed one by one.
    if ! apt_install "${missing[@]}" >"$folder/apt.log" 2>&1; then
        for package in "${missing[@]}"; do apt_install "$package" >>"$folder/apt.log" 2>&1 || true; done
    fi
fi
# from_package NAME PACKAGE COMMAND
from_package() {
    if have "$3"; then version "$1" "$(installed_version "$2")"; else skip "$1" "no package $2 here"; fi
}
from_package vkd3d vkd3d-demos vkd3d-triangle
from_package mpv mpv mpv
from_package vkcube vulkan-tools vkcube
from_package qt qml-qt6 /usr/lib/qt6/bin/qml
if have glxgears; then
    version zink "$(installed_version libgl1-mesa-dri)"
else
    skip zink "no package mesa-utils here"
fi
gtk=$(installed_version libgtk-4-bin)
if has_gtk "$gtk"; then
    from_package gtk libgtk-4-bin gtk4-rendernode-tool
else
    skip gtk "GTK $gtk_wanted or newer is needed, with its Vulkan renderer; here is ${gtk:-none}"
fi
if ! have xvfb-run || ! have xauth; then
    skip xvfb "no packages xvfb and xauth here"
elif ! have xdotool; then
    skip vkd3d "no package xdotool here; it presses the key that ends the program"
fi

# --- from npm ---------------------------------------------------------------------------------------------

node_version() { node --version | tr -d v; }

# node_program NAME FOLDER PACKAGE@VERSION...: the first package is the program.
node_program() {
    local name=$1 place=$folder/$2 wanted=${*:3}
    if ! have npm || ! have node; then
        skip "$name" "no Node.js here"
        return
    fi
    if [ "$(cat "$place/version" 2>/dev/null)" != "$wanted" ]; then
        say "fetching $wanted with npm"
        rm -rf "$place"
        mkdir -p "$place"
        echo '{}' >"$place/package.json"
        # Without optional dependencies, which are for other systems.
        if ! (cd "$place" &&
            npm install --silent --no-audit --no-fund --ignore-scripts --omit=optional "${@:3}") \
            >"$folder/npm.log" 2>&1; then
            rm -rf "$place"
            skip "$name" "npm could not fetch $wanted"
            return
        fi
        echo "$wanted" >"$place/version"
    fi
    version "$name" "npm ${3/@/ }"
}
node_program dawn node "webgpu@$webgpu"

# llama.cpp and a model.
if [ "$(uname -m)" != x86_64 ]; then
    skip llama "its package is for x86-64"
elif ! have python3; then
    skip llama "python3, which creates its model, is not installed"
elif have node && ! version_at_least "$(node_version)" "$node_for_llama"; then
    # The suite runs every program that it finds, so files of an earlier run must go.
    rm -rf "$folder/llama"
    skip llama "it needs Node.js $node_for_llama, this is $(node_version)"
else
    node_program llama llama "node-llama-cpp@$llama" "@node-llama-cpp/linux-x64-vulkan@$llama"
    [ ! -d "$folder/llama" ] || python3 "$repository/layer-tests/programs/llama/model.py" "$folder/llama/model.gguf"
fi

# --- from PyPI --------------------------------------------------------------------------------------------

python_program() {
    local name=$1 wanted=$2 place=$folder/python
    if [ "$(cat "$place/has-$name" 2>/dev/null)" != "$wanted" ]; then
        say "fetching $name $wanted with pip"
        if ! virtual_environment "$place" >"$folder/pip.log" 2>&1; then
            rm -rf "$place"
            skip "$name" "python3 cannot create a virtual environment here"
            return
        fi
        if ! "${pip[@]}" "$name==$wanted" >>"$folder/pip.log" 2>&1; then
            skip "$name" "pip has no $name $wanted for this machine"
            return
        fi
        echo "$wanted" >"$place/has-$name"
    fi
    version "$name" "PyPI $wanted"
}
python_program ncnn "$ncnn"
python_program taichi "$taichi"
if [ "$compile" = yes ]; then
    python_program slangpy "$slangpy"
    python_program pygfx "$pygfx"
else
    for name in slangpy pygfx; do skip "$name" "its hundreds of megabytes are fetched for scripts/test.sh --all"; done
fi

# --- from crates.io ---------------------------------------------------------------------------------------

wgpu() {
    local rust crate=$repository/layer-tests/programs/wgpu
    rust=$({ cargo --version 2>/dev/null || echo cargo 0; } | awk '{ print $2 }')
    version_at_least "$rust" "$rust_for_wgpu" ||
        { skip wgpu "it needs Rust $rust_for_wgpu, this is $rust" && return; }
    # As a user has it: a share of the time of a slow program would flatter the layer.
    if ! cargo build --quiet --locked --release --manifest-path "$crate/Cargo.toml" \
        --target-dir "$folder/wgpu"; then
        # Its dependencies may be unreachable, which is a reason to skip; a compile error is a failure.
        if cargo fetch --quiet --locked --manifest-path "$crate/Cargo.toml" 2>/dev/null; then
            fail "the wgpu program does not build"
        fi
        skip wgpu "its crates cannot be fetched"
        return
    fi
    version wgpu "crate $(sed -n '/^name = "wgpu"$/{n;s/^version = "\(.*\)"$/\1/p}' "$crate/Cargo.lock")"
}
if [ "$compile" = yes ]; then
    wgpu
else
    skip wgpu "it is compiled for scripts/test.sh --all"
fi

# --- Mesa's replacement for the kernel's amdgpu driver ------------------------------------------------------

# Debian's package of it, in the version of the driver.
packaged_shim() {
    local wanted package=mesa-drm-shim
    wanted=$(installed_version mesa-vulkan-drivers)
    if [ "$(installed_version "$package")" != "$wanted" ] && may_install; then
        apt_install "$package=$wanted" >>"$folder/apt.log" 2>&1 || true
    fi
    [ "$(installed_version "$package")" = "$wanted" ] && dpkg -L "$package" | grep '/libamdgpu_noop_drm_shim\.so$'
}

# If there is no such package: one compiler call for upstream's DRM shim and the Mesa utilities that it uses. Mesa's
# build would need libdrm's headers for the numbers of four buses; this call defines the numbers instead.
compile_shim() {
    local source=$1 util
    util=$(printf "$source/src/util/%s.c " hash_table set ralloc anon_file u_debug log simple_mtx os_misc \
        u_printf u_call_once vma u_process)
    mkdir -p "$source/stub"
    : >"$source/stub/xf86drm.h"
    # shellcheck disable=SC2086 # a list of files
    "${CC:-cc}" -shared -fPIC -O1 -w -std=gnu11 -D_GNU_SOURCE -fvisibility=hidden -ffunction-sections \
        -fdata-sections -DHAVE_SECURE_GETENV -DHAVE_PTHREAD -DHAVE_TIMESPEC_GET -DHAVE_STRUCT_TIMESPEC \
        -DHAVE_MEMFD_CREATE -DHAVE___BUILTIN_CLZ -DHAVE___BUILTIN_FFS -DHAVE_ENDIAN_H \
        -DDRM_BUS_PCI=0 -DDRM_BUS_USB=1 -DDRM_BUS_PLATFORM=2 -DDRM_BUS_HOST1X=3 \
        -I"$source/stub" -I"$source/include" -I"$source/src" -I"$source/src/amd" -o "$2" \
        "$source"/src/drm-shim/{device,drm_shim}.c \
        "$source"/src/amd/drm-shim/{amdgpu_noop_drm_shim,amdgpu_devices}.c $util \
        "$source"/src/c11/impl/{threads_posix,time}.c \
        -Wl,--no-undefined -Wl,--gc-sections -lpthread -ldl -lm
}

shim() {
    local name wanted place=$folder/mesa library=$folder/amdgpu-shim.so
    # shellcheck disable=SC2016 # dpkg's own variables
    read -r name wanted < <(dpkg-query -W -f '${source:Package} ${source:Version}\n' mesa-vulkan-drivers 2>/dev/null) ||
        { skip amdgpu-shim "no package mesa-vulkan-drivers here" && return; }
    if [ -e "$library" ] && [ "$(cat "$folder/amdgpu-shim.version" 2>/dev/null)" = "$wanted" ]; then
        return
    fi
    local packaged
    if packaged=$(packaged_shim); then
        ln -sf "$packaged" "$library"
        echo "$wanted" >"$folder/amdgpu-shim.version"
        return
    fi
    say "fetching the source of $name $wanted"
    rm -rf "$place" "$library"
    if ! fetch_source_package "$name" "$wanted" "$place"; then
        rm -rf "$place"
        skip amdgpu-shim "the source package $name $wanted is not available"
        return
    fi
    mkdir "$place/source"
    tar -xf "$place"/*.orig.tar.* -C "$place/source" --strip-components=1 --wildcards \
        '*/include' '*/src/drm-shim' '*/src/amd/drm-shim' '*/src/amd/common' '*/src/util' '*/src/c11'
    if compile_shim "$place/source" "$library" 2>"$folder/shim.log"; then
        echo "$wanted" >"$folder/amdgpu-shim.version"
    else
        rm -f "$library"
        skip amdgpu-shim "this script cannot build the shim of Mesa $wanted ($folder/shim.log)"
    fi
    rm -rf "$place"
}
shim

say "available: $(paste -sd ',' "$folder/versions" | sed 's/,/, /g')"

if [ "$table" = yes ]; then
    cd "$repository"
    cargo build --quiet -p vkstash -p vkstash-tool
    VKSTASH_PROGRAMS_TABLE=$repository/docs/evidence/programs.md VKSTASH_PROGRAMS_DATE=$(date +%F) \
        cargo test --quiet -p vkstash-layer-tests --test layer -- --ignored --exact --nocapture programs::table
fi
