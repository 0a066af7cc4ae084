# Shared by the scripts in this folder; sourced, not run.
# shellcheck shell=bash

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# One line of progress, with the seconds since the script began.
say() { printf '[%4ds] %s\n' "$SECONDS" "$*"; }

fail() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# version_at_least HAVE WANT: both as 1.2.3
version_at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# Where Cargo puts what it builds.
target_folder() { printf '%s\n' "${CARGO_TARGET_DIR:-$repository/target}"; }

# virtual_environment FOLDER: makes a virtual environment of Python where there is none, and sets `pip`, the command
# that installs packages into it: the machine's pip if it has one that can, because to install another one takes 7 s.
pip=()
virtual_environment() {
    [ -x "$1/bin/python" ] || python3 -m venv --clear --without-pip "$1" || return
    pip=(python3 -m pip --python "$1/bin/python")
    if ! "${pip[@]}" --version >/dev/null 2>&1; then
        [ -x "$1/bin/pip" ] || python3 -m venv "$1" || return
        pip=("$1/bin/pip")
    fi
    pip+=(install --quiet --disable-pip-version-check --only-binary :all: --no-compile)
}

# Of Debian packages.
installed_version() { dpkg-query -W -f '${Version}' "$1" 2>/dev/null || true; }

# --- Debian's packages -----------------------------------------------------------------------------------

as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)
apt_install() {
    if [ "${#as_root[@]}" != 0 ] && ! have sudo; then
        fail "run as root: apt-get install $*"
    fi
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
}
updated=no
apt_update() {
    [ "$updated" = no ] || return 0
    say "updating the package lists"
    # An unreachable package source must not stop the script; if a package is missing, its installation fails.
    [ "${#as_root[@]}" = 0 ] || have sudo || return 0
    "${as_root[@]}" apt-get update -q || say "apt-get update reported an error; continuing with the old lists"
    updated=yes
}

candidate_version() { apt-cache policy "$1" 2>/dev/null | awk '$1 == "Candidate:" && $2 != "(none)" { print $2 }'; }

# Whether this user can install packages. sudo may still ask for a password.
may_install() { have apt-get && { [ "${#as_root[@]}" = 0 ] || have sudo; }; }

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# fetch_source_package NAME VERSION FOLDER [SUITE]: downloads upstream's archives of the distribution's source package
# into FOLDER; with SUITE the version of this other suite of the distribution. The entries for source packages are
# derived from the machine's entries for binary packages and stand in separate lists: the machine's apt configuration
# stays unchanged, and the function needs no root. Fails if the package is not available.
fetch_source_package() {
    local name=$1 version=$2 folder=$3 suite=${4:-} apt file entries wanted=$1
    [ -n "$suite" ] || wanted=$name=$version
    mkdir -p "$folder"
    compgen -G "$folder/*.orig*.tar.*" >/dev/null && return 0
    apt=$(mktemp -d "$folder/apt.XXXXXX") || return 1
    mkdir -p "$apt/parts" "$apt/lists/partial" "$apt/work"
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
        [ -r "$file" ] || continue
        entries=$apt/parts/$(basename "$file")
        [ "$file" != /etc/apt/sources.list ] || entries=$apt/parts/main.list
        case $file in
        *.list) sed -n 's/^[[:space:]]*deb[[:space:]]/deb-src /p' "$file" >"$entries" ;;
        *) sed 's/^[Tt]ypes:.*/Types: deb-src/' "$file" >"$entries" ;;
        esac
        [ -z "$suite" ] || in_suite "$entries" "$suite"
    done
    local options=(-q -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$apt/parts"
        -o "Dir::State::lists=$apt/lists" -o "Dir::Cache::srcpkgcache=" -o "Dir::Cache::pkgcache="
        -o APT::Sandbox::User="$(id -un)")
    # An unreachable package source must not stop the script. Only upstream's archive is needed; archives with the
    # distribution's changes disappear earlier.
    apt-get update "${options[@]}" >"$apt/log" 2>&1 || true
    if (cd "$apt/work" && apt-get source --download-only --tar-only "${options[@]}" "$wanted") \
        >>"$apt/log" 2>&1 && compgen -G "$apt/work/*.orig*.tar.*" >/dev/null; then
        mv "$apt"/work/*.orig*.tar.* "$folder/"
        rm -rf "$apt"
        return 0
    fi
    tail -n 3 "$apt/log" >&2
    rm -rf "$apt"
    return 1
}

# in_suite FILE SUITE: the entries in FILE (both formats) of the release itself, changed to another suite.
in_suite() {
    local file=$1 suite=$2 codename
    # shellcheck source=/dev/null
    codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
    case $file in
    *.list) sed -n -i -E "s/^(deb-src .*[[:space:]])$codename([[:space:]])/\1$suite\2/p" "$file" ;;
    *)
        sed -i -E -e "s/^(Suites:).*[[:space:]]$codename([[:space:]].*|)\$/\1 $suite/I; t" \
            -e "s/^(Suites:).*/\1 $suite-none/I" "$file"
        ;;
    esac
}

