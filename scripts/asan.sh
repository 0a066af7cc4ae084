#!/usr/bin/env bash
# Runs the tests of capture under AddressSanitizer: what may not be read is not, and nothing is read behind its
# end. Rust's own toolchain carries the sanitizer's runtime; the option for it is not a stable one.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
cd "$repository"

# The fence's own test wants its children to die by the signal.
export ASAN_OPTIONS=handle_segv=0:handle_sigbus=0 RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address
exec cargo test --lib --target "$(uname -m)-unknown-linux-gnu" --target-dir "$(target_folder)/asan" recipe
