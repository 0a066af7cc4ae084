#!/usr/bin/env bash
# Builds the layer for 32-bit programs and runs the tests in 32 bits, through a 32-bit loader and 32-bit drivers.
#
# The loader and the drivers are unpacked from the distribution's packages into a folder, and not installed. The script
# installs the 32-bit part of a C compiler (gcc-multilib) and, with rustup, Rust's standard library for that target. It
# leaves out suites that start 64-bit programs, and suites that need an installed loader or driver.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
cd "$repository"

[ "$(uname -m)" = x86_64 ] || fail "needs an x86-64 machine"
target=i686-unknown-linux-gnu
folder=$(target_folder)/i686
case $folder in /*) ;; *) folder=$repository/$folder ;; esac

if ! installed gcc-multilib; then
    apt_update
    say "installing gcc-multilib"
    apt_install gcc-multilib
fi
if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
    have rustup || fail "Rust's standard library for $target is missing, and rustup is needed to fetch it"
    say "fetching Rust's standard library for $target"
    rustup --quiet target add "$target"
fi

# The loader, the drivers and their dependencies, except the C library: it comes with gcc-multilib.
system=$folder/system
if ! [ -e "$folder/unpacked" ]; then
    say "fetching the 32-bit loader and drivers"
    rm -rf "$folder"
    mkdir -p "$system" "$folder/lists/partial" "$folder/packages/partial"
    : >"$folder/status"
    options=(-q -o APT::Architecture=i386 -o APT::Architectures::=i386 -o APT::Install-Recommends=false
        -o APT::Sandbox::User="$(id -un)" -o "Dir::State::lists=$folder/lists" -o "Dir::State::status=$folder/status"
        -o "Dir::Cache::archives=$folder/packages" -o "Dir::Cache::srcpkgcache=" -o "Dir::Cache::pkgcache=")
    # An unreachable package source must not stop the script; if a package is missing, its installation fails.
    apt-get update "${options[@]}" >"$folder/log" 2>&1 || true
    # shellcheck source=/dev/null
    codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
    suite=()
    ! apt-cache policy | grep -q "a=$codename-backports\|n=$codename-backports" || suite=(-t "$codename-backports")
    apt-get install -y --download-only "${suite[@]}" "${options[@]}" \
        libvulkan1 mesa-vulkan-drivers vulkan-validationlayers >>"$folder/log" 2>&1 ||
        { tail -n 5 "$folder/log" >&2 && fail "the 32-bit packages are not available"; }
    for package in "$folder"/packages/*.deb; do
        case ${package##*/} in libc6_*) continue ;; esac
        dpkg-deb --extract "$package" "$system"
    done
    rm -rf "$folder/packages" "$folder/lists"
    touch "$folder/unpacked"
fi
libraries=$system/usr/lib/i386-linux-gnu:$system/lib/i386-linux-gnu

say "building"
cargo build --target "$target" --workspace
# The tool that starts workers of 32 bits.
cargo build -p vkstash-tool
cargo build --target "$target" -p vkstash --release

say "testing"
export VKSTASH_KHRONOS_ICD=none VKSTASH_REQUIRE_DRIVERS=1
export CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_RUNNER="env LD_LIBRARY_PATH=$libraries"
# The tool's tests of the layer clear the environment, which contains the path of the 32-bit libraries.
cargo test --target "$target" -p vkstash -p vkstash-host -p vkstash-model -p vkstash-store --lib
cargo test --target "$target" -p vkstash-tool -- --skip layer::
cargo test --target "$target" -p vkstash-layer-tests -- --skip programs:: --skip khronos:: --skip elevated::
say "the 32-bit layer is $(target_folder)/$target/release/libVkLayer_vkstash.so"
