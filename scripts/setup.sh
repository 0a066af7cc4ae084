#!/usr/bin/env bash
# Installs what building and testing vkstash needs on Debian or Ubuntu. Safe to run again.
set -euo pipefail

sudo=""
[ "$(id -u)" = 0 ] || sudo="sudo"
export DEBIAN_FRONTEND=noninteractive

. /etc/os-release

# Mesa from the distribution's backports suite: RADV's null device needs 24.3 (RADV_FORCE_FAMILY).
# The source entry is derived from the one this machine already uses for its main suite.
add_backports() {
    local target=/etc/apt/sources.list.d/vkstash-backports.sources
    [ "${ID:-}" = debian ] && [ -n "${VERSION_CODENAME:-}" ] || return 0
    local suite="${VERSION_CODENAME}-backports"
    grep -rqs -- "$suite" /etc/apt/sources.list /etc/apt/sources.list.d && return 0
    local uri keyring
    uri=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 2>/dev/null |
        awk -v s="$VERSION_CODENAME" '$1 == s { print $2; exit }')
    [ -n "$uri" ] || return 0
    keyring=$(grep -hs '^Signed-By:' /etc/apt/sources.list.d/*.sources | awk '/debian-archive/ { print $2; exit }')
    {
        echo "Types: deb"
        echo "URIs: $uri"
        echo "Suites: $suite"
        echo "Components: main"
        [ -z "$keyring" ] || echo "Signed-By: $keyring"
    } | $sudo tee "$target" >/dev/null
}

add_backports
$sudo apt-get update -q || true
pkgs="libvulkan1 libvulkan-dev vulkan-tools vulkan-validationlayers mesa-vulkan-drivers gcc libc6-dev"
$sudo apt-get install -y -q --no-install-recommends $pkgs
if [ -e /etc/apt/sources.list.d/vkstash-backports.sources ] || grep -rqs -- "${VERSION_CODENAME}-backports" /etc/apt; then
    $sudo apt-get install -y -q --no-install-recommends -t "${VERSION_CODENAME}-backports" mesa-vulkan-drivers || true
fi
