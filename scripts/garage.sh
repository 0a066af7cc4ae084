#!/usr/bin/env bash
# Installs Garage, a distributed store that is compatible with S3, into the target folder: for trying vkstash-remote on
# a real cluster (crates/remote/tests/garage.rs). Compiles for 12 minutes on two cores, and gives one program of 49 MB;
# quick if it is there already. scripts/test.sh does not run this.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

folder=$(target_folder)/garage
program=$folder/bin/garage
if [ ! -x "$program" ]; then
    have cargo || fail "no cargo here: run scripts/setup.sh"
    say "compiling Garage"
    cargo install garage --locked --no-default-features --features bundled-libs,lmdb --root "$folder" ||
        fail "Garage cannot be installed here"
fi
say "ready: $("$program" --version) in $program"
