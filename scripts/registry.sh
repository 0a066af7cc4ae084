#!/usr/bin/env bash
# Writes the tables of structures of the newest registry of Vulkan that a package has (scripts/setup.sh says which):
# crates/model/src/registry/structures.rs, and docs/evidence/structures.md.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
cd "$repository"

registry=$(target_folder)/registry/vk.xml
[ -e "$registry" ] || fail "there is no registry: run scripts/setup.sh"
table=$(cargo run -q -p vkstash-registry -- "$registry")
printf '%s\n' "$table" >crates/model/src/registry/structures.rs
VKSTASH_PUBLISH_GOLDEN=1 cargo test -q -p vkstash-model --lib structures
