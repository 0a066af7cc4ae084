#!/usr/bin/env bash
# Shows what vkstash does, on this machine, with real shaders and a real driver: installs what is missing,
# builds, fetches the shaders, runs a program twice with the stash, and prints the times beside those of the
# driver's own caches.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
cd "$repository"

prepare_release
choose_driver

binaries=$(target_folder)/release
stash=$(mktemp -d)
trap 'rm -rf "$stash"' EXIT
# A new folder for the driver's disk caches too, so that each demonstration starts without any cache.
export XDG_CACHE_HOME="$stash/cache" __GL_SHADER_DISK_CACHE_PATH="$stash/cache"
mkdir "$stash/cache"

for run in "first run, nothing recorded yet" "second run"; do
    say "$run: vkstash run -- vkstash-corpus"
    "$binaries/vkstash" run --dir "$stash/stash" -- "$binaries/vkstash-corpus" --modules "$repository/corpus" "$@"
done
say "what the stash did: vkstash stats"
"$binaries/vkstash" stats --dir "$stash/stash"

say "the same pipelines in each way"
"$binaries/vkstash-bench" demo --modules "$repository/corpus" "$@"
say "done"
