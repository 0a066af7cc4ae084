//! Options of drivers, as one digest: the variables of the environment and the configuration files that drivers read,
//! and that may decide which code they compile. docs/format.md has the bytes, docs/contract.md (7.8) the reason.
//!
//! Names are of Mesa 25.0.7, and of those parts of Mesa 26 and of AMD's and NVIDIA's drivers that were public in
//! November 2026. All names that begin in a known way count, so that a new variable of a known driver counts, too. A
//! list excludes those that decide no code.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::key::{self, digest};
use crate::record::Key;

/// The prefixes of the variables that drivers and their compilers read.
const VARIABLES: &str = "MESA_ NIR_ DRIRC_ \
    ACO_ RADV_ AMD_ AMDVLK_ VK_AMD_ \
    ANV_ HASVK_ INTEL_ JAY_ \
    NVK_ NAK_ NV50_ __GL_ __NV_ \
    TU_ IR3_ FD_ PANVK_ PAN_ BIFROST_ MIDGARD_ V3D_ V3DV_ ASAHI_ AGX_ HK_ PVR_ PCO_ ROGUE_ \
    LVP_ LP_ GALLIVM_ GALLIUM_ DRAW_ DZN_ DXIL_ VN_";

/// The prefixes of driconf options. Each option is also a variable, which takes precedence over the files
/// (src/util/xmlconfig.c of Mesa).
const DRICONF: &str = "radv_ anv_ hasvk_ intel_ nvk_ tu_ pan_ panvk_ v3dv_ lvp_ hk_ pvr_ dzn_ venus_ vk_ force_vk_ \
    fake_sparse force_indirect_descriptors fp64_workaround_enabled limit_trig_input_range lower_depth_range_rate \
    no_16bit shader_spilling_rate";

/// The prefixes of variables and options that are excluded because they decide no code: the places and sizes of caches,
/// windows, the choice of a device (which the device header names), logs, dumps and traces.
const LEFT_OUT: &str = "MESA_DISK_CACHE_ MESA_SHADER_CACHE_ MESA_GLSL_CACHE_ AMD_SHADER_DISK_CACHE_ \
    AMD_VK_PIPELINE_CACHE_ AMD_VK_USE_PIPELINE_CACHE AMD_VK_ENABLE_INTERNAL_PIPELINECACHING_TO_DISK \
    ANV_ENABLE_PIPELINE_CACHE V3DV_ENABLE_PIPELINE_CACHE V3DV_MAX_BO_CACHE_SIZE __GL_SHADER_DISK_CACHE \
    MESA_VK_WSI_ MESA_VK_DEVICE_SELECT MESA_LOADER_DRIVER_OVERRIDE MESA_HW_ACCEL_SELECT AMD_VULKAN_ICD \
    RADV_FORCE_FAMILY vk_x11_ vk_wsi_ vk_xwayland_ vk_khr_present_wait vk_google_display_timing __GL_SYNC_ \
    __GL_VRR_ALLOWED __GL_GSYNC_ALLOWED __GL_MaxFramesAllowed __GL_YIELD __GL_THREADED_OPTIMIZATIONS \
    __GL_ALLOW_UNOFFICIAL_PROTOCOL __NV_PRIME_ \
    MESA_LOG MESA_DEBUG MESA_GPU_TRACE MESA_SPIRV_DEBUG MESA_SPIRV_LOG_LEVEL MESA_SPIRV_DUMP_ MESA_SPIRV_FAIL_DUMP_ \
    RADV_THREAD_TRACE_ INTEL_MEASURE INTEL_DECODE INTEL_GPU_TRACEPOINT TU_GPU_TRACEPOINT FD_RD_DUMP GALLIUM_HUD \
    GALLIUM_TRACE GALLIUM_LOG_FILE __GL_APPLICATION_PROFILE_LOG";

/// The variable that names folders of driconf files, which are read in place of the system's.
const FOLDER: &str = "DRIRC_CONFIGDIR";

/// Whether a variable may decide which code a driver compiles.
pub fn counts(name: &OsStr) -> bool {
    let begins_as_one_of =
        |list: &str| list.split_ascii_whitespace().any(|start| name.as_bytes().starts_with(start.as_bytes()));
    (begins_as_one_of(VARIABLES) || begins_as_one_of(DRICONF)) && !begins_as_one_of(LEFT_OUT)
}

/// The digest for this process. It reads all of the environment, so the caller is the program's thread that makes an
/// instance, as it is for drivers.
pub fn of_process() -> Key {
    let files = Files { system: ["/usr/share/drirc.d", "/etc/drirc"].map(PathBuf::from) };
    of(std::env::vars_os(), std::env::var_os("HOME"), &files)
}

