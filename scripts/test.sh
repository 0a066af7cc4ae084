#!/usr/bin/env bash
# Everything that must hold before a change goes in. Installs what is missing first.
#
# One build profile (dev) for all of it: the workspace is compiled once, and the suites meet the code with its
# overflow checks and debug assertions on.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
cd "$repository"

export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-auto}
target=$(target_folder)

names=() seconds=()
step() {
    local name=$1 began=$SECONDS
    shift
    say "== $name"
    "$@"
    names+=("$name") seconds+=($((SECONDS - began)))
}
# Also where a step fails: how far it came.
report() {
    local status=$? i
    for i in "${!names[@]}"; do
        printf '%6d s  %s\n' "${seconds[$i]}" "${names[$i]}"
    done
    [ -z "${scratch:-}" ] || rm -rf "$scratch"
    if [ "$status" = 0 ]; then say "all of it passed"; else say "FAILED in the step above"; fi
}
trap report EXIT

rust_components() {
    local name
    for name in fmt clippy; do
        cargo "$name" --version >/dev/null 2>&1 && continue
        have rustup || fail "cargo $name is missing; install it from where Rust came from"
        rustup component add "$([ "$name" = fmt ] && echo rustfmt || echo clippy)"
    done
}

# The library is loaded into other people's programs, in containers too: it may need nothing that they might
# not have, and may show no symbol that could take the place of one of theirs.
library_is_modest() {
    local library=$target/debug/libVkLayer_vkstash.so needed exported odd
    [ -e "$library" ] || fail "$library was not built"
    needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
    odd=$(grep -vE '^(libc|libm|libdl|librt|libpthread|libgcc_s|ld-linux[-a-z0-9_]*)\.so\.[0-9]+$' <<<"$needed" || true)
    [ -z "$odd" ] || fail "the layer library needs more than the C library: ${odd//$'\n'/ }"
    exported=$(nm -D --defined-only "$library" | awk '{ print $NF }')
    grep -qx vkNegotiateLoaderLayerInterfaceVersion <<<"$exported" ||
        fail "the layer library does not export vkNegotiateLoaderLayerInterfaceVersion"
    # vkstash...: the C API, include/vkstash.h.
    odd=$(grep -vE '^(vkNegotiateLoaderLayerInterfaceVersion|vkstash[A-Z_][A-Za-z0-9_]*)$' <<<"$exported" || true)
    [ -z "$odd" ] || fail "the layer library exports more than its interface: ${odd//$'\n'/ }"
    if nm "$library" 2>/dev/null | grep -qE 'clap_builder|serde_json'; then
        fail "the layer library contains what only the tool needs"
    fi
    say "needs: $(tr '\n' ' ' <<<"$needed")"
    say "exports: $(tr '\n' ' ' <<<"$exported")"
}

# The one driver that comes from the network: where its source cannot be had its tests are skipped, in words, and
# nothing fails. What is had must build.
khronos_driver=none
khronos_test_driver() {
    local status=0
    "$repository/scripts/khronos-icd.sh" || status=$?
    case $status in
    0) khronos_driver=$(realpath "$target")/khronos/libkhronos_test_icd.so ;;
    3) say "SKIPPED: the tests of layer-tests/tests/khronos.rs that need this driver" ;;
    *) fail "the Khronos test driver does not build" ;;
    esac
}

tests() {
    # What drivers and the layer keep on disk goes to a place of its own: nothing warm comes in from the
    # user's caches, and nothing is left in them.
    scratch=$(mktemp -d)
    local name
    for name in ${!VKSTASH*} VK_INSTANCE_LAYERS VK_LOADER_LAYERS_ENABLE VK_LOADER_LAYERS_DISABLE; do
        [ "$name" = VKSTASH_CORPUS_VERSION ] || unset "$name"
    done
    local -x XDG_CACHE_HOME=$scratch
    if mesa_has_null_device; then
        # Everything that the suites want is here, so one that finds no driver is broken.
        VKSTASH_REQUIRE_DRIVERS=1 VKSTASH_KHRONOS_ICD=$khronos_driver cargo test --workspace
        return
    fi
    say "what this machine has no driver for is skipped"
    VKSTASH_KHRONOS_ICD=$khronos_driver cargo test --workspace -- --show-output | tee "$scratch/tests.log"
    say "skipped:"
    grep -h ': skipped: ' "$scratch/tests.log" | sort -u || echo "nothing"
}

dependencies() {
    if ! have cargo-deny; then
        say "skipped: cargo-deny is not installed (cargo install --locked cargo-deny)"
        return
    fi
    cargo deny check licenses bans sources
    # The list of advisories comes from the network.
    if cargo deny fetch db >/dev/null 2>&1; then
        cargo deny check advisories
    else
        say "skipped the advisories: their list cannot be fetched from here"
    fi
}

step "set-up" "$repository/scripts/setup.sh"
step "Rust components" rust_components
step "corpus" "$repository/scripts/corpus.sh"
step "programs" "$repository/scripts/programs.sh"
step "format" cargo fmt --all --check
step "clippy" cargo clippy --workspace --all-targets -- -D warnings
step "build" cargo build --workspace
step "library" library_is_modest
step "khronos test driver" khronos_test_driver
step "tests" tests
step "documentation" env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
step "dependencies" dependencies
