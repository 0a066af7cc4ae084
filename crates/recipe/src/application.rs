//! Application description: the names and versions that the program gives in VkApplicationInfo.

use std::ffi::CStr;

use ash::vk;
use serde::{Deserialize, Serialize};

/// Names and versions in the program's VkApplicationInfo.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Application {
    /// pApplicationName; any bytes.
    pub name: Vec<u8>,
    /// applicationVersion.
    pub version: u32,
    /// pEngineName; any bytes.
    pub engine: Vec<u8>,
    /// engineVersion.
    pub engine_version: u32,
    /// apiVersion, VK_API_VERSION_1_0 where the program gave none.
    pub api_version: u32,
}

impl Application {
    /// Reads an instance's create info.
    ///
    /// # Safety
    /// `info` is a valid create info.
    pub unsafe fn read(info: &vk::InstanceCreateInfo<'_>) -> Application {
        // SAFETY: pApplicationInfo is NULL or valid, its names NULL or NULL-terminated.
        unsafe {
            let Some(application) = info.p_application_info.as_ref() else {
                return Application { api_version: vk::API_VERSION_1_0, ..Application::default() };
            };
            let name = |pointer: *const std::ffi::c_char| {
                if pointer.is_null() { Vec::new() } else { CStr::from_ptr(pointer).to_bytes().to_vec() }
            };
            Application {
                name: name(application.p_application_name),
                version: application.application_version,
                engine: name(application.p_engine_name),
                engine_version: application.engine_version,
                api_version: application.api_version.max(vk::API_VERSION_1_0),
            }
        }
    }
}