# --- Rust -------------------------------------------------------------------------------------------------

# Lints and the formatter differ between versions; this version must accept the code.
rust_of_lints=1.95
rust_version() { { cargo --version 2>/dev/null || echo cargo 0; } | awk '{ print $2 }'; }
has_rust_of_lints() { case $(rust_version) in "$rust_of_lints" | "$rust_of_lints".*) true ;; *) false ;; esac; }

# Who answers for packages: the one place where these stand.
# shellcheck disable=SC2034
maintainer="vkstash developers <vkstash@example.org>" homepage=https://vkstash.example.org

# flags_without_paths: sets `flags` and `c_flags` so that no path of this machine gets into what is built: two builds in
# different folders are the same bytes. The standard library's sources have the name that they have where rust-src is
# not installed.
flags_without_paths() {
    local sources sysroot commit target cargo_home=${CARGO_HOME:-$HOME/.cargo}
    target=$(realpath -m "$(target_folder)")
    sysroot=$(rustc --print sysroot)
    commit=$(rustc -vV | sed -n 's/^commit-hash: //p')
    # Of two prefixes that fit, the last one counts.
    flags=("--remap-path-prefix=$cargo_home=/usr/src/cargo" "--remap-path-prefix=$repository=/usr/src/vkstash"
        "--remap-path-prefix=$target=/usr/src/target"
        "--remap-path-prefix=$sysroot/lib/rustlib/src/rust=/rustc/$commit")
    # A registry's folder is named after its address, which may be a mirror's.
    for sources in "$cargo_home"/registry/src/*/; do
        flags+=("--remap-path-prefix=${sources%/}=/usr/src/crates")
    done
    c_flags="-ffile-prefix-map=$target=/usr/src/target -ffile-prefix-map=$cargo_home=/usr/src/cargo"
}

# Whether the linker gives functions of the same code one place. GNU ld cannot.
folds_code() {
    local folder status=0
    folder=$(mktemp -d)
    echo 'fn main() {}' | rustc --crate-name probe -C link-arg=-Wl,--icf=all -o "$folder/probe" - \
        >/dev/null 2>&1 || status=1
    rm -rf "$folder"
    return "$status"
}

# build_packaged [PART]...: builds as packages ship them (docs/evidence/data/size.tsv says what each part is worth):
# library, tool, remote (vkstash-remote), library32 (the library for 32-bit programs and the worker for them, on
# x86-64); without arguments the library and the tool. What is built already is not built again. Cargo 1.95 passes
# strip=debuginfo although the profile says symbols, so the compiler is told.
build_packaged() {
    local flags c_flags strategy part strip=(-C strip=symbols) fold=()
    [ $# != 0 ] || set -- library tool
    # Before the flags, which name the folders that this makes.
    cargo fetch -q --locked
    flags_without_paths
    # A panic passes through no function of zstd's, which calls nothing back.
    local -x CFLAGS="${CFLAGS:-} $c_flags -DDYNAMIC_BMI2=0 -fno-asynchronous-unwind-tables -fno-unwind-tables"
    # The other way of reading sequences is for windows of 16 MiB and more: almost no payload has so much.
    CFLAGS+=" -DZSTD_FORCE_DECOMPRESS_SEQUENCES_SHORT"
    # The compression levels in use (crates/store/src/codec/zstd.rs) need none of these.
    for strategy in GREEDY LAZY LAZY2 BTLAZY2; do
        CFLAGS+=" -DZSTD_EXCLUDE_${strategy}_BLOCK_COMPRESSOR"
    done
    local -x CARGO_ENCODED_RUSTFLAGS
    CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && printf '%s' "${flags[*]}")
    # With this target comes such a linker.
    case $(uname -m) in x86_64) ! folds_code || fold=(-C "link-arg=-Wl,--icf=all") ;; esac
    # Nothing that is built has a date, and Cargo would build C code again for each other one.
    local build=(env -u SOURCE_DATE_EPOCH cargo rustc -q --locked --profile packaged)
    for part in "$@"; do
        case $part in
        library) "${build[@]}" -p vkstash --lib --crate-type cdylib -- "${strip[@]}" "${fold[@]}" ;;
        tool) "${build[@]}" -p vkstash-tool --bin vkstash -- "${strip[@]}" ;;
        remote) "${build[@]}" -p vkstash-remote --bin vkstash-remote -- "${strip[@]}" ;;
        library32)
            "${build[@]}" --target i686-unknown-linux-gnu -p vkstash --lib --crate-type cdylib -- "${strip[@]}"
            "${build[@]}" --target i686-unknown-linux-gnu -p vkstash-worker --bin vkstash-worker -- "${strip[@]}"
            ;;
        esac
    done
}

# prepare_measurements ARGUMENT...: prepares the demonstration and the benchmarks: packages, what these arguments of
# Cargo select, real shaders.
prepare_measurements() {
    "$repository/scripts/setup.sh"
    say "building"
    (cd "$repository" && cargo build --quiet "$@")
    "$repository/scripts/corpus.sh"
}

# --- drivers ----------------------------------------------------------------------------------------------

# RADV's null device (RADV_FORCE_FAMILY without a GPU) returns cache data and binaries since the first of these Mesa
# versions; the second version no longer has the null device.
mesa_with_null_device=24.3 mesa_without_null_device=26.2
mesa_has_null_device() {
    local mesa
    mesa=$(installed_version mesa-vulkan-drivers)
    dpkg --compare-versions "${mesa:-0}" ge "$mesa_with_null_device" &&
        dpkg --compare-versions "$mesa" lt "$mesa_without_null_device"
}

# Sets the environment for the driver of demonstrations and benchmarks: the machine's own GPU if there is one, otherwise
# RADV's null device, which compiles without a GPU.
choose_driver() {
    if [ -n "${VK_DRIVER_FILES:-}${VK_ICD_FILENAMES:-}" ]; then
        say "driver: as VK_DRIVER_FILES or VK_ICD_FILENAMES says"
        return
    fi
    if compgen -G '/dev/dri/renderD*' >/dev/null || [ -e /dev/nvidia0 ]; then
        say "driver: this machine's GPU"
        return
    fi
    local manifest
    for manifest in /usr/share/vulkan/icd.d/radeon_icd*.json; do
        [ -e "$manifest" ] || continue
        # Loaders before 1.3.207 know only the old name.
        export VK_DRIVER_FILES="$manifest" VK_ICD_FILENAMES="$manifest" RADV_FORCE_FAMILY="${RADV_FORCE_FAMILY:-navi21}"
        say "driver: RADV's null device ($RADV_FORCE_FAMILY), since there is no GPU here"
        return
    done
    fail "no GPU and no RADV driver here; run scripts/setup.sh"
}

# older_mesa FOLDER: unpacks the distribution's older Mesa package there, and writes FOLDER/older.json, the manifest of
# its RADV. False, with a line, where apt knows one version only.
older_mesa() {
    local installed older library
    installed=$(dpkg-query -W -f '${Version}' mesa-vulkan-drivers)
    older=$(apt-cache madison mesa-vulkan-drivers | awk '{ print $3 }' | sort -uV | head -n 1)
    if [ "$older" = "$installed" ]; then
        echo "SKIPPED: apt knows one version of mesa-vulkan-drivers only"
        return 1
    fi
    (cd "$1" && apt-get -o APT::Sandbox::User=root download "mesa-vulkan-drivers=$older" >/dev/null)
    dpkg -x "$1"/mesa-vulkan-drivers_*.deb "$1/older"
    library=$(find "$1/older" -name libvulkan_radeon.so)
    echo "{\"file_format_version\":\"1.0.0\",\"ICD\":{\"library_path\":\"$library\",\"api_version\":\"1.3.0\"}}" \
        >"$1/older.json"
    echo "older driver: Mesa $older; present driver: Mesa $installed"
}
