#!/usr/bin/env bash
# Runs the benchmarks: bench.sh [figures|nvidia|demo] [OPTIONS OF vkstash-bench]; figures is the default.
# First installs missing packages and builds the benchmarks.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
cd "$repository"

prepare_measurements --release --workspace
[ "$#" != 0 ] || set -- figures
# The benchmark chooses the driver for each measurement itself.
exec "$(target_folder)/release/vkstash-bench" "$@"
