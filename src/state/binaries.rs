//! VK_KHR_pipeline_binary on a live device.

use ash::vk;

use super::dispatch::DeviceTable;
use crate::pipeline_binary;
use vkstash_model::key;
use vkstash_recipe::device_configuration::DeviceConfiguration;
use vkstash_store::base::once::OnceLock;
use vkstash_store::format::record::Key;

/// What binaries of this device depend on beside their pipelines.
#[derive(Default)]
pub struct Binaries(OnceLock<Option<Key>>);

impl Binaries {
    /// The device as the program configured it, and the driver's global key: a changed one invalidates every binary
    /// (contract 5.1). None where the driver does not tell it.
    pub fn digest(
        &self,
        table: &DeviceTable,
        device: vk::Device,
        configuration: &DeviceConfiguration,
    ) -> Option<&Key> {
        if let Some(known) = self.0.get() {
            return known.as_ref();
        }
        // Not within a lock: the driver may call the program.
        let digest = ask(table, device, configuration);
        self.0.get_or_init(|| digest).as_ref()
    }
}

fn ask(table: &DeviceTable, device: vk::Device, configuration: &DeviceConfiguration) -> Option<Key> {
    let mut global = pipeline_binary::Key::default();
    // SAFETY: a live device that enabled the extension; NULL asks for the global key (contract 5.1).
    let result = unsafe { (table.get_pipeline_key?)(device, std::ptr::null(), &mut global) };
    if result != vk::Result::SUCCESS || global.as_bytes().is_empty() {
        return None;
    }
    let (configuration, _) = configuration.encoded().ok()?;
    Some(key::digest(key::BINARIES, &[configuration.as_slice(), global.as_bytes()].concat()))
}
