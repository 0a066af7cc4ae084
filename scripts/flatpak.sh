#!/usr/bin/env bash
# Builds the Flatpak extension org.freedesktop.Platform.VulkanLayer.vkstash from the archive that scripts/package.sh has
# made: a file for each branch of the runtime that a user can install, a repository (target/flatpak/repo), and what
# Flathub builds it from (target/flatpak/flathub).
#
#   scripts/flatpak.sh [--check] [FOLDER]     FOLDER has the archive and gets the files; target/packages without it
#
#   --check     also installs a file, runs a program in a sandbox twice and removes all of it, in an empty home. Its
#               runtime is made from this machine's loader and RADV, with the extension point of the real one.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
cd "$repository"

check=''
if [ "${1:-}" = --check ]; then
    check=yes
    shift
fi
case ${1:-} in -*) fail "unknown option $1 (there is --check)" ;; esac
packages=$(cd "${1:-$(target_folder)/packages}" && pwd) || fail "scripts/package.sh makes the folder"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
machine=$(uname -m)
triplet=$machine-linux-gnu
archive=$packages/vkstash-$version-$machine.tar.xz
[ -e "$archive" ] || fail "$archive is missing: scripts/package.sh makes it"
have flatpak || fail "needs flatpak"
# The branches of the runtime that are maintained; the newest one last.
branches=(24.08 25.08)
branch=${branches[-1]}
id=org.freedesktop.Platform.VulkanLayer.vkstash
prefix=/usr/lib/extensions/vulkan/vkstash
bundle=$packages/vkstash-$version-$machine-$branch.flatpak
mkdir -p "$(target_folder)/flatpak"
made=$(cd "$(target_folder)/flatpak" && pwd)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Flatpak writes into the home, and Cargo has its toolchain there.
user_home=$HOME
export HOME=$scratch/home
mkdir -p "$HOME" "$scratch/unpacked" "$made/flathub"
unset XDG_DATA_HOME XDG_CONFIG_HOME XDG_CACHE_HOME FLATPAK_USER_DIR
logged() { "$@" >"$scratch/log" 2>&1 || fail "$*: $(cat "$scratch/log")"; }

# filled FILE: a template of contrib/flatpak. The archive's time is that of the last commit.
filled() {
    sed -e "s|@VERSION@|$version|g" -e "s|@HOMEPAGE@|$homepage|g" -e "s|@BRANCH@|$branch|g" \
        -e "s|@DATE@|$(date -u -d "@$(stat -c %Y "$scratch/unpacked/vkstash-$version-$machine/install.sh")" +%F)|g" \
        -e "s|@MACHINE@|$machine|g" -e "s|@ARCHIVE@|$homepage/releases/$(basename "$archive")|g" \
        -e "s|@SHA256@|$(sha256sum "$archive" | cut -d ' ' -f 1)|g" "contrib/flatpak/$1.in" \
        >"$made/flathub/$1"
}

# exported FOLDER BRANCH [OPTION]...: into the repository.
exported() { logged flatpak build-export --no-update-summary "${@:3}" "$made/repo" "$1" "$2"; }

make_extension() {
    local folder=$scratch/extension
    tar -C "$scratch/unpacked" -xJf "$archive"
    filled "$id.metainfo.xml"
    filled "$id.yml"
    cp contrib/flatpak/layout.sh "$made/flathub/"
    sh "$made/flathub/layout.sh" "$scratch/unpacked/vkstash-$version-$machine" "$folder/files"
    rm -rf "$made/repo"
    for branch in "${branches[@]}"; do
        bundle=$packages/vkstash-$version-$machine-$branch.flatpak
        printf '%s\n' '[Runtime]' "name=$id" "runtime=org.freedesktop.Platform/$machine/$branch" \
            "sdk=org.freedesktop.Sdk/$machine/$branch" '' \
            '[ExtensionOf]' "ref=runtime/org.freedesktop.Platform/$machine/$branch" >"$folder/metadata"
        exported "$folder" "$branch" --runtime --files=files
        logged flatpak build-bundle --runtime "$made/repo" "$bundle" "$id" "$branch"
        say "$bundle: $(stat -c %s "$bundle") bytes"
    done
    logged flatpak build-update-repo "$made/repo"
}

