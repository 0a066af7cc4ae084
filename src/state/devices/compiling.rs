//! A pipeline that the driver compiles for the program, which is marked in the guard file meanwhile: so it is known
//! what a process ended at that died of it.

use ash::vk;

use crate::state::process::stored::Stored;
use vkstash_model::record::Key;
use vkstash_store::part::admission::InFlight;

/// A pipeline that the driver compiles. It is marked until this is dropped.
pub struct Compiling {
    key: Key,
    _mark: Option<InFlight>,
}

impl Compiling {
    /// The driver is about to compile what has this key.
    pub fn begin(stored: &Stored, key: &Key, stages: vk::ShaderStageFlags) -> Compiling {
        Compiling { key: *key, _mark: stored.device.compiling(key, stages.as_raw()) }
    }

    /// The driver has answered. `is_made`: with what it has compiled, so earlier ends of processes count no more.
    pub fn end(self, stored: Option<&Stored>, is_made: bool) {
        if let Some(stored) = stored.filter(|_| is_made) {
            stored.device.has_compiled(&self.key);
        }
    }
}
