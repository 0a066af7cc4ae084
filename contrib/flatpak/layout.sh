#!/bin/sh
# Lays out the extension from the release's archive, unpacked:
#
#   layout.sh ARCHIVE DESTINATION
#
# DESTINATION stands for /usr/lib/extensions/vulkan/vkstash of the sandbox.
set -eu
from=$1 to=$2
here=$(dirname "$0")
prefix=/usr/lib/extensions/vulkan/vkstash
lib=lib/$(uname -m)-linux-gnu
lib32=lib/i386-linux-gnu

install -D -m 755 -t "$to/bin" "$from/bin/vkstash"
install -D -m 644 -t "$to/$lib" "$from/lib/libVkLayer_vkstash.so"
if [ -e "$from/lib32" ]; then
    install -D -m 644 -t "$to/$lib32" "$from/lib32/libVkLayer_vkstash.so"
    install -D -m 755 -t "$to/$lib32/vkstash" "$from/lib32/vkstash/vkstash-worker"
fi
# Flatpak links the manifests of all extensions into one folder, where the loader finds them, and the loader takes a
# relative path from that folder: so the paths are whole.
for kind in implicit_layer.d explicit_layer.d; do
    mkdir -p "$to/share/vulkan/$kind"
    for manifest in "$from/share/vulkan/$kind"/*.json; do
        sed -e "s|\.\./\.\./\.\./lib32/|$prefix/$lib32/|" -e "s|\.\./\.\./\.\./lib/|$prefix/$lib/|" "$manifest" \
            >"$to/share/vulkan/$kind/$(basename "$manifest")"
    done
done
install -D -m 644 -t "$to/share/metainfo" "$here/org.freedesktop.Platform.VulkanLayer.vkstash.metainfo.xml"
install -D -m 644 -t "$to/share/licenses/vkstash" "$from"/share/doc/vkstash/LICENSE-*
