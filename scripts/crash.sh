#!/usr/bin/env bash
# Kills writers at random moments, thousands of times, and reads the files that they left.
#
#   scripts/crash.sh [kills]         2000 by default, about twenty each second
#
# It prints how many records the writers had reported as written, how many of these records are lost, wrong or damaged,
# and how many stale files no process removes. All numbers except the first must be 0.
set -euo pipefail
cd "$(dirname "$0")/.."

test=tests::crash::flushed_records_survive_writers_that_are_killed_at_any_moment
VKSTASH_TEST_KILLS=${1:-2000} cargo test -p vkstash-store --lib "$test" -- --exact --nocapture
