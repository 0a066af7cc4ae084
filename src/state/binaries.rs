//! VK_KHR_pipeline_binary on a live device.

use std::sync::OnceLock;

use ash::vk;

use super::device::Device;
use crate::pipeline_binary;
use crate::recipe::key;
use vkstash_store::format::record::Key;

/// What binaries of this device depend on beside their pipelines.
#[derive(Default)]
pub struct Binaries(OnceLock<Option<Key>>);

impl Binaries {
    /// The device as the program set it up, and the driver's global key: a changed one invalidates every binary
    /// (contract 5.1). None where the driver does not tell it.
    pub fn digest<'a>(&'a self, device: &Device) -> Option<&'a Key> {
        self.0.get_or_init(|| ask(device)).as_ref()
    }
}

fn ask(device: &Device) -> Option<Key> {
    let mut global = pipeline_binary::Key::default();
    // SAFETY: a live device that enabled the extension; NULL asks for the global key.
    let result = unsafe { (device.table.get_pipeline_key?)(device.handle, std::ptr::null(), &mut global) };
    if result != vk::Result::SUCCESS || global.as_bytes().is_empty() {
        return None;
    }
    let (setup, _) = device.setup().encoded().ok()?;
    Some(key::digest(key::BINARIES, &[setup.as_slice(), global.as_bytes()].concat()))
}
