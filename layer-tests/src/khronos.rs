//! The Khronos loader's own test driver (layer-tests/khronos), and the layer's interface to the loader.

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::PathBuf;

use ash::vk;
use serde_json::json;

use crate::child::{Scenario, Step, scenario};
use crate::env::{Driver, Env};
use crate::paths;

/// Names the driver in place of the one that scripts/khronos-icd.sh built; `none`: its source is not available here, so
/// its tests are skipped even where drivers are required.
pub const VARIABLE: &str = "VKSTASH_KHRONOS_ICD";
const FILE: &str = "libkhronos_test_icd.so";

/// The built driver.
fn library() -> Result<PathBuf, String> {
    let built = || paths::profile_folder().parent().map(|target| target.join("khronos").join(FILE));
    let path = std::env::var_os(VARIABLE).map(PathBuf::from).or_else(built).unwrap_or_default();
    path.canonicalize().map_err(|error| format!("{}: {error}: run scripts/khronos-icd.sh", path.display()))
}

/// A test whose steps run on this driver, with the layer as users have it.
pub fn on(steps: &[(&str, Step)], test: impl FnOnce(&Scenario, &Env)) {
    scenario(steps, |scenario| {
        if std::env::var(VARIABLE).is_ok_and(|value| value == "none") {
            return scenario.not_here("no Khronos test driver");
        }
        let library = match library() {
            Ok(library) => library,
            Err(reason) => return scenario.skip(&reason),
        };
        let manifest = scenario.folder().join("khronos.json");
        let driver = json!({ "library_path": library, "api_version": "1.3.0" });
        let text = json!({ "file_format_version": "1.0.0", "ICD": driver }).to_string();
        std::fs::write(&manifest, text).expect("a private file");
        // These variables name this driver, where the environment would name another.
        let env = Env::new(Driver::Test(json!({})), scenario.folder());
        test(scenario, &env.var("VK_DRIVER_FILES", &manifest).var("VK_ICD_FILENAMES", &manifest));
    });
}

/// VkNegotiateLayerInterface of vk_layer.h.
#[repr(C)]
#[derive(Debug)]
pub struct Negotiation {
    /// sType: 1.
    pub s_type: i32,
    /// pNext.
    pub p_next: *mut c_void,
    /// loaderLayerInterfaceVersion: in, the loader's; out, the version in use.
    pub version: u32,
    /// vkGetInstanceProcAddr.
    pub instance: Option<vk::PFN_vkGetInstanceProcAddr>,
    /// vkGetDeviceProcAddr.
    pub device: Option<vk::PFN_vkGetDeviceProcAddr>,
    /// vk_layerGetPhysicalDeviceProcAddr.
    pub physical_device: Option<vk::PFN_vkGetInstanceProcAddr>,
}

/// The layer's library, opened beside the loader: a process has one copy.
pub struct LayerLibrary(*mut c_void);

impl LayerLibrary {
    /// Opens it.
    pub fn open() -> LayerLibrary {
        let path = paths::layer_library();
        let path = CString::new(path.to_str().expect("a readable path")).expect("no NUL in a path");
        // SAFETY: a NUL-terminated path; the library's initialisation has no preconditions.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "{} cannot be loaded", path.to_string_lossy());
        LayerLibrary(handle)
    }

    /// vkNegotiateLoaderLayerInterfaceVersion with this structure, or with NULL.
    pub fn negotiate(&self, negotiation: Option<&mut Negotiation>) -> vk::Result {
        type Negotiate = unsafe extern "system" fn(*mut Negotiation) -> vk::Result;
        let pointer = negotiation.map_or(std::ptr::null_mut(), std::ptr::from_mut);
        // SAFETY: vk_layer.h gives this exported symbol its type; the argument is a valid structure, or NULL, which
        // the layer refuses.
        unsafe {
            let symbol = libc::dlsym(self.0, c"vkNegotiateLoaderLayerInterfaceVersion".as_ptr());
            assert!(!symbol.is_null(), "the layer exports no negotiation");
            std::mem::transmute::<*mut c_void, Negotiate>(symbol)(pointer)
        }
    }

    /// The three look-up functions that a loader of this version gets.
    pub fn look_ups(&self, version: u32) -> (vk::Result, Negotiation) {
        let mut asked = Negotiation::new(1, version);
        (self.negotiate(Some(&mut asked)), asked)
    }
}

impl Drop for LayerLibrary {
    fn drop(&mut self) {
        // SAFETY: opened by us, closed once; the loader holds its own reference.
        unsafe { libc::dlclose(self.0) };
    }
}

impl Negotiation {
    /// The structure that a loader of this version passes.
    pub fn new(s_type: i32, version: u32) -> Negotiation {
        let p_next = std::ptr::null_mut();
        Negotiation { s_type, p_next, version, instance: None, device: None, physical_device: None }
    }
}

/// The owner of a command: `layer`, `driver`, `validation`, `loader`, `none` for NULL, else the library's path.
pub fn owner(command: vk::PFN_vkVoidFunction) -> String {
    let Some(command) = command else { return "none".to_owned() };
    // SAFETY: a zeroed Dl_info is valid.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: dladdr takes any address.
    let found = unsafe { libc::dladdr(command as *const c_void, &mut info) };
    assert!(found != 0 && !info.dli_fname.is_null(), "code outside of every library");
    // SAFETY: dladdr has just found the name, and the library stays loaded.
    let path = unsafe { CStr::from_ptr(info.dli_fname as *const c_char) }.to_string_lossy().into_owned();
    let known = [
        ("libVkLayer_vkstash", "layer"),
        ("libkhronos_test_icd", "driver"),
        ("libVkLayer_khronos_validation", "validation"),
        ("libvulkan", "loader"),
    ];
    known.iter().find(|(part, _)| path.contains(part)).map_or(path.clone(), |(_, name)| (*name).to_owned())
}
