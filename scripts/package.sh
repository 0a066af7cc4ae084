#!/usr/bin/env bash
# Builds the packages of a release, for this machine's architecture: Debian packages, an archive for every distribution,
# and the sources with a PKGBUILD for Arch and a spec for RPM. docs/packagers.md says what each of them has.
#
#   scripts/package.sh [OPTION]... [FOLDER]     into this folder, or target/packages
#
#   --built     takes what is built already in target/packaged, whatever it was built from
#   --check     also installs and removes what was built in empty folders, and runs the linters that are here
#   --twice     also builds everything once more, from the unpacked sources in another folder, and compares the bytes
#
# On x86-64 the layer for 32-bit programs is built too, where Rust's standard library for i686-unknown-linux-gnu
# (rustup target add) and a C compiler for 32 bits (gcc-multilib) are here.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
cd "$repository"
target=$(target_folder)

built='' check='' twice=''
while :; do
    case ${1:-} in
    --built) built=yes ;;
    --check) check=yes ;;
    --twice) twice=yes ;;
    -*) fail "unknown option $1 (there are --built, --check and --twice)" ;;
    *) break ;;
    esac
    shift
done
have dpkg-deb || fail "needs dpkg-deb, of the package dpkg"
have dpkg-gencontrol || fail "needs dpkg-gencontrol and dpkg-shlibdeps, of the package dpkg-dev"
have readelf || fail "needs readelf, of the package binutils"
mkdir -p "${1:-$target/packages}"
packages=$(cd "${1:-$target/packages}" && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
architecture=$(dpkg --print-architecture)
triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
machine=$(uname -m)

# The time of every file in a package.
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) || fail "set SOURCE_DATE_EPOCH: this is not a repository of git"
fi
export SOURCE_DATE_EPOCH LC_ALL=C.UTF-8 TZ=UTC
umask 022

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
written=() left_out=()
skipped() {
    say "SKIPPED: $1"
    left_out+=("$1")
}
wrote() {
    written+=("$1")
    say "$packages/$1: $(stat -c %s "$packages/$1") bytes"
}

# filled FILE: a template of contrib/packaging.
filled() {
    sed -e "s|@VERSION@|$version|g" -e "s|@MAINTAINER@|$maintainer|g" -e "s|@HOMEPAGE@|$homepage|g" \
        -e "s|@DATE@|$(date -u -d "@$SOURCE_DATE_EPOCH" '+%a %b %d %Y')|g" "$1"
}

# tarred FOLDER NAME ARCHIVE: what is in FOLDER/NAME. One thread: its number would be in the bytes.
tarred() {
    tar -C "$1" --sort=name --format=gnu --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf - "$2" |
        case $3 in *.xz) xz -9 -T1 ;; *) gzip -9n ;; esac >"$packages/$3"
    wrote "$3"
}

can_build_32() {
    [ "$machine" = x86_64 ] || return 1
    if ! [ -d "$(rustc --print sysroot)/lib/rustlib/i686-unknown-linux-gnu" ]; then
        skipped "the layer for 32-bit programs: no Rust standard library for i686-unknown-linux-gnu (rustup target add)"
        return 1
    fi
    if ! echo 'int main(void) { return 0; }' | gcc -m32 -x c -o "$scratch/probe" - 2>/dev/null; then
        skipped "the layer for 32-bit programs: no C compiler for 32 bits (gcc-multilib)"
        return 1
    fi
}

# --- what is built ----------------------------------------------------------------------------------------

parts=(library tool remote)
library32='' worker32=''
if can_build_32; then
    parts+=(library32)
    library32=$target/i686-unknown-linux-gnu/packaged/libVkLayer_vkstash.so
    worker32=$target/i686-unknown-linux-gnu/packaged/vkstash-worker
fi
if [ -z "$built" ]; then
    say "building: ${parts[*]}"
    build_packaged "${parts[@]}"
fi
library=$target/packaged/libVkLayer_vkstash.so
programs=("$target/packaged/vkstash" "$target/packaged/vkstash-remote")

# The newest version of the C library that a symbol of a file asks for.
newest_glibc() {
    local newest
    newest=$(readelf -W --dyn-syms "$@" | grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -n 1)
    printf '%s\n' "${newest#GLIBC_}"
}

