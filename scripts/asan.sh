#!/usr/bin/env bash
# Runs the tests of capture under AddressSanitizer: capture must not read pointers that the specification ignores, and
# must not read past the end of an array. Rust's toolchain contains the sanitizer's runtime; the compiler option for it
# is unstable.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
cd "$repository"

# The guard page's own test expects that its child processes die by SIGSEGV, so the sanitizer must not handle the
# signal.
export ASAN_OPTIONS=handle_segv=0:handle_sigbus=0 RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address
exec cargo test --lib --target "$(uname -m)-unknown-linux-gnu" --target-dir "$(target_folder)/asan" recipe
