#!/bin/bash
# driver-update.sh [OPTION...]: what a user finds after an update of the driver, with two real drivers: RADV's null
# device of the distribution's older Mesa package, which is unpacked aside, and of the installed one. Options are for
# `vkstash-bench update`: --programs has real programs (scripts/programs.sh) in place of the client. Other options of
# vkstash-bench stand in BENCH, for instance BENCH="--rounds 3 --count 60". Needs a release build, the corpus
# (scripts/corpus.sh), and two versions of mesa-vulkan-drivers in apt's lists.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
older_mesa "$folder" || exit 0
# shellcheck disable=SC2086 # several options
target/release/vkstash-bench ${BENCH:-} update --older "$folder/older.json" "$@"
