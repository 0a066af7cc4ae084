#!/usr/bin/env bash
# Lays out what `build_packaged library tool remote` (scripts/lib.sh) has built, as packages have it:
#
#   scripts/stage.sh FOLDER [LIBRARIES [ZSH]]
#
# FOLDER stands for `/` of the user's machine. LIBRARIES is where the distribution keeps libraries below /usr (lib,
# lib64, lib/x86_64-linux-gnu), and ZSH where zsh looks for completions.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
[ $# != 0 ] || fail "name the folder"
mkdir -p "$1"
stage=$(cd "$1" && pwd)
libraries=usr/${2:-lib}
zsh=usr/${3:-share/zsh/site-functions}
cd "$repository"
built=$(target_folder)/packaged
share=$stage/usr/share

install -D -m 755 -t "$stage/usr/bin" "$built/vkstash" "$built/vkstash-remote"
install -D -m 644 -t "$stage/$libraries" "$built/libVkLayer_vkstash.so"

# The loader's manifests, the header, the file for pkg-config, and the service that compiles again after updates.
tool=$stage/usr/bin/vkstash
"$tool" install --prefix /usr --destdir "$stage" --library "/$libraries/libVkLayer_vkstash.so" >/dev/null
"$tool" man "$share/man/man1"
cp contrib/man/*.1 "$share/man/man1/"
gzip -9nf "$share"/man/man1/*.1

mkdir -p "$share/bash-completion/completions" "$stage/$zsh" "$share/fish/vendor_completions.d"
"$tool" completions bash >"$share/bash-completion/completions/vkstash"
"$tool" completions zsh >"$stage/$zsh/_vkstash"
"$tool" completions fish >"$share/fish/vendor_completions.d/vkstash.fish"

# Units of users, which nothing enables but the user.
install -D -m 644 -t "$stage/usr/lib/systemd/user" contrib/systemd/vkstash-remote.*

mkdir -p "$share/doc/vkstash"
cp -r README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE-MIT LICENSE-APACHE docs examples "$share/doc/vkstash/"

# Whoever builds, with whatever umask.
find "$stage" -type d -exec chmod 755 {} +
find "$stage" -type f -exec chmod u=rwX,go=rX {} +
find "$share" "$stage/usr/include" -type f -exec chmod 644 {} +
