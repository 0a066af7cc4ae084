#!/usr/bin/env bash
# All checks that a change must pass. First installs missing packages.
#
# All steps use one build profile (dev): the workspace is compiled once, and the suites run with overflow checks and debug
# assertions.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
cd "$repository"

export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-auto}
target=$(target_folder)

names=() seconds=()
# The skipped checks, for the last line.
left_out=()
skipped() {
    say "SKIPPED: $1 ($2)"
    left_out+=("$1 ($2)")
}
current=
step() {
    local began=$SECONDS
    current=$1
    shift
    say "== $current"
    "$@"
    names+=("$current") seconds+=($((SECONDS - began)))
}
# The passed steps with their times, then the skipped checks, then the failed ones.
report() {
    local status=$? i text
    for i in "${!names[@]}"; do
        printf '%6d s  %s\n' "${seconds[$i]}" "${names[$i]}"
    done
    text=$([ "${#left_out[@]}" = 0 ] || printf '%s; ' "${left_out[@]}")
    if [ "$status" != 0 ]; then
        [ -z "$text" ] || say "SKIPPED: ${text%; }"
        say "FAILED in the step: $current"
        [ -z "${scratch:-}" ] || [ ! -e "$scratch/log" ] || failed_tests "$scratch/log"
    elif [ -z "$text" ]; then
        say "all steps passed"
    else
        say "all steps passed; SKIPPED: ${text%; }"
    fi
    [ -z "${scratch:-}" ] || rm -rf "$scratch"
    if [ -n "${beside_process:-}" ]; then
        kill -- -"$beside_process" 2>/dev/null || true
        wait "$beside_process" 2>/dev/null || true
    fi
    [ -z "${beside:-}" ] || rm -rf "$beside"
}
trap report EXIT

# Lints differ between versions of Rust, so only the chosen version decides.
lints() {
    if ! has_rust_of_lints; then
        skipped "format and lints" "they need Rust $rust_of_lints, this is $(rust_version)"
        return
    fi
    local name package
    for name in fmt clippy; do
        cargo "$name" --version >/dev/null 2>&1 && continue
        package=$([ "$name" = fmt ] && echo rustfmt || echo clippy)
        if ! have rustup || ! rustup component add "$package"; then
            skipped "cargo $name" "not installed"
            continue
        fi
    done
    ! cargo fmt --version >/dev/null 2>&1 || cargo fmt --all --check
    ! cargo clippy --version >/dev/null 2>&1 || cargo clippy --workspace --all-targets -- -D warnings
}

# Whether the layer builds with the oldest Rust that Cargo.toml declares.
minimum_rust() {
    local version
    version=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
    case $(rust_version) in "$version" | "$version".*) return ;; esac
    # --foreground: in a process group of its own it would outlive a step that fails meanwhile.
    if ! have rustup ||
        ! timeout --foreground 300 rustup toolchain install "$version" --profile minimal --no-self-update >/dev/null 2>&1; then
        skipped "Rust $version" "this is $(rust_version), and the declared minimum is not available here"
        return
    fi
    cargo "+$version" check --workspace --exclude vkstash-remote --all-targets --target-dir "$target/minimum-rust"
}

# Programs load the library, also in containers: it must not need libraries that may be missing there, and must not export
# symbols that could replace a program's own symbols.
library_symbols() {
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
        fail "the layer library contains code that only the tool needs"
    fi
    # What vkstash-remote is made of is in neither the layer nor the tool.
    if cargo tree --locked -e normal --prefix none -p vkstash -p vkstash-tool |
        grep -E '^(object_store|reqwest|rustls|hyper|tokio|minisign[-a-z]*|vkstash-remote) '; then
        fail "the layer or the tool is linked with libraries of vkstash-remote"
    fi
    say "needs: $(tr '\n' ' ' <<<"$needed")"
    say "exports: $(tr '\n' ' ' <<<"$exported")"
}

# Only where somebody has built it: a release build takes minutes.
library_size() {
    local status=0
    "$repository/scripts/size.sh" || status=$?
    case $status in
    0) ;;
    3) skipped "the library's size" "there is no release build of these sources: scripts/size.sh --build" ;;
    *) return "$status" ;;
    esac
}

