#!/usr/bin/env bash
# Runs the benchmarks: bench.sh [figures|nvidia|demo] [OPTIONS OF vkstash-bench]; figures where none is named.
# Installs and builds what is missing first.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
cd "$repository"

prepare_release
[ "$#" != 0 ] || set -- figures
# It chooses the drivers itself, each for what is measured on it.
exec "$(target_folder)/release/vkstash-bench" "$@"
