# The suites, as scripts/test.sh and scripts/flaky.sh run them; sourced after lib.sh, not run.
# shellcheck shell=bash

# Where nextest is missing: the newest version that this Rust compiles.
install_nextest() {
    ! have cargo-nextest || return 0
    local version=0.9.100
    ! version_at_least "$(rust_version)" 1.91 || version=0.9.143
    say "installing cargo-nextest $version, which takes some minutes"
    cargo install --quiet --locked "cargo-nextest@$version" --target-dir "$(target_folder)/nextest-build"
    rm -rf "$(target_folder)/nextest-build"
    PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
}

# Set by the caller, once: the Khronos test driver, or "none".
khronos_driver=none

# The packages whose tests a profile runs, one argument of Cargo a line.
packages_of() {
    echo --workspace
    [ "$1" = all ] || printf '%s\n' --exclude vkstash-remote-s3
}

# suites PROFILE FAILED ARGUMENT...: runs the suites with a profile of .config/nextest.toml; writes a line "BINARY TEST"
# for each test that failed to the file FAILED, and appends the reasons of skipped tests to the file that skipped_file
# names. More tests at once than processors, because many wait for drivers and threads.
#
# Drivers and the layer write their caches to a new folder: the suites start without caches of the user, and leave no
# files there.
skipped_file=
suites() {
    local profile=$1 failed=$2 name scratch said status=0 report packages
    shift 2
    mapfile -t packages < <(packages_of "$profile")
    scratch=$(mktemp -d)
    said=$(mktemp)
    (
        for name in ${!VKSTASH*} VK_INSTANCE_LAYERS VK_LOADER_LAYERS_ENABLE VK_LOADER_LAYERS_DISABLE; do
            case $name in VKSTASH_CORPUS_VERSION | VKSTASH_LAYER_LIBRARY) ;; *) unset "$name" ;; esac
        done
        export XDG_CACHE_HOME=$scratch VKSTASH_SKIPPED=$skipped_file VKSTASH_KHRONOS_ICD=$khronos_driver
        [ "$profile" != all ] || export VKSTASH_TEST_EVERY_CASE=1
        # With this Mesa every driver that the suites need is here, so a suite that finds no driver is broken.
        export VKSTASH_REQUIRE_DRIVERS=0
        ! mesa_has_null_device || export VKSTASH_REQUIRE_DRIVERS=1
        cargo nextest run "${packages[@]}" --lib --bins --tests --examples --profile "$profile" \
            --no-fail-fast --hide-progress-bar --test-threads "${threads:-$((3 * $(nproc)))}" "$@" \
            2>&1 | tee "$said"
    ) || status=$?
    # The tests that have failed before a signal ended the run are not all that may fail.
    ! grep -q "not run due to" "$said" || status=1
    rm -rf "$scratch" "$said"
    report=$(target_folder)/nextest/$profile/junit.xml
    : >"$failed"
    [ "$status" != 0 ] || return 0
    # Every other status means that the suites did not run.
    [ "$status" = 100 ] || fail "the suites did not run"
    python3 - "$report" >"$failed" <<'PYTHON'
import sys, xml.etree.ElementTree as tree
for suite in tree.parse(sys.argv[1]).getroot().iter("testsuite"):
    for case in suite.iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            print(suite.get("name"), case.get("name"))
PYTHON
    [ -s "$failed" ] || fail "the suites failed, and $report names no test"
}

# suites_again PROFILE NAMED FAILED: runs the tests in the file NAMED once more, one by one; FAILED as above.
suites_again() {
    local binary test filter=
    while read -r binary test; do filter+="${filter:+ + }(binary_id(=$binary) & test(=$test))"; done <"$2"
    threads=1 suites "$1" "$3" -E "$filter"
}
