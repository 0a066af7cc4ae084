#!/usr/bin/env bash
# Measures the store against LMDB, redb, SQLite and one file an entry: store-bench.sh [OPTIONS OF store-bench run].
# Its values go to store-bench/last.json in Cargo's target folder, the stores (and nothing that stays) beside it.
#
# With --plot first: also writes docs/store-bench.md and docs/store-bench.svg. With --plot FILE: only that, from the
# JSON of an earlier run.
# --quick is a smoke test of seconds. A million entries: --entries 10000,100000,1000000.
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

# A build of its own: none of it is the layer's. Not --locked: what the layer depends on may have changed since.
folder=$(target_folder)/store-bench
say "building (release)"
cargo build --release --quiet --manifest-path "$repository/layer-tests/store-bench/Cargo.toml" \
    --target-dir "$folder/build"
bench=$folder/build/release/vkstash-store-bench

if [ "$plot" = yes ] && [ "$#" = 1 ] && [ -f "$1" ]; then
    exec "$bench" plot "$1" --docs "$repository/docs"
fi
[ "$plot" = no ] || set -- "$@" --docs "$repository/docs"
# Before the other options, which may name another file.
exec "$bench" run --folder "$folder" --json "$folder/last.json" "$@"
