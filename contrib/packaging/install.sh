#!/bin/sh
# Installs vkstash from the unpacked archive that this script is in, or removes it:
#
#   ./install.sh                   below /usr/local, for all users; as root
#   ./install.sh --prefix FOLDER   below another folder
#   ./install.sh --user            below ~/.local, for this user
#   ./install.sh --uninstall       with the same --prefix or --user: removes what was installed, as
#                                  'vkstash uninstall' does with --prefix, --system (/usr/local) or without either
#
# The layer is on where VKSTASH=1 is set, or under `vkstash run`. A service is enabled that compiles pipelines again
# after an update of a driver (`vkstash background` shows it, and switches it off). Stashes are not touched.
set -eu

fail() {
    printf 'install.sh: %s\n' "$*" >&2
    exit 1
}
usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; }

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
prefix=/usr/local
user=
uninstall=
while [ $# -gt 0 ]; do
    case $1 in
    --prefix)
        [ $# -gt 1 ] || fail "--prefix needs a folder"
        prefix=$2
        shift
        ;;
    --prefix=*) prefix=${1#--prefix=} ;;
    --user) user=yes ;;
    --uninstall) uninstall=yes ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        usage >&2
        exit 2
        ;;
    esac
    shift
done
if [ -n "$user" ]; then
    # The files would be root's, in the home of somebody else.
    [ -z "${SUDO_USER:-}" ] || fail "--user is for the user who runs it: without sudo"
    [ -n "${HOME:-}" ] || fail "HOME is not set"
    prefix=$HOME/.local
fi
case $prefix in
/*) ;;
*) prefix=$(pwd)/$prefix ;;
esac
prefix=${prefix%/}
# They have a meaning in systemd's units, or in what writes these.
case $prefix in
*[[:space:]\"\'%\\\$\&\|]*) fail "no spaces, quotes and % \\ \$ & | in the folder: $prefix" ;;
esac
list=$prefix/share/vkstash/installed-files

# The loader's manifests, the header, the file for pkg-config, and the service for updates of drivers name the folder:
# the tool writes and removes them.
tool() {
    if [ -n "$user" ]; then "$1/bin/vkstash" "$2"; else "$1/bin/vkstash" "$2" --prefix "$prefix"; fi
}

# Where a file of the archive belongs below the prefix.
place_of() {
    case $user$1 in
    # systemd looks there for one user's units.
    yeslib/systemd/*) printf 'share/%s\n' "${1#lib/}" ;;
    *) printf '%s\n' "$1" ;;
    esac
}

# A running program goes on with the old file: each is written beside it, and takes its name then.
copy() {
    mkdir -p "$(dirname "$prefix/$2")"
    new=$prefix/$2.new
    case $1 in
    lib/systemd/*) sed "s|/usr/bin/|$prefix/bin/|" "$here/$1" >"$new" ;;
    *) cp "$here/$1" "$new" ;;
    esac
    case $1 in
    bin/* | lib32/vkstash/*) chmod 755 "$new" ;;
    *) chmod 644 "$new" ;;
    esac
    mv -f "$new" "$prefix/$2"
}

# remove_listed LIST: the files, and the folders that are empty then; not the prefix itself.
remove_listed() {
    while IFS= read -r file; do
        rm -f "$prefix/$file"
        folder=$(dirname "$file")
        while [ "$folder" != . ] && rmdir "$prefix/$folder" 2>/dev/null; do folder=$(dirname "$folder"); done
    done <"$1"
}

if [ -n "$uninstall" ]; then
    [ -e "$list" ] || fail "nothing that this script installed is below $prefix"
    [ -w "$list" ] || fail "cannot write below $prefix: run this as root"
    # It removes the files of the list, too.
    tool "$here" uninstall
    exit 0
fi

version=$("$here/bin/vkstash" --version) || fail "bin/vkstash does not run on this machine"
umask 022
mkdir -p "$prefix" 2>/dev/null || true
[ -w "$prefix" ] || fail "cannot write below $prefix: run as root, or with --user"
mkdir -p "$prefix/share/vkstash"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$here"
find bin lib* share -type f ! -path 'share/vulkan/*' ! -path 'share/pkgconfig/*' | LC_ALL=C sort >"$work/files"
while IFS= read -r file; do
    place=$(place_of "$file")
    copy "$file" "$place"
    printf '%s\n' "$place"
done <"$work/files" >"$work/placed"
# What an older version had, and this one has not.
if [ -e "$list" ]; then
    grep -vxFf "$work/placed" "$list" >"$work/gone" || true
    remove_listed "$work/gone"
fi
cp "$work/placed" "$list"
chmod 644 "$list"
echo "copied $(wc -l <"$work/placed") files of $version to $prefix"
# It says the rest.
tool "$prefix" install || fail "what was copied stays: --uninstall removes it"
case :${PATH:-}: in
*":$prefix/bin:"*) ;;
*) echo "$prefix/bin is not on your PATH" ;;
esac
echo "'$prefix/bin/vkstash doctor' looks whether all is well"
