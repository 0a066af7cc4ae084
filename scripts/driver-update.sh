#!/bin/bash
# driver-update.sh [OPTION...]: what a user finds after an update of the driver, with two real drivers: RADV's null
# device of the distribution's older Mesa package, which is unpacked aside, and of the installed one. Options are for
# `vkstash-bench update`: --programs has real programs (scripts/programs.sh) in place of the client. Other options of
# vkstash-bench stand in BENCH, for instance BENCH="--rounds 3 --count 60". Needs a release build, the corpus
# (scripts/corpus.sh), and two versions of mesa-vulkan-drivers in apt's lists.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

installed=$(dpkg-query -W -f '${Version}' mesa-vulkan-drivers)
older=$(apt-cache madison mesa-vulkan-drivers | awk '{ print $3 }' | sort -uV | head -n 1)
if [ "$older" = "$installed" ]; then
    echo "SKIPPED: apt knows one version of mesa-vulkan-drivers only"
    exit 0
fi
(cd "$folder" && apt-get -o APT::Sandbox::User=root download "mesa-vulkan-drivers=$older" >/dev/null)
dpkg -x "$folder"/mesa-vulkan-drivers_*.deb "$folder/older"
library=$(find "$folder/older" -name libvulkan_radeon.so)
echo "{\"file_format_version\":\"1.0.0\",\"ICD\":{\"library_path\":\"$library\",\"api_version\":\"1.3.0\"}}" \
    >"$folder/older.json"

echo "older driver: Mesa $older; present driver: Mesa $installed"
# shellcheck disable=SC2086 # several options
target/release/vkstash-bench ${BENCH:-} update --older "$folder/older.json" "$@"
