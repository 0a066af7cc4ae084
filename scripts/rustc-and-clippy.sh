#!/usr/bin/env bash
# For Cargo's RUSTC_WORKSPACE_WRAPPER: checks a crate of the workspace with Clippy, and then compiles it. `cargo clippy`
# would check every dependency a second time for its own build (150 of 240 seconds of processor time).
#
#   rustc-and-clippy.sh RUSTC ARGUMENT...
#
# Clippy's results go to a folder of their own: what is linked and run comes from rustc alone. A warning is an error.
set -euo pipefail
# Cargo's questions about the compiler name no crate.
case " $* " in *" --crate-name ___ "* | *" -vV "*) exec "$@" ;; esac

out=$(mktemp -d)
arguments=()
previous=
for argument in "$@"; do
    case $argument in
    --emit=*) argument=--emit=metadata ;;
    # "artifacts" would tell Cargo that the crate is compiled.
    --json=*) argument=${argument/artifacts,/} ;;
    incremental=*) [ "$previous" != -C ] || { unset 'arguments[-1]' && previous= && continue; } ;;
    esac
    [ "$previous" != --out-dir ] || argument=$out
    previous=$argument
    arguments+=("$argument")
done
status=0
CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__ clippy-driver "${arguments[@]}" || status=$?
rm -rf "$out"
[ "$status" = 0 ] || exit "$status"
exec "$@"
