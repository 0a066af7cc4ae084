#!/usr/bin/env bash
# Shows what vkstash does, on this machine, with real shaders and a real driver: installs what is missing, builds,
# fetches the shaders, prints the times beside those of the driver's own caches, and runs a program twice with the
# stash.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
cd "$repository"

prepare_measurements --profile demo -p vkstash -p vkstash-tool -p vkstash-layer-tests --lib \
    --bin vkstash --bin vkstash-corpus --bin vkstash-bench
choose_driver
# All shaders take three times as long to compile.
[ "$#" != 0 ] || set -- --count 60

binaries=$(target_folder)/demo
stash=$(mktemp -d)
trap 'rm -rf "$stash"' EXIT
# A new folder for the driver's disk caches too, so that each demonstration starts without any cache.
export XDG_CACHE_HOME="$stash/cache" __GL_SHADER_DISK_CACHE_PATH="$stash/cache"
mkdir "$stash/cache"

say "the same pipelines in each way"
"$binaries/vkstash-bench" demo --modules "$repository/corpus" "$@"

for run in "first run, nothing recorded yet" "second run"; do
    # The first run has filled the driver's disk cache too, and on a busy machine that may be asked first.
    say "$run: VKSTASH_ASK_FIRST=stash vkstash run -- vkstash-corpus"
    VKSTASH_ASK_FIRST=stash "$binaries/vkstash" run --dir "$stash/stash" -- \
        "$binaries/vkstash-corpus" --modules "$repository/corpus" "$@"
done
say "what the stash did: vkstash stats"
"$binaries/vkstash" stats --dir "$stash/stash"

say "done"
