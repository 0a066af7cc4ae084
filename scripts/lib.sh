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

# Of Debian packages.
installed_version() { dpkg-query -W -f '${Version}' "$1" 2>/dev/null || true; }

# RADV's null device (RADV_FORCE_FAMILY without a GPU) gives out cache data and binaries from the one Mesa on,
# and is gone in the other.
mesa_with_null_device=24.3 mesa_without_null_device=26.2
mesa_has_null_device() {
    local mesa
    mesa=$(installed_version mesa-vulkan-drivers)
    dpkg --compare-versions "${mesa:-0}" ge "$mesa_with_null_device" &&
        dpkg --compare-versions "$mesa" lt "$mesa_without_null_device"
}

# Sets the environment for the driver that demonstrations and benchmarks use: the machine's own GPU where
# there is one, else RADV's null device, which compiles for real without a GPU.
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
