#!/usr/bin/env bash
# Installs the packages for building, testing and demonstrating vkstash on Debian 12 or 13 or on Ubuntu.
# Safe to run again, and quick if nothing is missing.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

mesa_wanted=$mesa_with_null_device
rust_wanted=1.85

have apt-get || fail "this machine has no apt-get; install by hand: a C compiler, the Vulkan loader, Mesa's \
Vulkan drivers >= $mesa_wanted, the Khronos validation layers, vulkan-tools, npm, python3, Rust >= $rust_wanted"
# shellcheck source=/dev/null
. /etc/os-release
codename=${VERSION_CODENAME:-}

# --- packages ---------------------------------------------------------------------------------------------

missing=()
need_package() { installed "$1" || missing+=("$1"); }
need_command() { have "$1" || missing+=("$2"); }

need_package libvulkan1
need_package mesa-vulkan-drivers
need_package vulkan-validationlayers
need_package vulkan-tools
need_package libc6-dev
need_package ca-certificates
need_command gcc gcc
# examples/glsl.c, a translator
need_package glslang-dev
need_package spirv-tools
need_command pkg-config pkg-config
# layer-tests/tests/pressure_vessel.rs
need_command bwrap bubblewrap
# crates/tool/tests/units.rs
need_command desktop-file-validate desktop-file-utils
# scripts/khronos-icd.sh
need_command g++ g++
need_command dpkg-source dpkg-dev
need_package libvulkan-dev
need_command readelf binutils
need_command python3 python3
need_package python3-venv
# Node.js from other sources than the distribution contains npm.
need_command npm npm
# The pages of `vkstash report`; about 300 MB. On Ubuntu the package is a stub that needs snap.
[ "${ID:-}" = ubuntu ] || need_command chromium chromium

if [ "${#missing[@]}" != 0 ]; then
    apt_update
    say "installing: ${missing[*]}"
    apt_install "${missing[@]}"
fi

# --- Mesa -------------------------------------------------------------------------------------------------

# backports_source FILE...: a deb822 entry for the backports suite, derived from the entry for the main suite in the
# given files (both formats), so that it has the same mirror and the same key.
backports_source() {
    awk -v suite="$codename" '
        function give() {
            if (found || !enabled || types !~ /(^|[ \t])deb([ \t]|$)/) return
            if ((" " suites " ") !~ ("[ \t]" suite "[ \t]") || uris == "") return
            found = 1
            print "Types: deb\nURIs:" uris "\nSuites: " suite "-backports\nComponents: main"
            if (signed != "") print "Signed-By:" signed
        }
        function clear() { uris = suites = types = signed = field = ""; enabled = 1 }
        BEGIN { clear() }
        FNR == 1 { give(); clear(); one_line = FILENAME ~ /\.list$/ }
        /^[ \t]*#/ { next }
        one_line && $1 == "deb" {
            clear()
            types = "deb"
            line = $0
            sub(/^[ \t]*deb[ \t]+/, "", line)
            if (match(line, /^\[[^]]*\]/)) {
                options = substr(line, 2, RLENGTH - 2)
                line = substr(line, RLENGTH + 1)
                if (match(options, /signed-by=[^ \t]+/)) signed = " " substr(options, RSTART + 10, RLENGTH - 10)
            }
            split(line, part)
            uris = " " part[1]
            suites = part[2]
            give()
            next
        }
        one_line { next }
        /^[ \t]*$/ { give(); clear(); next }
        /^[ \t]/ {
            if (field == "uris") uris = uris " " $0
            if (field == "suites") suites = suites " " $0
            if (field == "signed-by") signed = signed "\n" $0
            next
        }
        {
            field = tolower(substr($0, 1, index($0, ":") - 1))
            value = substr($0, index($0, ":") + 1)
            if (field == "types") types = value
            if (field == "uris") uris = value
            if (field == "suites") suites = value
            if (field == "signed-by") signed = value
            if (field == "enabled" && tolower(value) ~ /no|false|without|off|disable/) enabled = 0
        }
        END { give() }
    ' "$@" /dev/null
}

