#!/usr/bin/env bash
# Fills ./corpus with real compute shaders: the SPIR-V modules of a published npm package. The repository does not
# contain them, because others own them. Quick if they are already there.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

package=@node-llama-cpp/linux-x64-vulkan
# A fixed version: numbers of different days then come from the same shaders.
version=${VKSTASH_CORPUS_VERSION:-3.22.1}
corpus=$repository/corpus

complete() {
    [ "$(cat "$corpus/source" 2>/dev/null)" = "$package@$version" ] && [ -s "$corpus/index.tsv" ] || return 1
    local listed present
    listed=$(($(wc -l <"$corpus/index.tsv") - 1))
    present=$(find "$corpus" -maxdepth 1 -name '*.spv' | wc -l)
    [ "$listed" -gt 0 ] && [ "$listed" = "$present" ]
}

if complete; then
    say "corpus: $(($(wc -l <"$corpus/index.tsv") - 1)) modules of $package@$version are already there"
    exit 0
fi
if ! have npm || ! have python3; then
    fail "npm and python3 are needed; run scripts/setup.sh"
fi

mkdir -p "$(target_folder)"
work=$(mktemp -d "$(target_folder)/corpus.XXXXXX")
trap 'rm -rf "$work"' EXIT
say "fetching $package@$version with npm"
(cd "$work" && npm pack --silent --ignore-scripts "$package@$version" >/dev/null) ||
    fail "npm could not fetch $package@$version (VKSTASH_CORPUS_VERSION chooses another)"
tar -xzf "$work"/*.tgz -C "$work"
library=$(find "$work/package" -name libggml-vulkan.so | head -n 1)
[ -n "$library" ] || fail "$package@$version has no libggml-vulkan.so"

say "extracting the modules from $(basename "$library")"
python3 "$repository/scripts/extract_spirv.py" "$library" "$work/corpus"
echo "$package@$version" >"$work/corpus/source"
# The folder gets its final name only when it is complete.
rm -rf "$corpus"
chmod 755 "$work/corpus"
mv "$work/corpus" "$corpus"
say "corpus: in $corpus"