# This driver comes from the network. If its source is not available, its tests are skipped with a reason, and nothing fails. If the
# source is available, it must build.
khronos_driver=none
khronos_test_driver() {
    local status=0
    "$repository/scripts/khronos-icd.sh" || status=$?
    case $status in
    0) khronos_driver=$(realpath "$target")/khronos/libkhronos_test_icd.so ;;
    3) skipped "the Khronos test driver" "its source is not available here, so layer-tests/tests/khronos.rs is skipped" ;;
    *) fail "the Khronos test driver does not build" ;;
    esac
}

tests() {
    # Drivers and the layer write their caches to a new folder: the suites start without caches of the user, and leave no
    # files there.
    scratch=$(mktemp -d)
    local name
    for name in ${!VKSTASH*} VK_INSTANCE_LAYERS VK_LOADER_LAYERS_ENABLE VK_LOADER_LAYERS_DISABLE; do
        [ "$name" = VKSTASH_CORPUS_VERSION ] || unset "$name"
    done
    local -x XDG_CACHE_HOME=$scratch VKSTASH_SKIPPED=$scratch/skipped VKSTASH_KHRONOS_ICD=$khronos_driver
    local -x VKSTASH_REQUIRE_DRIVERS=0
    : >"$VKSTASH_SKIPPED"
    # With this Mesa every driver that the suites need is here, so a suite that finds no driver is broken.
    if mesa_has_null_device; then VKSTASH_REQUIRE_DRIVERS=1; else say "tests whose driver is missing are skipped"; fi
    # All suites run, even if one fails. On a terminal Cargo's colours are kept although the output goes through a pipe.
    local -x CARGO_TERM_COLOR=$CARGO_TERM_COLOR
    [ ! -t 1 ] || [ "$CARGO_TERM_COLOR" != auto ] || CARGO_TERM_COLOR=always
    local status=0 count reason
    cargo test --workspace --no-fail-fast 2>&1 | tee "$scratch/log" || status=$?
    while read -r count reason; do
        skipped "$([ "$count" = 1 ] && echo "1 test" || echo "$count tests")" "$reason"
    done < <(sort -u "$VKSTASH_SKIPPED" | cut -f 2 | sort | uniq -c)
    return "$status"
}

documentation() {
    # The lints of this package belong to that version of Rust too.
    local -x RUSTDOCFLAGS=
    ! has_rust_of_lints || RUSTDOCFLAGS="-D warnings"
    cargo doc --workspace --no-deps
}

dependencies() {
    if ! have cargo-deny; then
        skipped cargo-deny "not installed: cargo install --locked cargo-deny"
        return
    fi
    cargo deny check licenses bans sources
    # The list of advisories comes from the network.
    if cargo deny fetch db >/dev/null 2>&1; then
        cargo deny check advisories
    else
        skipped advisories "the list cannot be fetched here"
    fi
}

# What no test needs is done beside the tests, which wait for drivers and clocks much of the time, at the lowest priority.
beside= beside_process=
begin_beside() {
    beside=$(mktemp -d)
    # A process group of its own: if a step fails, Cargo and the compilers are ended with the subshell.
    set -m
    (
        trap - EXIT
        renice -n 19 -p "$BASHPID" >/dev/null
        left_out=()
        local each
        for each in minimum_rust documentation dependencies; do
            local began=$SECONDS
            say "== $each"
            "$each"
            say "$each: $((SECONDS - began)) s"
        done
        printf '%s\n' "${left_out[@]}" >"$beside/skipped"
    ) >"$beside/log" 2>&1 &
    beside_process=$!
    set +m
}
finish_beside() {
    local status=0 line
    wait "$beside_process" || status=$?
    beside_process=
    cat "$beside/log"
    [ "$status" = 0 ] || return "$status"
    while read -r line; do [ -z "$line" ] || left_out+=("$line"); done <"$beside/skipped"
}

step "set-up" "$repository/scripts/setup.sh"
step "corpus" "$repository/scripts/corpus.sh"
step "programs" "$repository/scripts/programs.sh"
step "format and lints" lints
step "build" cargo build --workspace
step "library" library_symbols
step "library size" library_size
step "khronos test driver" khronos_test_driver
step "build of the tests" cargo test --workspace --no-run
begin_beside
step "tests" tests
step "what was done beside the tests, and is left of it" finish_beside