# What each manifest names is there, where Flatpak mounts the extension, and there are two manifests for each width.
check_layout() {
    local files=$scratch/extension/files manifest named found=0 wanted=2
    say "checking the layout"
    [ ! -e "$scratch/unpacked/vkstash-$version-$machine/lib32" ] || wanted=4
    for manifest in "$files"/share/vulkan/*/VkLayer_vkstash.*.json; do
        named=$(sed -n 's/.*"library_path": "\(.*\)".*/\1/p' "$manifest")
        case $named in
        "$prefix/lib/$triplet/"* | "$prefix/lib/i386-linux-gnu/"*) ;;
        *) fail "$manifest names $named, which is not below $prefix/lib" ;;
        esac
        [ -e "$files/${named#"$prefix/"}" ] || fail "$manifest names $named, which is not there"
        found=$((found + 1))
    done
    [ "$found" = "$wanted" ] || fail "$found manifests instead of $wanted"
    [ "$wanted" = 2 ] || [ -x "$files/lib/i386-linux-gnu/vkstash/vkstash-worker" ] ||
        fail "the layout has no worker for 32-bit programs"
    [ "$wanted" = 4 ] || say "SKIPPED: the layout for 32-bit programs: the archive has no library for them"
    if have appstreamcli; then
        logged appstreamcli validate --no-net "$files/share/metainfo/$id.metainfo.xml"
    else
        say "SKIPPED: the metadata: no appstreamcli here (package appstream)"
    fi
}

# Whether a sandbox can be made, and a runtime for it.
can_run() {
    local radv=/usr/lib/$triplet/libvulkan_radeon.so
    if ! have bwrap || ! bwrap --unshare-all --ro-bind / / true 2>/dev/null; then
        say "SKIPPED: nothing is run: bubblewrap cannot make a sandbox here"
    elif ! [ -e "$radv" ] || ! [ -e "/usr/lib/$triplet/libvulkan.so.1" ] || ! mesa_has_null_device; then
        say "SKIPPED: nothing is run: no Vulkan loader, or no RADV with a null device"
    elif ! compgen -G "/lib*/ld-linux*.so.?" >/dev/null; then
        say "SKIPPED: nothing is run: no dynamic loader where this script looks for it"
    else
        return 0
    fi
    return 1
}

