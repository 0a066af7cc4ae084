#!/usr/bin/env bash
# Prepares the chain of a player, and runs it: programs of Windows in Wine, whose Direct3D DXVK or Wine's vkd3d
# translate to Vulkan, on the layer and Mesa's drivers. It makes a root of Debian 13, whose Wine, DXVK and Mesa are
# newer than many machines', in the folder "chain" of Cargo's target folder; what is there already is not made again.
#
#   scripts/chain.sh                          prepares only
#   scripts/chain.sh --check [--only TEXT]    also runs the programs without the layer and with it, and compares
#                                             (layer-tests/chain/check.py); with TEXT only the checks that it is part of
#   scripts/chain.sh --time ROUNDS            compares the time of whole processes; needs a release build of the layer
#
# Needs root, the network, and an x86-64. The Debian packages come from the mirror that this machine's apt uses, or from
# CHAIN_MIRROR, those of Python from where pip looks for them.
#
# Exit status: 0: done; 3: cannot run here, and a line "SKIPPED: ..." says why; 1: any other failure.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
cd "$repository"

sdl=2.32.10 wgpu=0.32.0 suite=trixie
packages=(wine wine64 dxvk mesa-vulkan-drivers mesa-drm-shim libvulkan1 libgl1 libgl1-mesa-dri libglx-mesa0 xvfb
    python3)
compiler=x86_64-w64-mingw32-gcc

check='' arguments=() profile=debug
case ${1:-} in
"") ;;
--check)
    check=yes
    arguments=("${@:2}")
    ;;
--time)
    check=yes profile=release
    arguments=("$@")
    ;;
*) fail "unknown option $1 (there are --check and --time)" ;;
esac

cannot() {
    echo "SKIPPED: $*"
    exit 3
}

[ "$(uname -m)" = x86_64 ] || cannot "the programs are for x86-64"
[ "$(id -u)" = 0 ] || cannot "needs root, for debootstrap and chroot"
mkdir -p "$(target_folder)/chain"
folder=$(cd "$(target_folder)/chain" && pwd)
sources=$repository/layer-tests/chain
root=$folder/root place=/opt/chain

# Two servers of Wine on one prefix would overwrite each other's registry.
exec 9>"$folder/lock"
flock 9

wanted=()
have debootstrap || wanted+=(debootstrap)
have "$compiler" || wanted+=(gcc-mingw-w64-x86-64-win32)
have unzip || wanted+=(unzip)
if [ "${#wanted[@]}" != 0 ]; then
    may_install || cannot "no ${wanted[*]} here"
    apt_update
    say "installing: ${wanted[*]}"
    apt_install "${wanted[@]}" >"$folder/apt.log" 2>&1 || cannot "apt-get cannot install ${wanted[*]}"
fi

# in_root COMMAND...: in namespaces of its own: what it starts and mounts is gone when it ends.
in_root() { unshare --mount --pid --fork --root="$root" --mount-proc "$@"; }

# --- the root ---------------------------------------------------------------------------------------------

make_root() {
    local mirror log=$folder/root.log
    # shellcheck disable=SC2016 # apt's own variable
    mirror=${CHAIN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' "Origin: Debian" "Label: Debian" |
        sort -u | head -n 1)}
    [ -n "$mirror" ] || cannot "apt knows no mirror of Debian here: CHAIN_MIRROR=ADDRESS names one"
    rm -rf --one-file-system "$root"
    say "making a root of $suite with debootstrap"
    unshare --mount debootstrap --force-check-gpg --variant=minbase "$suite" "$root" "$mirror" >"$log" 2>&1 ||
        cannot "debootstrap: $(tail -n 1 "$log")"
    say "installing Wine, DXVK and Mesa in it"
    in_root env DEBIAN_FRONTEND=noninteractive sh -c \
        'apt-get update -q && apt-get install -q -y --no-install-recommends "$@"' sh "${packages[@]}" \
        >>"$log" 2>&1 || cannot "apt-get in the root: $(tail -n 1 "$log")"
    in_root apt-get clean
}