add_backports() {
    local files=() file entry
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
        [ ! -r "$file" ] || files+=("$file")
    done
    if grep -hs -v '^[[:space:]]*#' "${files[@]}" | grep -qE "(^|[[:space:]])$codename-backports([[:space:]]|\$)"; then
        return 0
    fi
    entry=$(backports_source "${files[@]}")
    if [ -z "$entry" ]; then
        say "found no package source for $codename to derive its backports from"
        return 1
    fi
    say "adding the $codename-backports source beside the existing ones"
    printf '# Added by vkstash for a newer Mesa.\n%s\n' "$entry" |
        "${as_root[@]}" tee /etc/apt/sources.list.d/vkstash-backports.sources >/dev/null
    updated=no
}

mesa=$(installed_version mesa-vulkan-drivers)
if ! dpkg --compare-versions "${mesa:-0}" ge "$mesa_wanted" && may_install; then
    apt_update
    if dpkg --compare-versions "$(candidate_version mesa-vulkan-drivers)" ge "$mesa_wanted"; then
        apt_install mesa-vulkan-drivers
    elif [ "${ID:-}" = debian ] && [ -n "$codename" ] && add_backports; then
        apt_update
        say "installing a newer Mesa from $codename-backports"
        apt_install -t "$codename-backports" mesa-vulkan-drivers ||
            say "the installation failed; continuing with Mesa $mesa"
    fi
    mesa=$(installed_version mesa-vulkan-drivers)
fi
if ! dpkg --compare-versions "${mesa:-0}" ge "$mesa_wanted"; then
    say "note: Mesa $mesa is older than $mesa_wanted: tests on RADV's null device are skipped here"
elif ! mesa_has_null_device; then
    say "note: Mesa $mesa has no null device any more (removed in $mesa_without_null_device): its tests need a GPU here"
fi

# Mesa's fake render node for RADV, in the version of the driver.
if ! installed mesa-drm-shim; then
    apt_update
    apt_install "mesa-drm-shim=$mesa" || say "note: no mesa-drm-shim $mesa: its tests are skipped here"
fi

# --- the Vulkan registry ----------------------------------------------------------------------------------

# The newest registry that a package has: the distribution's registry is as old as its loader.
registry_wanted=1.4.366
vulkan_registry() {
    local folder
    folder=$(target_folder)/registry
    [ "$(cat "$folder/version" 2>/dev/null)" != "$registry_wanted" ] || return 0
    say "fetching the Vulkan registry $registry_wanted with pip"
    mkdir -p "$folder"
    if virtual_environment "$folder/python" >"$folder/pip.log" 2>&1 &&
        "${pip[@]}" --no-deps --target "$folder/package" "vulkan-object==$registry_wanted" >>"$folder/pip.log" 2>&1 &&
        cp "$folder/package/vulkan_object/vk.xml" "$folder/vk.xml"; then
        echo "$registry_wanted" >"$folder/version"
    else
        say "note: it is not available; structures are compared with the distribution's registry"
    fi
    rm -rf "$folder/python" "$folder/package"
}
vulkan_registry

# --- Rust -------------------------------------------------------------------------------------------------

if ! version_at_least "$(rust_version)" "$rust_wanted"; then
    apt_update
    packaged=$(candidate_version cargo)
    # The version of Debian's package has a suffix after Rust's version.
    if ! have cargo && version_at_least "${packaged:-0}" "$rust_wanted"; then
        say "installing the distribution's Rust"
        apt_install cargo rustc
    fi
fi
# If Rust comes from the distribution, these are packages of their own; building the layer does not need them.
if installed cargo && ! have rustup; then
    missing=()
    need_package rustfmt
    need_package rust-clippy
    if [ "${#missing[@]}" != 0 ] && may_install; then
        apt_update
        say "installing: ${missing[*]}"
        apt_install "${missing[@]}" || say "the installation failed; continuing without"
    fi
fi
if ! version_at_least "$(rust_version)" "$rust_wanted"; then
    hint="install it with rustup"
    if have rustup; then
        hint="run: rustup update stable"
    elif [ -n "$(candidate_version rustup)" ]; then
        hint="run: apt-get install rustup && rustup default stable"
    fi
    fail "Rust >= $rust_wanted is needed, this machine has $(rust_version); $hint"
fi

say "ready: Mesa $mesa, Rust $(rust_version)"
