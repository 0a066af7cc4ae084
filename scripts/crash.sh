#!/usr/bin/env bash
# Kills writers at random moments, thousands of times, and reads what they have left.
#
#   scripts/crash.sh [kills]         2000 where nothing is said; some twenty a second
#
# It prints how many records were on disk by their writer's word, and how many of those are lost, wrong or damaged, and
# how many files nobody takes away: all of those must be 0.
set -euo pipefail
cd "$(dirname "$0")/.."

test=tests::crash::what_was_flushed_survives_writers_that_are_killed_at_any_moment
VKSTASH_TEST_KILLS=${1:-2000} cargo test -p vkstash-store --lib "$test" -- --exact --nocapture
