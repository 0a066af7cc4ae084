#!/usr/bin/env bash
# All checks that a change must pass. First installs missing packages.
#
#   scripts/test.sh          what every change must pass
#   scripts/test.sh --all    before a release, and at night: also the exhaustive tests, an S3 server, real programs on
#                            lavapipe, programs of Windows in Wine, the suites on the layer as the compiler optimises
#                            it, the library's size, the packages, the oldest Rust, the documentation and the
#                            dependencies
#
# All steps use one build profile (dev): the workspace is compiled once, and the suites run with overflow checks and
# debug assertions. The last lines say what failed, what passed only when it ran once more (FLAKY), and what was
# skipped.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source-path=SCRIPTDIR source=suites.sh
. "$(dirname "$0")/suites.sh"
cd "$repository"

all=no
case ${1:-} in
"") ;;
--all) all=yes ;;
*) fail "unknown option $1 (there is --all)" ;;
esac

export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-auto}
target=$(target_folder)
scratch=$(mktemp -d)
skipped_file=$scratch/skipped
: >"$skipped_file"

names=() seconds=()
# For the last lines: skipped checks, tests that passed when they ran once more, tests that failed twice.
left_out=() flaky=() failures=()
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
report() {
    local status=$? i text count reason
    trap - EXIT
    while read -r count reason; do
        left_out+=("$count of the tests ($reason)")
    done < <(sort -u "$skipped_file" | cut -f 2 | sort | uniq -c)
    for i in "${!names[@]}"; do printf '%6d s  %s\n' "${seconds[$i]}" "${names[$i]}"; done
    printf '%6d s  in all\n' "$SECONDS"
    [ "${#failures[@]}" = 0 ] || printf 'FAILED: %s\n' "${failures[@]}"
    [ "${#flaky[@]}" = 0 ] || printf 'FLAKY: %s\n' "${flaky[@]}"
    text=$([ "${#left_out[@]}" = 0 ] || printf '%s; ' "${left_out[@]}")
    [ -z "$text" ] || text="SKIPPED: ${text%; }"
    if [ "$status" != 0 ]; then
        [ -z "$text" ] || say "$text"
        say "FAILED in the step: $current"
    else
        say "all steps passed${text:+; $text}"
    fi
    rm -rf "$scratch"
    exit "$status"
}
trap report EXIT

format() {
    if ! has_rust_of_lints || ! cargo fmt --version >/dev/null 2>&1; then
        skipped "format" "it needs rustfmt of Rust $rust_of_lints, this is $(rust_version)"
        return
    fi
    cargo fmt --all --check
}

# Everything is compiled once. Lints differ between versions of Rust, so only the chosen version decides.
build() {
    if has_rust_of_lints && have clippy-driver; then
        export RUSTC_WORKSPACE_WRAPPER=$repository/scripts/rustc-and-clippy.sh
    else
        skipped "lints" "they need Clippy of Rust $rust_of_lints, this is $(rust_version)"
    fi
    # On a new checkout nothing is compiled a second time, so what incremental compiling records is for nobody.
    [ -z "${CI:-}" ] || export CARGO_INCREMENTAL=0
    mapfile -t packages < <(packages_of "$profile")
    cargo build "${packages[@]}" --lib --bins --tests --examples
}

# Whether the layer builds with the oldest Rust that Cargo.toml declares.
minimum_rust() {
    local version
    version=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
    case $(rust_version) in "$version" | "$version".*) return ;; esac
    if ! have rustup ||
        ! timeout 300 rustup toolchain install "$version" --profile minimal --no-self-update >/dev/null 2>&1; then
        skipped "Rust $version" "this is $(rust_version), and the declared minimum is not available here"
        return
    fi
    env -u RUSTC_WORKSPACE_WRAPPER cargo "+$version" check --workspace --exclude vkstash-remote \
        --exclude vkstash-remote-s3 --all-targets --target-dir "$target/minimum-rust"
}

