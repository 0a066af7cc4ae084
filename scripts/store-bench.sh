#!/usr/bin/env bash
# Compares the store with LMDB, redb, SQLite and one file for each entry: store-bench.sh [OPTIONS OF store-bench run].
# The values go to store-bench/last.json in Cargo's target folder; the measured stores stand beside it and are removed.
#
# --plot as the first option also writes docs/evidence/store-bench.md and store-bench.svg beside it. --plot FILE only
# writes them, from the JSON of an earlier run. --quick is a smoke test that takes seconds. For a million entries:
# --entries 10000,100000,1000000.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

rust_for_redb=1.90

plot=no
if [ "${1:-}" = --plot ]; then
    plot=yes
    shift
fi

rust=$({ cargo --version 2>/dev/null || echo cargo 0; } | awk '{ print $2 }')
version_at_least "$rust" "$rust_for_redb" || fail "it needs Rust $rust_for_redb, this is $rust"

# A separate build: the layer depends on none of these packages. Not --locked: the layer's dependencies may have changed
# since.
folder=$(target_folder)/store-bench
say "building (release)"
cargo build --release --quiet --manifest-path "$repository/layer-tests/store-bench/Cargo.toml" \
    --target-dir "$folder/build"
bench=$folder/build/release/vkstash-store-bench

if [ "$plot" = yes ] && [ "$#" = 1 ] && [ -f "$1" ]; then
    exec "$bench" plot "$1" --docs "$repository/docs/evidence"
fi
[ "$plot" = no ] || set -- "$@" --docs "$repository/docs/evidence"
# Stands before the other options, because these may name another file.
exec "$bench" run --folder "$folder" --json "$folder/last.json" "$@"