# A runtime with the loader, RADV and what they need, and the extension point of org.freedesktop.Platform. That one's
# loader is built to look into lib/extensions/vulkan/share; Debian's is told by XDG_DATA_DIRS.
make_runtime() {
    local folder=$scratch/runtime file loader
    local lib=$scratch/runtime/files/lib/$triplet
    mkdir -p "$lib" "$folder/files/lib/extensions/vulkan" "$folder/files/lib64"
    for file in "/usr/lib/$triplet/libvulkan_radeon.so" "/usr/lib/$triplet/libvulkan.so.1" "$tested" \
        "$scratch/extension/files/bin/vkstash"; do
        case $file in /usr/*) printf '%s\n' "$file" ;; esac
        ldd "$file" | grep -o '/[^ ]*'
    done | sort -u >"$scratch/libraries"
    while read -r file; do cp -L "$file" "$lib/"; done <"$scratch/libraries"
    loader=$(basename "$(compgen -G "$lib/ld-linux*")")
    case $machine in x86_64) ln -s "../lib/$triplet/$loader" "$folder/files/lib64/" ;;
    *) ln -s "$triplet/$loader" "$folder/files/lib/" ;; esac
    install -D -m 644 -t "$folder/files/share/vulkan/icd.d" /usr/share/vulkan/icd.d/radeon_icd*.json
    cat >"$folder/metadata" <<METADATA
[Runtime]
name=org.freedesktop.Platform
runtime=org.freedesktop.Platform/$machine/$branch
sdk=org.freedesktop.Sdk/$machine/$branch

[Environment]
XDG_DATA_DIRS=/app/share:/usr/share:/usr/lib/extensions/vulkan/share

[Extension org.freedesktop.Platform.VulkanLayer]
version=$branch
directory=lib/extensions/vulkan
subdirectories=true
no-autodownload=true
merge-dirs=share/vulkan/implicit_layer.d;share/vulkan/explicit_layer.d;
METADATA
}

make_program() {
    local folder=$scratch/program
    mkdir -p "$folder/export"
    install -D -t "$folder/files/bin" "$tested"
    printf '%s\n' '[Application]' "name=$program" "runtime=org.freedesktop.Platform/$machine/$branch" \
        "sdk=org.freedesktop.Sdk/$machine/$branch" command=vkstash-engine >"$folder/metadata"
}

# in_sandbox OPTION...: without D-Bus, and without the driver's own cache.
in_sandbox() {
    env -u DBUS_SESSION_BUS_ADDRESS -u VK_DRIVER_FILES -u VK_ICD_FILENAMES timeout 120 flatpak run --user \
        --env=RADV_FORCE_FAMILY=navi21 --env=MESA_SHADER_CACHE_DISABLE=true "$@" 2>"$scratch/log" ||
        fail "flatpak run $*: $(cat "$scratch/log")"
}

# last_run COUNTER: of the program, as the extension's tool tells it in the sandbox.
last_run() {
    in_sandbox "--command=$prefix/bin/vkstash" "$program" stats --json |
        python3 -c 'import json, sys
print(json.load(sys.stdin)["applications"][0]["last_run"]["counters"][sys.argv[1]])' "$1"
}

check_runs() {
    local program=org.example.Pipelines stash start tested
    tested=$(target_folder)/debug/vkstash-engine
    can_run || return 0
    say "building a program that creates pipelines, and a runtime"
    HOME=$user_home cargo build --quiet -p vkstash-layer-tests --bin vkstash-engine
    make_runtime
    make_program
    local repo=$scratch/repo
    logged flatpak build-export "$repo" "$scratch/program" stable
    # LLVM takes a minute to compress otherwise.
    printf '%s\n' '[archive]' zlib-level=1 >>"$repo/config"
    logged flatpak build-export --runtime --files=files "$repo" "$scratch/runtime" "$branch"
    logged flatpak remote-add --user --no-gpg-verify here "file://$repo"
    logged flatpak install --user -y --noninteractive here "$program"
    stash=$HOME/.var/app/$program/cache/vkstash
    # Each run has a folder of its own: /tmp is the program's, and outlives a run.
    in_sandbox --env=VKSTASH=1 "$program" wicked /tmp/0 >/dev/null
    [ ! -e "$stash" ] || fail "there is a stash without the extension"

    say "installing the extension"
    start=$(date +%s%N)
    logged flatpak install --user -y --noninteractive --bundle "$bundle"
    logged flatpak override --user --env=VKSTASH=1 --env=VKSTASH_BACKGROUND_WORKERS=0 "$program"
    in_sandbox "$program" wicked /tmp/1 >/dev/null
    [ "$(last_run compiled)" = 6 ] || fail "the first run did not compile 6 pipelines"
    in_sandbox "$program" wicked /tmp/2 >/dev/null
    [ "$(last_run compiled)-$(last_run served)" = 0-6 ] || fail "the second run was not served 6 pipelines"
    say "from flatpak install to the end of the run that was served: $((($(date +%s%N) - start) / 1000000)) ms"
    [ -d "$stash" ] || fail "the stash is not in $stash"
    logged flatpak uninstall --user -y --noninteractive "$id"
    ! flatpak list --user --columns=application | grep -qF "$id" || fail "the extension is still installed"
    say "a program in a sandbox was served by the extension, which was installed and removed"
}

make_extension
if [ -n "$check" ]; then
    check_layout
    check_runs
fi