# Programs load the library, also in containers: it must not need libraries that may be missing there, and must not
# export symbols that could replace a program's own symbols.
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
    # Programs are linked with what they have in common with the layer (crates/model), and not with the layer.
    if cargo tree --locked -e normal --prefix none -p vkstash-tool -p vkstash-remote |
        grep -E '^(vkstash|libloading) '; then
        fail "the tool or vkstash-remote is linked with the layer, or with a loader of Vulkan"
    fi
    # What vkstash-remote is made of is in neither the layer nor the tool.
    if cargo tree --locked -e normal --prefix none -p vkstash -p vkstash-tool |
        grep -E '^(object_store|reqwest|rustls|hyper|tokio|minisign[-a-z]*|vkstash-remote) '; then
        fail "the layer or the tool is linked with libraries of vkstash-remote"
    fi
    say "needs: $(tr '\n' ' ' <<<"$needed")"
    say "exports: $(tr '\n' ' ' <<<"$exported")"
}

# This driver comes from the network. If its source is not available, its tests are skipped with a reason, and nothing
# fails. If the source is available, it must build.
khronos_test_driver() {
    local status=0
    "$repository/scripts/khronos-icd.sh" || status=$?
    case $status in
    0) khronos_driver=$(realpath "$target")/khronos/libkhronos_test_icd.so ;;
    3) skipped "the Khronos test driver" \
        "its source is not available here, so layer-tests/tests/khronos.rs is skipped" ;;
    *) fail "the Khronos test driver does not build" ;;
    esac
}

# Runs the suites. What failed runs once more, alone: a test that passes then is named in the last lines and does not
# fail the run; it is repaired before anything else is begun.
tests() {
    local profile=$1 first=$scratch/failed second=$scratch/failed-again
    suites "$profile" "$first" "${@:2}"
    [ -s "$first" ] || return 0
    say "once more, alone: $(wc -l <"$first") tests"
    suites_again "$profile" "$first" "$second"
    mapfile -t -O "${#flaky[@]}" flaky < <(grep -vxFf "$second" "$first")
    mapfile -t failures <"$second"
    [ "${#failures[@]}" = 0 ]
}

optimised_layer() {
    cargo build --profile optimised -p vkstash --lib
    VKSTASH_LAYER_LIBRARY=$(realpath "$target")/optimised/libVkLayer_vkstash.so \
        tests landing -E 'package(vkstash-layer-tests)'
}

documentation() {
    # The lints of this package belong to that version of Rust too.
    local -x RUSTDOCFLAGS=
    ! has_rust_of_lints || RUSTDOCFLAGS="-D warnings"
    cargo doc --workspace --no-deps
    cargo test --workspace --doc
}

# Programs of Windows in a root of their own, where this machine can have one.
chain() {
    local status=0 log=$scratch/chain
    "$repository/scripts/chain.sh" --check >"$log" 2>&1 || status=$?
    cat "$log"
    case $status in
    0) ;;
    3) skipped "programs of Windows in Wine" "$(sed -n 's/^SKIPPED: //p' "$log" | tail -n 1)" ;;
    *) fail "programs of Windows do not do the same with the layer" ;;
    esac
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

install_suites() {
    "$repository/scripts/setup.sh"
    "$repository/scripts/corpus.sh"
    install_nextest
}

# Programs that are fetched, not compiled, unless everything is asked for.
programs=(--fetched) profile=landing
[ "$all" = no ] || programs=() profile=all

step "set-up" install_suites
step "programs" "$repository/scripts/programs.sh" "${programs[@]}"
step "Khronos test driver" khronos_test_driver
step "format" format
step "build and lints" build
step "library" library_symbols
if [ "$all" = no ]; then
    step "tests" tests "$profile"
    left_to_all="exhaustive tests, S3 server, real programs on lavapipe, programs of Windows, optimised layer"
    left_to_all+=", library size, packages, oldest Rust, documentation, dependencies"
    skipped "$left_to_all" "scripts/test.sh --all"
else
    step "tests" tests "$profile"
    step "tests of the optimised layer" optimised_layer
    step "library size" "$repository/scripts/size.sh" --build
    step "packages" "$repository/scripts/package.sh" --check
    if have flatpak; then
        step "Flatpak extension" "$repository/scripts/flatpak.sh" --check
    else
        skipped "Flatpak extension" "no flatpak here"
    fi
    step "programs of Windows" chain
    step "oldest Rust" minimum_rust
    step "documentation" documentation
    step "dependencies" dependencies
fi
