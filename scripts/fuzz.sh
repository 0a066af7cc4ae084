#!/usr/bin/env bash
# The store's long run: damaged, truncated and forged files and archives, killed writers, and failing file operations,
# with new seeds in each round.
#
#   scripts/fuzz.sh [minutes]        60 by default; prints each failure with its seed, and continues
set -euo pipefail
cd "$(dirname "$0")/.."

minutes=${1:-60}
until=$((SECONDS + minutes * 60))
seed=$((RANDOM << 32 | RANDOM << 16 | RANDOM)) rounds=0 failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cargo test -p vkstash-store -p vkstash-tool --no-run

round() {
    local package=$1 test=$2 seeds=$3
    if ! VKSTASH_TEST_FIRST_SEED=$seed VKSTASH_TEST_SEEDS=$seeds cargo test --quiet -p "$package" \
        "$test" -- --nocapture >"$log" 2>&1; then
        failed=$((failed + 1))
        echo "FAILED: VKSTASH_TEST_FIRST_SEED=$seed VKSTASH_TEST_SEEDS=$seeds cargo test -p $package $test"
        grep -A3 panicked "$log" || tail -n 20 "$log"
    fi
}

while [ "$SECONDS" -lt "$until" ]; do
    round vkstash-store tests::fuzz 20000
    round vkstash-store tests::hostile 20000
    round vkstash-store tests::bit_flips 500
    round vkstash-store tests::forged_records 2000
    round vkstash-store tests::same 5000
    round vkstash-exchange tests::fuzz 5000
    round vkstash-exchange tests::foz 5000
    VKSTASH_TEST_EVERY_CASE=1 round vkstash-store tests::faults 5000
    VKSTASH_TEST_KILLS=400 round vkstash-store tests::crash 1
    rounds=$((rounds + 1))
    seed=$((seed + 20000))
    echo "$rounds rounds, $failed failures"
done
[ "$failed" = 0 ]
