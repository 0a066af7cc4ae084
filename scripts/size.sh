#!/usr/bin/env bash
# Whether the layer's library is as small as it was, and needs what every system has:
#
#   scripts/size.sh            of the release build and of the one for packages, where they are newer than the sources;
#                              ends with 3 if neither is
#   scripts/size.sh --build    builds the one for packages first
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
cd "$repository"
target=$(target_folder)

# Largest sizes in bytes (docs/evidence/data/size.tsv): of the release build without its debug information, of the
# other one as it is shipped.
declare -A most=([release]=3900000 [packaged]=2560000)

if [ "${1:-}" = --build ]; then
    build_packaged library
fi

checked=0
scratch=$(mktemp)
trap 'rm -f "$scratch"' EXIT
for profile in release packaged; do
    library=$target/$profile/libVkLayer_vkstash.so
    [ -e "$library" ] || continue
    newer=$(find src crates/{host,model,recipe,store,sessions}/src Cargo.toml Cargo.lock build.rs -newer "$library" -print -quit)
    if [ -n "$newer" ]; then
        say "$library is older than $newer: not checked"
        continue
    fi
    if [ "$profile" = packaged ]; then cp "$library" "$scratch"; else strip -o "$scratch" "$library"; fi
    bytes=$(stat -c %s "$scratch")
    needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
    say "$library: $bytes bytes of at most ${most[$profile]}; needs $(tr '\n' ' ' <<<"$needed")"
    # libgcc_s: what unwinds a panic to where the layer catches it. ld-linux: thread-local variables.
    odd=$(grep -vE '^(libc|libgcc_s|ld-linux[-a-z0-9_]*)\.so\.[0-9]+$' <<<"$needed" || true)
    [ -z "$odd" ] || fail "$library needs more than the C library and the unwinder: ${odd//$'\n'/ }"
    [ "$bytes" -le "${most[$profile]}" ] || fail "$library is larger than ${most[$profile]} bytes"
    checked=$((checked + 1))
done
[ "$checked" != 0 ] || exit 3
