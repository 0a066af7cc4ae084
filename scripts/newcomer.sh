#!/usr/bin/env bash
# From the Debian package to the first pipeline that the stash serves, on a fresh system: installs the package in an
# empty root of a distribution, runs vkcube twice as a new user, and prints how long that took. Fails unless the second
# run got all its pipelines ready made. Needs root, debootstrap and the network.
#
#   scripts/newcomer.sh SUITE [FOLDER]     bookworm, trixie or noble; FOLDER has the package, target/packages without it
#
# The packages come from the mirror that this machine's apt uses for that distribution, or from NEWCOMER_MIRROR.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

suite=${1:-} install=() components=main
case $suite in
bookworm) # Its own Mesa (22.3.6) has no fake render node.
    origin=Debian install=(-t bookworm-backports) ;;
trixie) origin=Debian ;;
noble) origin=Ubuntu components="main universe" ;;
*) fail "name a suite: bookworm, trixie or noble" ;;
esac
packages=${2:-$(target_folder)/packages}
package=$(find "$packages" -name "vkstash_*_$(dpkg --print-architecture).deb" 2>/dev/null | sort -V | tail -n 1) || true
[ -n "$package" ] || fail "no package vkstash in $packages: scripts/package.sh makes it"
[ "$(id -u)" = 0 ] || fail "needs root"
have debootstrap || fail "needs debootstrap"
# shellcheck disable=SC2016 # apt's own variable
mirror=${NEWCOMER_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' "Origin: $origin" "Label: $origin" |
    sort -u | head -n 1)}
[ -n "$mirror" ] || fail "apt knows no mirror of $origin here: NEWCOMER_MIRROR=ADDRESS names one"

scratch=$(mktemp -d)
trap 'rm -rf --one-file-system "$scratch"' EXIT
root=$scratch/root

# What is mounted below the root belongs to a namespace, and is gone when its last process ends.
say "making a root of $suite with debootstrap"
unshare --mount debootstrap --force-check-gpg --variant=minbase --components="${components// /,}" \
    "$suite" "$root" "$mirror" >"$scratch/log" 2>&1 || fail "debootstrap: $(tail -n 5 "$scratch/log")"
for release in "$suite" "$suite-updates" "$suite-backports"; do
    echo "deb $mirror $release $components"
done >"$root/etc/apt/sources.list"
cp "$package" "$root/opt/"

# Runs in the root. The variables stand for a GPU: RADV on Mesa's fake render node, whose pictures are copied to the
# X server. Mesa's own disk cache, which would serve the second run too, is off.
cat >"$root/opt/newcomer" <<'INSIDE'
set -eu
took() { echo "$1=$(($(date +%s%N) - start))" >>/opt/times && start=$(date +%s%N); }
apt() { DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@"; }
as_user() { su --login newcomer --command "$*"; }
apt update
useradd --create-home newcomer
start=$(date +%s%N)
apt install --no-install-recommends "$@" mesa-vulkan-drivers mesa-drm-shim vulkan-tools xvfb xauth
took distribution
cat >/etc/profile.d/gpu.sh <<GPU
export VK_DRIVER_FILES=$(echo /usr/share/vulkan/icd.d/radeon_icd*.json) AMDGPU_GPU_ID=navi21
export VK_ICD_FILENAMES=\$VK_DRIVER_FILES MESA_VK_WSI_DEBUG=sw,linear MESA_SHADER_CACHE_DISABLE=true
GPU
shim=$(dpkg -L mesa-drm-shim | grep /libamdgpu_noop_drm_shim.so)
start=$(date +%s%N)
apt install /opt/vkstash_*.deb
took package
for run in first second; do
    as_user "VKSTASH=1 xvfb-run -a env LD_PRELOAD=$shim vkcube --c 20"
    took "$run"
done
as_user "vkstash stats"
as_user "vkstash stats --json" >/opt/stats.json
dpkg-query -W -f 'mesa=${Version}\n' mesa-vulkan-drivers >>/opt/times
INSIDE
say "installing Mesa, vkcube and $(basename "$package"), and running vkcube twice"
unshare --mount --pid --fork --root="$root" --mount-proc timeout 1800 bash /opt/newcomer "${install[@]}" \
    >"$scratch/log" 2>&1 || fail "in the root: $(tail -n 20 "$scratch/log")"

python3 - "$suite" "$root/opt/stats.json" "$root/opt/times" <<'RESULT' || fail "$(tail -n 20 "$scratch/log")"
import json, sys

suite, stats, times = sys.argv[1:]
took = dict(line.strip().split("=", 1) for line in open(times))
programs = json.load(open(stats))["applications"]
if [program["runs"] for program in programs] != [2]:
    sys.exit("the stash does not have two runs of one program")
run = programs[0]["last_run"]
counters = run["counters"]
ready = counters["served"] + counters["parked"]
if ready == 0 or ready != run["pipelines"]:
    sys.exit(f"the second run got {ready} of {run['pipelines']} pipelines from the stash")
parts = ("distribution", "package", "first", "second")
distribution, package, first, second = (int(took[part]) / 1e9 for part in parts)
print(f"{suite}, Mesa {took['mesa']}: {package + first + second:.1f} s from apt install to the end of the run that was"
      f" served {ready} of {ready} pipelines (package {package:.1f} s, first run {first:.1f} s, second run"
      f" {second:.1f} s); before, apt took {distribution:.1f} s for Mesa and vkcube")
RESULT
