#!/usr/bin/env bash
# Runs the benchmarks: bench.sh [ARGUMENTS OF vkstash-bench]. Installs and builds what is missing first.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
cd "$repository"

"$repository/scripts/setup.sh"
say "building (release)"
cargo build --release --quiet --workspace
"$repository/scripts/corpus.sh"
choose_driver
exec "$(target_folder)/release/vkstash-bench" "$@"