/// The driconf files of the system: a folder, and a file.
struct Files {
    system: [PathBuf; 2],
}

fn of(variables: impl Iterator<Item = (OsString, OsString)>, home: Option<OsString>, files: &Files) -> Key {
    let mut entries: Vec<Vec<u8>> = Vec::new();
    let mut folders = None;
    for (name, value) in variables.filter(|(name, _)| counts(name)) {
        entries.push([name.as_bytes(), b"=", value.as_bytes()].concat());
        if name == FOLDER {
            folders = Some(value);
        }
    }
    match folders {
        Some(folders) => std::env::split_paths(&folders).for_each(|folder| add_folder(&mut entries, &folder)),
        None => {
            let [folder, file] = &files.system;
            add_folder(&mut entries, folder);
            add_file(&mut entries, file);
        }
    }
    if let Some(home) = home {
        add_file(&mut entries, &Path::new(&home).join(".drirc"));
    }
    entries.sort_unstable();
    entries.iter_mut().for_each(|entry| entry.push(0));
    digest(key::DRIVER_OPTIONS, &entries.concat())
}

fn add_folder(entries: &mut Vec<Vec<u8>>, folder: &Path) {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    files
        .filter(|path| path.extension() == Some(OsStr::new("conf")))
        .for_each(|path| add_file(entries, &path));
}

