#!/usr/bin/env bash
# Builds a Debian package and an archive of a release, for this machine's architecture:
#
#   scripts/package.sh [FOLDER]     into this folder, or target/packages
#   scripts/package.sh --check      the same, and installs and removes both in empty folders, as a test
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
cd "$repository"
target=$(target_folder)

check=
[ "${1:-}" != --check ] || { check=yes && shift; }
have dpkg-deb || fail "needs dpkg-deb, of the package dpkg"
have readelf || fail "needs readelf, of the package binutils"
mkdir -p "${1:-$target/packages}"
packages=$(cd "${1:-$target/packages}" && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
architecture=$(dpkg --print-architecture)
triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || gcc -print-multiarch)
library=usr/lib/$triplet/libVkLayer_vkstash.so

say "building"
build_packaged

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
stage=$scratch/stage
install -D -m 755 "$target/packaged/vkstash" "$stage/usr/bin/vkstash"
install -D -m 644 "$target/packaged/libVkLayer_vkstash.so" "$stage/$library"
tool=$stage/usr/bin/vkstash

# The loader's manifests, the header and the file for pkg-config.
"$tool" install --prefix /usr --destdir "$stage" --library "/$library" >/dev/null
share=$stage/usr/share
"$tool" man "$share/man/man1"
gzip -9n "$share"/man/man1/*.1
mkdir -p "$share/bash-completion/completions" "$share/zsh/vendor-completions" "$share/fish/vendor_completions.d"
"$tool" completions bash >"$share/bash-completion/completions/vkstash"
"$tool" completions zsh >"$share/zsh/vendor-completions/_vkstash"
"$tool" completions fish >"$share/fish/vendor_completions.d/vkstash.fish"
mkdir -p "$share/doc/vkstash"
cp -r README.md LICENSE-MIT LICENSE-APACHE docs "$share/doc/vkstash/"
cat LICENSE-MIT LICENSE-APACHE >"$share/doc/vkstash/copyright"
find "$stage" -type d -exec chmod 755 {} +
find "$share" "$stage/usr/include" -type f -exec chmod 644 {} +

# The newest version of the C library that a symbol of it asks for.
glibc=$(readelf -W --dyn-syms "$tool" "$stage/$library" | grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -n 1)
glibc=${glibc#GLIBC_}
needed=$(readelf -d "$tool" "$stage/$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u)
odd=$(grep -vE '^(libc|libgcc_s|libm|ld-linux[-a-z0-9_]*)\.so\.[0-9]+$' <<<"$needed" || true)
[ -z "$odd" ] || fail "needs more than the C library and the unwinder: ${odd//$'\n'/ }"
say "needs the C library $glibc or newer, and nothing else but the unwinder"

archive=vkstash-$version-$architecture-linux
mkdir "$scratch/$archive"
cp -r "$stage/usr/." "$scratch/$archive/"
# They name /usr: `bin/vkstash install` writes them for the place where the archive was unpacked.
rm -rf "$scratch/$archive/share/vulkan" "$scratch/$archive/include"
find "$scratch/$archive" -name pkgconfig -exec rm -rf {} +
tar -C "$scratch" --sort=name --owner=0 --group=0 --numeric-owner -cJf "$packages/$archive.tar.xz" "$archive"

mkdir "$stage/DEBIAN"
cat >"$stage/DEBIAN/control" <<CONTROL
Package: vkstash
Version: $version
Architecture: $architecture
Maintainer: the developers of vkstash <vkstash@localhost>
Installed-Size: $(du -sk "$stage/usr" | cut -f 1)
Depends: libc6 (>= $glibc), libgcc-s1
Recommends: libvulkan1
Section: libs
Priority: optional
Description: pipeline stash for Vulkan programs
 A Vulkan layer that keeps what drivers compile for each pipeline, and gives it
 back in later runs, and a tool that runs programs with it. The layer is off
 until VKSTASH=1 is set, or a program is run with "vkstash run".
CONTROL
deb=$packages/vkstash_${version}_$architecture.deb
dpkg-deb --root-owner-group --build "$stage" "$deb" >/dev/null
say "$deb: $(stat -c %s "$deb") bytes"
say "$packages/$archive.tar.xz: $(stat -c %s "$packages/$archive.tar.xz") bytes"
[ -n "$check" ] || exit 0

say "checking the archive"
mkdir "$scratch/home" "$scratch/opt"
tar -C "$scratch/opt" -xJf "$packages/$archive.tar.xz"
unpacked=$scratch/opt/$archive
as_user() { env -i PATH="$PATH" HOME="$scratch/home" "$unpacked/bin/vkstash" "$@"; }
as_user install >/dev/null
manifest=$(find "$scratch/home" -name '*.json' -path '*implicit_layer.d*')
grep -q "\"$unpacked/lib/$triplet/libVkLayer_vkstash.so\"" "$manifest" || fail "$manifest names another library"
as_user uninstall >/dev/null
left=$(find "$scratch/home" -type f)
[ -z "$left" ] || fail "uninstall leaves $left"

if [ "$(id -u)" != 0 ]; then
    say "SKIPPED: the Debian package is not installed: that needs root"
    exit 0
fi
say "checking the package"
root=$scratch/root
mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates"
touch "$root/var/lib/dpkg/status"
# Nothing else is in that root, not even the C library.
in_root() { dpkg --root="$root" --force-depends "$@" >"$scratch/dpkg.log" 2>&1 || fail "$(cat "$scratch/dpkg.log")"; }
in_root --install "$deb"
for file in usr/bin/vkstash "$library" usr/share/vulkan/implicit_layer.d usr/share/man/man1/vkstash.1.gz \
    usr/share/man/man1/vkstash-run.1.gz usr/share/bash-completion/completions/vkstash usr/include/vkstash.h; do
    [ -e "$root/$file" ] || fail "the package has no $file"
done
named=$(sed -n 's/.*"library_path": "\(.*\)".*/\1/p' "$root"/usr/share/vulkan/implicit_layer.d/*.json)
[ -e "$root/$named" ] || fail "the manifest names $named, which the package does not have"
"$root/usr/bin/vkstash" --version | grep -q "$version" || fail "the tool is of another version"
in_root --purge vkstash
left=$(find "$root" -type f -not -path '*/var/lib/dpkg/*')
[ -z "$left" ] || fail "removing the package leaves $left"
say "both can be installed and removed"
