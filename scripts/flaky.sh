#!/usr/bin/env bash
# Repeats the suites of scripts/test.sh, and prints which tests failed and in how many of the runs.
#
#   scripts/flaky.sh N           beside two endless loops and a compiler, which take both processors of a small machine
#   scripts/flaky.sh --alone N   beside nothing
#
# Fails if a test failed. What scripts/test.sh prepares (drivers, programs, shaders) must be there.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source-path=SCRIPTDIR source=suites.sh
. "$(dirname "$0")/suites.sh"
cd "$repository"

load=yes
if [ "${1:-}" = --alone ]; then
    load=no
    shift
fi
runs=${1:-}
[[ $runs =~ ^[1-9][0-9]*$ ]] || fail "how often? scripts/flaky.sh [--alone] N"

scratch=$(mktemp -d)
# Used by suites.sh.
# shellcheck disable=SC2034
skipped_file=$scratch/skipped
loads=()
end() {
    # Each load is a process group: a compiler has children.
    for group in "${loads[@]}"; do kill -- "-$group" 2>/dev/null || true; done
    rm -rf "$scratch"
}
trap end EXIT

# Used by suites.sh.
# shellcheck disable=SC2034
[ ! -e "$(target_folder)/khronos/libkhronos_test_icd.so" ] ||
    khronos_driver=$(realpath "$(target_folder)")/khronos/libkhronos_test_icd.so
mapfile -t packages < <(packages_of landing)
cargo build "${packages[@]}" --lib --bins --tests --examples

beside() {
    setsid bash -c "$1" >/dev/null 2>&1 &
    loads+=($!)
}
if [ "$load" = yes ]; then
    beside 'while :; do :; done'
    beside 'while :; do :; done'
    beside "while :; do rm -rf '$scratch/load'; cargo build -p vkstash-store --target-dir '$scratch/load'; done"
fi

for ((run = 1; run <= runs; run++)); do
    suites landing "$scratch/failed $run"
    say "run $run of $runs: $(wc -l <"$scratch/failed $run") tests failed"
done
cat "$scratch"/failed\ * | sort | uniq -c | while read -r count name; do
    printf '%s -> %s of %s runs\n' "$name" "$count" "$runs"
done
failed=$(cat "$scratch"/failed\ * | sort -u | wc -l)
say "$failed tests failed in $runs runs$([ "$load" = no ] || printf ' beside a load')"
[ "$failed" = 0 ]