# Programs load the library also in containers, and archives have no dependencies.
check_built() {
    local file needed odd paths
    paths=$(printf '%s\n' "$repository" "$(realpath "$target")" "${CARGO_HOME:-$HOME/.cargo}" \
        "$(rustc --print sysroot)" "$HOME/")
    for file in "$library" ${library32:+"$library32" "$worker32"} "${programs[@]}"; do
        needed=$(readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
        odd=$(grep -vE '^(libc|libgcc_s|libm|ld-linux[-a-z0-9_]*)\.so\.[0-9]+$' <<<"$needed" || true)
        [ -z "$odd" ] || fail "$file needs more than the C library and the unwinder: ${odd//$'\n'/ }"
        ! readelf -W -S "$file" | grep -qE ' \.(symtab|debug_info) ' || fail "$file is not stripped"
        odd=$(grep -aoF -m 3 "$paths" "$file" | sort -u || true)
        [ -z "$odd" ] || fail "$file names folders of this machine: ${odd//$'\n'/ }"
    done
    say "needs the C library $(newest_glibc "$library" "${programs[@]}") or newer, and the unwinder"
}
check_built

# --- the archive ------------------------------------------------------------------------------------------

archive=vkstash-$version-$machine
make_archive() {
    local place=$scratch/archive/$archive kind
    "$repository/scripts/stage.sh" "$scratch/archive/stage" lib
    mv "$scratch/archive/stage/usr" "$place"
    # install.sh has the tool write these, with its path.
    rm -r "$place"/lib/systemd/user/vkstash-prewarm.* "$place"/lib/systemd/user/*.wants
    if [ -n "$library32" ]; then
        install -D -m 644 -t "$place/lib32" "$library32"
        install -D -m 755 -t "$place/lib32/vkstash" "$worker32"
        "$place/bin/vkstash" install --no-service --prefix /usr --destdir "$scratch/archive/32" \
            --library "$library32" >/dev/null
        for kind in implicit_layer.d explicit_layer.d; do
            sed "s|$library32|/usr/lib32/libVkLayer_vkstash.so|" "$scratch/archive/32/usr/share/vulkan/$kind/"*.json \
                >"$place/share/vulkan/$kind/VkLayer_vkstash.x86.json"
        done
    fi
    # They name each other from where they are, so that the archive serves any folder, unpacked without a script.
    sed -i 's|"/usr/lib|"../../../lib|' "$place"/share/vulkan/*/*.json
    install -m 755 -t "$place" contrib/packaging/install.sh
    tarred "$scratch/archive" "$archive" "$archive.tar.xz"
}
make_archive

# --- Debian packages --------------------------------------------------------------------------------------

# debian_files PACKAGE: what every package has beside its own files.
debian_files() {
    local root=$scratch/debian/$1 work=$scratch/debian/source doc=$scratch/debian/$1/usr/share/doc/$1
    local overrides=contrib/packaging/debian/$1.lintian-overrides
    mkdir -p "$root/DEBIAN" "$doc"
    sed -e '1,2d' -e 's/^$/./' -e 's/^/ /' LICENSE-MIT >"$work/mit"
    filled contrib/packaging/debian/copyright.in | sed -e "/^@MIT@\$/{r $work/mit" -e 'd}' >"$doc/copyright"
    gzip -9nc "$work/debian/changelog" >"$doc/changelog.gz"
    [ ! -e "$overrides" ] || install -D -m 644 "$overrides" "$root/usr/share/lintian/overrides/$1"
    if compgen -G "$root/usr/lib/*/*.so" >/dev/null; then
        echo "activate-noawait ldconfig" >"$root/DEBIAN/triggers"
    fi
    if [ -d "$root/etc" ]; then
        (cd "$root" && find etc -type f -printf '/%p\n' | sort >DEBIAN/conffiles)
    fi
    (cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
}

# debian_package PACKAGE ARCHITECTURE: packs what is in its folder.
debian_package() {
    local root=$scratch/debian/$1 work=$scratch/debian/source
    debian_files "$1"
    : >"$work/substvars"
    if [ "$2" = "$architecture" ]; then
        find "$root/usr" -type f \( -path '*/bin/*' -o -name '*.so' \) -print0 >"$scratch/binaries"
        (cd "$work" && xargs -0ra "$scratch/binaries" dpkg-shlibdeps --warnings=0 -Tsubstvars) >"$scratch/log" 2>&1 ||
            fail "$(cat "$scratch/log")"
    else
        # dpkg-shlibdeps would name the packages for 32 bits beside 64 that are installed here.
        local newest
        newest=$(newest_glibc "$root"/usr/lib/*/{*.so,vkstash/*})
        echo "shlibs:Depends=libc6 (>= $newest), libgcc-s1 (>= 4.2)" >"$work/substvars"
    fi
    (cd "$work" && DEB_HOST_ARCH=$2 \
        dpkg-gencontrol -p"$1" -P"$root" -Tsubstvars -ffiles -O"$root/DEBIAN/control") >"$scratch/log" 2>&1 ||
        fail "$(cat "$scratch/log")"
    find "$root" -type d -exec chmod 755 {} +
    # xz, which every version of dpkg reads.
    dpkg-deb --root-owner-group -Zxz --build "$root" "$packages/$1_${version}_$2.deb" >/dev/null
    wrote "$1_${version}_$2.deb"
}

# take PACKAGE PATH...: these files of the stage are in this package.
take() {
    local path
    for path in "${@:2}"; do
        mkdir -p "$scratch/debian/$1/$(dirname "$path")"
        mv "$scratch/debian/stage/$path" "$scratch/debian/$1/$path"
    done
}

make_debian() {
    local work=$scratch/debian/source stage=$scratch/debian/stage folder=$scratch/debian/vkstash-layer
    mkdir -p "$work/debian"
    filled contrib/packaging/debian/control.in >"$work/debian/control"
    cat >"$work/debian/changelog" <<CHANGES
vkstash ($version) unstable; urgency=medium

  * Version $version. CHANGELOG.md in the package vkstash says what is new.

 -- $maintainer  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
CHANGES
    "$repository/scripts/stage.sh" "$stage" "lib/$triplet" share/zsh/vendor-completions
    rm "$stage"/usr/share/doc/vkstash/LICENSE-*
    # The file names the architecture's folder.
    mkdir "$stage/usr/lib/$triplet/pkgconfig"
    mv -t "$stage/usr/lib/$triplet/pkgconfig" "$stage/usr/share/pkgconfig/vkstash.pc"
    rmdir "$stage/usr/share/pkgconfig"
    sed -i 's|^prefix=.*|&/..|' "$stage/usr/lib/$triplet/pkgconfig/vkstash.pc"
    take vkstash-dev usr/include "usr/lib/$triplet/pkgconfig"
    take vkstash-remote usr/bin/vkstash-remote usr/share/man/man1/vkstash-remote.1.gz \
        usr/lib/systemd/user/vkstash-remote.{service,timer}
    take vkstash etc usr
    for package in vkstash vkstash-dev vkstash-remote; do debian_package "$package" "$architecture"; done
    [ -n "$library32" ] || return 0
    # The manifests of both widths have names of their own, so that both packages can be installed.
    install -D -m 644 -t "$folder/usr/lib/i386-linux-gnu" "$library32"
    install -D -m 755 -t "$folder/usr/lib/i386-linux-gnu/vkstash" "$worker32"
    "${programs[0]}" install --no-service --prefix /usr --destdir "$folder" \
        --library /usr/lib/i386-linux-gnu/libVkLayer_vkstash.so >/dev/null
    rm -rf "$folder/usr/include" "$folder/usr/share/pkgconfig"
    debian_package vkstash-layer i386
}
make_debian

# --- sources, and what builds packages from them ----------------------------------------------------------

sources=vkstash-$version
make_sources() {
    local files=$scratch/sources.list
    mkdir "$scratch/sources"
    if [ -e .git ]; then
        git ls-files -z >"$files"
    else
        # The sources themselves, unpacked: what a build writes is elsewhere.
        find . -path ./target -prune -o -type f -printf '%P\0' -o -type l -printf '%P\0' >"$files"
    fi
    mkdir "$scratch/sources/$sources"
    tar --null -T "$files" -cf - | tar -C "$scratch/sources/$sources" -xf -
    # Of git's file modes, one bit counts.
    find "$scratch/sources" -type d -exec chmod 755 {} +
    find "$scratch/sources" -type f -exec chmod u=rwX,go=rX {} +
    tarred "$scratch/sources" "$sources" "$sources-source.tar.gz"
    filled contrib/packaging/vkstash.spec.in >"$packages/vkstash.spec"
    wrote vkstash.spec
    filled contrib/packaging/PKGBUILD.in |
        sed "s|@SHA256@|$(sha256sum "$packages/$sources-source.tar.gz" | cut -d ' ' -f 1)|" >"$packages/PKGBUILD"
    wrote PKGBUILD
}
make_sources
(cd "$packages" && printf '%s\n' "${written[@]}" | sort | xargs sha256sum >SHA256SUMS)
wrote SHA256SUMS

# --- checks -----------------------------------------------------------------------------------------------

# What the manifests of a folder name, seen from each manifest; ROOT stands for `/`.
check_manifests() {
    local root=$1 manifest named folder found=0
    for manifest in "$root$2"/share/vulkan/*/VkLayer_vkstash.*.json; do
        named=$(sed -n 's/.*"library_path": "\(.*\)".*/\1/p' "$manifest")
        folder=$(dirname "$manifest")
        case $named in /*) folder=$root ;; esac
        [ -e "$folder/$named" ] || fail "$manifest names $named, which is not there"
        found=$((found + 1))
    done
    [ "$found" -ge 2 ] || fail "$found manifests below $root$2"
}

# check_installed PREFIX HOME OPTION...: installs the archive with these options of install.sh, and removes it.
check_installed() {
    local prefix=$1 home=$2 data link unit=$1/lib/systemd/user wants=$1/lib/systemd/user left
    data=$prefix/share
    shift 2
    case $1 in --user) unit=$data/systemd/user wants=$home/.config/systemd/user ;; esac
    env -i PATH="$PATH" HOME="$home" sh "$unpacked/install.sh" "$@" >"$scratch/log" 2>&1 || fail "$(cat "$scratch/log")"
    check_manifests "" "$prefix"
    grep -q "\"$prefix/lib/" "$data"/vulkan/implicit_layer.d/*."$machine".json || fail "a manifest names another folder"
    # shellcheck disable=SC2016
    grep -qFx 'libdir=${prefix}/lib' "$data/pkgconfig/vkstash.pc" || fail "vkstash.pc names another folder"
    grep -q "^ExecStart=$prefix/bin/vkstash " "$unit/vkstash-prewarm.service" || fail "a unit starts another program"
    [ -z "$worker32" ] || [ -x "$prefix/lib32/vkstash/vkstash-worker" ] || fail "no worker for 32-bit programs"
    [ -e "$unit/vkstash-remote.timer" ] || fail "no unit for vkstash-remote"
    for link in timers.target.wants/vkstash-prewarm.timer default.target.wants/vkstash-prewarm.path; do
        [ -e "$wants/$link" ] || fail "$wants/$link enables nothing"
    done
    as_user() {
        env -i PATH="$PATH" HOME="$home" TMPDIR="$scratch/tmp" XDG_DATA_DIRS="$data" "$prefix/bin/vkstash" "$@"
    }
    as_user run -- true >"$scratch/log" 2>&1 || fail "vkstash run: $(cat "$scratch/log")"
    # What it says of the machine and its drivers does not count here, nor its status.
    as_user doctor >"$scratch/log" 2>&1 || true
    grep -qF "$prefix/lib/libVkLayer_vkstash.so" "$scratch/log" || fail "vkstash doctor: $(cat "$scratch/log")"
    # Once more, over itself.
    env -i PATH="$PATH" HOME="$home" sh "$unpacked/install.sh" "$@" >/dev/null
    env -i PATH="$PATH" HOME="$home" sh "$unpacked/install.sh" "$@" --uninstall >/dev/null
    left=$(find "$prefix" \( -type f -o -type l \) -not -path "$home/.cache/*" -not -path "$home/.config/*")
    left+=$(find "$home" -name 'vkstash-prewarm.*')
    [ -z "$left" ] || fail "install.sh $* --uninstall leaves $left"
    [ "$1" = --user ] || return 0
    env -i PATH="$PATH" HOME="$home" sh "$unpacked/install.sh" --user >/dev/null
    as_user uninstall --purge --yes >"$scratch/log" 2>&1 || fail "vkstash uninstall: $(cat "$scratch/log")"
    left=$(find "$prefix" \( -type f -o -type l \) && find "$home" -name '*vkstash*')
    [ -z "$left" ] || fail "vkstash uninstall --purge leaves $left"
}

check_archive() {
    say "checking the archive"
    unpacked=$scratch/opt/$archive
    mkdir "$scratch/opt" "$scratch/home" "$scratch/prefix" "$scratch/tmp"
    tar -C "$scratch/opt" -xJf "$packages/$archive.tar.xz"
    check_manifests "" "$unpacked"
    check_installed "$scratch/prefix/usr" "$scratch/home" --prefix "$scratch/prefix/usr"
    check_installed "$scratch/home/.local" "$scratch/home" --user
}

check_debian() {
    local root=$scratch/root file left debs
    if [ "$(id -u)" != 0 ]; then
        skipped "the Debian packages are not installed: that needs root"
        return
    fi
    say "checking the Debian packages"
    mapfile -t debs < <(printf "$packages/%s\n" "${written[@]}" | grep '\.deb$')
    mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates"
    touch "$root/var/lib/dpkg/status"
    # Nothing else is in that root, not even the C library.
    in_root() { dpkg --root="$root" --force-depends "$@" >"$scratch/log" 2>&1 || fail "$(cat "$scratch/log")"; }
    [ -z "$library32" ] || in_root --add-architecture i386
    in_root --install "${debs[@]}"
    for file in usr/bin/vkstash usr/bin/vkstash-remote usr/share/man/man1/vkstash{,-run,-remote}.1.gz \
        usr/share/bash-completion/completions/vkstash usr/include/vkstash.h "usr/lib/$triplet/pkgconfig/vkstash.pc" \
        usr/lib/systemd/user/vkstash-{prewarm,remote}.timer usr/lib/systemd/user/vkstash-prewarm.{service,path} \
        usr/lib/systemd/user/timers.target.wants/vkstash-prewarm.timer \
        usr/lib/systemd/user/default.target.wants/vkstash-prewarm.path etc/xdg/autostart/vkstash-prewarm.desktop; do
        [ -e "$root/$file" ] || fail "no package has $file"
    done
    check_manifests "$root" /usr
    [ -z "$library32" ] || [ -e "$root/usr/share/vulkan/implicit_layer.d/VkLayer_vkstash.x86.json" ] ||
        fail "no package has the manifest for 32-bit programs"
    [ -z "$library32" ] || [ -x "$root/usr/lib/i386-linux-gnu/vkstash/vkstash-worker" ] ||
        fail "no package has the worker for 32-bit programs"
    "$root/usr/bin/vkstash" --version | grep -q "$version" || fail "the tool is of another version"
    mapfile -t debs < <(dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${binary:Package}\n')
    in_root --purge "${debs[@]}"
    left=$(find "$root" \( -type f -o -type l \) -not -path '*/var/lib/dpkg/*')
    [ -z "$left" ] || fail "removing the packages leaves $left"
}

# linted COMMAND WHAT...: runs a linter if it is here.
linted() {
    if ! have "$1"; then
        skipped "no $1 here"
        return
    fi
    say "checking with $1"
    "${@}" >"$scratch/log" 2>&1 || fail "$1: $(cat "$scratch/log")"
}

check_with_linters() {
    local debs
    mapfile -t debs < <(printf "$packages/%s\n" "${written[@]}" | grep '\.deb$')
    linted lintian --allow-root --fail-on error,warning "${debs[@]}"
    bash -n "$packages/PKGBUILD"
    # makepkg reads its variables, and sets the folders.
    linted shellcheck --shell bash --exclude SC2034,SC2128,SC2154,SC2164 "$packages/PKGBUILD"
    linted shellcheck contrib/packaging/install.sh
    linted desktop-file-validate contrib/autostart/vkstash-prewarm.desktop
    linted namcap "$packages/PKGBUILD"
    linted rpmspec --parse "$packages/vkstash.spec"
    linted rpmlint --config contrib/packaging/rpmlint.toml "$packages/vkstash.spec"
}

# Builds once more from what everybody gets, elsewhere, with another mask and another home of Cargo's.
check_twice() {
    local again=$scratch/again file
    say "building once more, from the unpacked sources"
    mkdir -p "$again/cargo" "$again/packages"
    tar -C "$again" -xzf "$packages/$sources-source.tar.gz"
    # What Cargo has downloaded already.
    for file in "${CARGO_HOME:-$HOME/.cargo}"/*; do ln -s "$file" "$again/cargo/"; done
    (
        umask 027
        cd /
        CARGO_HOME=$again/cargo CARGO_TARGET_DIR=$again/target \
            "$again/$sources/scripts/package.sh" "$again/packages" >"$scratch/log" 2>&1
    ) || fail "the sources do not build: $(cat "$scratch/log")"
    for file in "${written[@]}"; do
        cmp "$packages/$file" "$again/packages/$file" || fail "two builds of $file differ"
    done
    rm -rf "$again"
    say "two builds in two folders: the same bytes of ${#written[@]} files"
}

if [ -n "$check" ]; then
    check_archive
    check_debian
    check_with_linters
    say "all packages can be installed and removed"
fi
[ -z "$twice" ] || check_twice
[ "${#left_out[@]}" = 0 ] || printf 'SKIPPED: %s\n' "${left_out[@]}"