fn add_file(entries: &mut Vec<Vec<u8>>, path: &Path) {
    let Ok(found) = fs::metadata(path) else { return };
    let time =
        found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    let numbers = format!("\n{}\n{}", found.len(), time.as_nanos());
    entries.push([path.as_os_str().as_bytes(), numbers.as_bytes()].concat());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Variables of Mesa 25.0.7's drivers that decide code, and variables that players set and that might decide code.
    const COUNT: &str = "ACO_DEBUG RADV_DEBUG RADV_PERFTEST RADV_EXPERIMENTAL RADV_TRAP_HANDLER RADV_TEX_ANISO \
        RADV_FORCE_VRS RADV_RRA_TRACE_HISTORY_SIZE AMD_FAST_HS_MSG AMD_IMAGE_OPCODES AMD_CU_MASK \
        ANV_DEBUG ANV_NO_GPL INTEL_DEBUG INTEL_SIMD_DEBUG INTEL_PRECISE_TRIG INTEL_SHADER_ASM_READ_PATH JAY_DEBUG \
        NVK_DEBUG NVK_USE_NAK NAK_DEBUG NV50_PROG_OPTIMIZE TU_DEBUG IR3_SHADER_DEBUG FD_DEV_FEATURES PANVK_DEBUG \
        V3D_DEBUG LP_DEBUG LP_NATIVE_VECTOR_WIDTH GALLIVM_DEBUG GALLIUM_OVERRIDE_CPU_CAPS DRAW_USE_LLVM NIR_DEBUG \
        NIR_SKIP MESA_SPIRV_FORCE_UNSTRUCTURED MESA_SPIRV_READ_PATH MESA_PROCESS_NAME MESA_VK_VERSION_OVERRIDE \
        MESA_DRICONF_EXECUTABLE_OVERRIDE MESA_VK_TRACE DRIRC_CONFIGDIR __GL_LOG_MAX_ANISO __GL_FSAA_MODE \
        __GL_WRITE_TEXT_SECTION radv_disable_trunc_coord radv_invariant_geom vk_lower_terminate_to_discard no_16bit \
        anv_assume_full_subgroups intel_stack_id hk_fake_minmax shader_spilling_rate";

    /// Variables that decide no code, from the environment of players, of Steam and of `vkstash`.
    const DO_NOT: &str = "PATH HOME LANG DISPLAY WAYLAND_DISPLAY LD_PRELOAD DRI_PRIME AMDGPU_GPU_ID MANGOHUD ENABLE_VKBASALT \
        SteamAppId DXVK_HUD VKD3D_CONFIG PROTON_LOG WINEPREFIX VKSTASH VKSTASH_DIR VK_DRIVER_FILES VK_ICD_FILENAMES \
        VK_INSTANCE_LAYERS VK_LOADER_LAYERS_ENABLE VK_ADD_IMPLICIT_LAYER_PATH NODEVICE_SELECT mesa_glthread \
        MESA_SHADER_CACHE_DIR MESA_SHADER_CACHE_MAX_SIZE MESA_SHADER_CACHE_DISABLE MESA_DISK_CACHE_SINGLE_FILE \
        MESA_DISK_CACHE_READ_ONLY_FOZ_DBS MESA_GLSL_CACHE_DIR MESA_GLSL_CACHE_DISABLE __GL_SHADER_DISK_CACHE \
        __GL_SHADER_DISK_CACHE_PATH __GL_SHADER_DISK_CACHE_SIZE __GL_SHADER_DISK_CACHE_SKIP_CLEANUP \
        __GL_SHADER_DISK_CACHE_APP_NAME AMD_VK_PIPELINE_CACHE_PATH AMD_VK_USE_PIPELINE_CACHE \
        MESA_VK_WSI_PRESENT_MODE MESA_VK_WSI_DEBUG MESA_VK_DEVICE_SELECT MESA_VK_DEVICE_SELECT_FORCE_DEFAULT_DEVICE \
        MESA_LOADER_DRIVER_OVERRIDE AMD_VULKAN_ICD RADV_FORCE_FAMILY vk_x11_override_min_image_count \
        vk_x11_strict_image_count vk_wsi_force_bgra8_unorm_first vk_xwayland_wait_ready vk_khr_present_wait \
        __GL_SYNC_TO_VBLANK __GL_THREADED_OPTIMIZATIONS __NV_PRIME_RENDER_OFFLOAD __GL_VRR_ALLOWED \
        MESA_LOG MESA_LOG_LEVEL MESA_LOG_FILE MESA_DEBUG MESA_GPU_TRACES MESA_GPU_TRACEFILE MESA_SPIRV_DUMP_PATH \
        RADV_THREAD_TRACE_BUFFER_SIZE GALLIUM_HUD INTEL_MEASURE FD_RD_DUMP";

    #[test]
    fn what_may_decide_code_counts_and_caches_windows_and_logs_do_not() {
        for name in COUNT.split_whitespace() {
            assert!(counts(OsStr::new(name)), "{name}");
        }
        for name in DO_NOT.split_whitespace() {
            assert!(!counts(OsStr::new(name)), "{name}");
        }
        // Each excluded prefix continues one of the others.
        for name in LEFT_OUT.split_whitespace() {
            let is_of_a_family = |list: &str| list.split_whitespace().any(|start| name.starts_with(start));
            assert!(is_of_a_family(VARIABLES) || is_of_a_family(DRICONF), "{name}");
        }
    }

    fn with(variables: &[(&str, &str)], home: &Path, files: &Files) -> Key {
        let variables = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        of(variables, Some(home.into()), files)
    }

    #[test]
    fn the_order_of_variables_says_nothing_and_their_values_do() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files { system: ["a", "b"].map(|name| folder.path().join(name)) };
        let of = |variables: &[(&str, &str)]| with(variables, folder.path(), &files);
        let (one, other) = (("ACO_DEBUG", "noopt"), ("RADV_PERFTEST", "gpl"));
        assert_eq!(of(&[one, other]), of(&[other, one]));
        assert_eq!(of(&[one, ("MESA_SHADER_CACHE_DIR", "/x")]), of(&[one]));
        let all = [of(&[]), of(&[one]), of(&[other]), of(&[one, other]), of(&[("ACO_DEBUG", "")])];
        assert!((1..all.len()).all(|place| !all[..place].contains(&all[place])));
    }

    #[test]
    fn files_count_with_their_size_and_time_where_drivers_read_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["system", "other", "home"] {
            fs::create_dir(path(name)).unwrap();
        }
        let files = Files { system: [path("system"), path("drirc")] };
        let of = |variables: &[(&str, &str)]| with(variables, &path("home"), &files);
        let other = path("other").to_str().unwrap().to_owned();
        let mut seen = vec![of(&[])];
        for name in ["system/00.conf", "system/01.conf", "drirc", "home/.drirc"] {
            fs::write(path(name), name).unwrap();
            seen.push(of(&[]));
            fs::write(path(name), format!("{name} is longer")).unwrap();
            seen.push(of(&[]));
            let file = fs::File::options().write(true).open(path(name)).unwrap();
            file.set_modified(UNIX_EPOCH + Duration::from_secs(1)).unwrap();
            seen.push(of(&[]));
            assert_eq!(seen.last(), Some(&of(&[])));
        }
        assert!((1..seen.len()).all(|place| !seen[..place].contains(&seen[place])));

        // Drivers read *.conf files only, and where the user names a folder they do not read the system's files.
        fs::write(path("system/README"), "x").unwrap();
        assert_eq!(seen.last(), Some(&of(&[])));
        let own = of(&[(FOLDER, &other)]);
        fs::write(path("system/02.conf"), "x").unwrap();
        assert_eq!(own, of(&[(FOLDER, &other)]));
        fs::write(path("other/02.conf"), "x").unwrap();
        assert_ne!(own, of(&[(FOLDER, &other)]));
    }
}