# Runs in the root. Two prefixes, because Wine's d3d12 does not know the adapters of DXVK's dxgi. In a virtual desktop
# the screen has a refresh rate. For sdl.exe it is Windows 7: on newer ones SDL calls what DXVK 2.6 does not have.
make_prefixes() {
    cat >"$root/opt/prefixes" <<'INSIDE'
set -eu
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /tmp
export HOME=/tmp DISPLAY=:7 WINEDEBUG=-all WINEDLLOVERRIDES='mscoree,mshtml,winemenubuilder.exe='
Xvfb :7 -screen 0 1024x768x24 >/dev/null 2>&1 &
while [ ! -e /tmp/.X11-unix/X7 ]; do sleep 0.1; done
export WINEPREFIX=/opt/prefix.plain
wineboot --init
wine reg add 'HKCU\Software\Wine\Explorer' /v Desktop /d Default /f
wine reg add 'HKCU\Software\Wine\Explorer\Desktops' /v Default /d 1024x768 /f
wine reg add 'HKCU\Software\Wine\AppDefaults\sdl.exe' /v Version /d win7 /f
wineserver --wait
cp -a /opt/prefix.plain /opt/prefix.dxvk
for library in /usr/lib/dxvk/wine64/*.dll.so; do
    name=$(basename "$library" .dll.so)
    ln -sf "$library" "/opt/prefix.dxvk/drive_c/windows/system32/$name.dll"
    WINEPREFIX=/opt/prefix.dxvk wine reg add 'HKCU\Software\Wine\DllOverrides' /v "$name" /d native /f
done
WINEPREFIX=/opt/prefix.dxvk wineserver --wait
INSIDE
    say "making the prefixes of Wine"
    in_root timeout 600 bash /opt/prefixes >"$folder/prefixes.log" 2>&1 ||
        fail "the prefixes: $(tail -n 5 "$folder/prefixes.log")"
}

stamp="$suite ${packages[*]} $(declare -f make_prefixes | sha256sum)"
if [ "$(cat "$folder/root.stamp" 2>/dev/null)" != "$stamp" ]; then
    rm -f "$folder/root.stamp"
    make_root
    make_prefixes
    printf '%s\n' "$stamp" >"$folder/root.stamp"
fi

# --- the programs -----------------------------------------------------------------------------------------

# wheel NAME VERSION FILE...: from the package for Windows.
wheel() {
    local name=$1 version=$2 wheels=$folder/wheels/$1-$2
    if [ ! -e "$wheels/done" ]; then
        say "fetching $name $version with pip"
        rm -rf "$wheels"
        python3 -m pip download -q --disable-pip-version-check --platform win_amd64 --only-binary=:all: --no-deps \
            --dest "$wheels" "$name==$version" >"$folder/pip.log" 2>&1 || cannot "pip has no $name $version here"
        unzip -q -j -o "$wheels/*.whl" "${@:3}" -d "$wheels"
        : >"$wheels/done"
    fi
}
wheel pysdl2-dll "$sdl" '*/SDL2.dll'
wheel wgpu "$wgpu" '*/webgpu.h' '*/wgpu.h' '*/wgpu_native-release.dll'
libraries=$folder/wheels/wgpu-$wgpu
mkdir -p "$root$place"
# The name by which it calls itself.
cp "$libraries/wgpu_native-release.dll" "$root$place/wgpu_native.dll"
cp "$folder/wheels/pysdl2-dll-$sdl/SDL2.dll" "$root$place/"

# compiled NAME [LIBRARY]...
compiled() {
    local exe=$root$place/$1.exe
    [ "$exe" -nt "$sources/$1.c" ] && [ "$exe" -nt "$sources/ends.h" ] && return
    "$compiler" -std=c11 -O1 -Wall -Wextra -Werror -I"$libraries" -o "$exe" "$sources/$1.c" "${@:2}"
}
compiled launcher
compiled sdl
compiled wgpu "$libraries/wgpu_native-release.dll"
say "prepared: $(in_root dpkg-query -W -f '${Package} ${Version}, ' wine dxvk mesa-vulkan-drivers libvulkan1)"\
"SDL $sdl, wgpu $wgpu"
[ -n "$check" ] || exit 0

# --- the check --------------------------------------------------------------------------------------------

[ "$profile" = release ] || cargo build --quiet -p vkstash -p vkstash-tool --lib --bins
built=$(target_folder)/$profile
cp "$built/libVkLayer_vkstash.so" "$built/vkstash" "$sources/check.py" "$root$place/"
sed -e "s|@LIBRARY_PATH@|$place/libVkLayer_vkstash.so|" -e "s|@LIBRARY_ARCH@|64|" \
    manifest/VkLayer_vkstash.implicit.json.in >"$root$place/VkLayer_vkstash.json"
in_root sh -c "mount -t sysfs sysfs /sys && mount -t tmpfs tmpfs /tmp && exec python3 $place/check.py \"\$@\"" sh \
    "${arguments[@]}"
