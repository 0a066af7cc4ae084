//! A pipeline layout that a worker has borrowed from the program.

use std::ptr;

use crate::state::ahead::lending::{LentLayout, Postponed};
use crate::state::devices::device::Device;
use vkstash_model::record::Key;

/// A layout of the program's, which exists, as its samplers do, as long as this value.
pub struct Loan<'a> {
    device: &'a Device,
    layout: LentLayout,
}

impl<'a> Loan<'a> {
    /// Borrows a layout of this digest for the pipeline of this key. None: the program has none, and the key waits for
    /// one. The worker is in the driver, behind the gate, so that vkDestroyDevice waits for the end of the loan.
    pub fn of(device: &'a Device, digest: &Key, key: &Key) -> Option<Loan<'a>> {
        let samplers = &device.objects.samplers;
        let layout = device.work.lending.borrow(digest, key, &|live| {
            samplers.read(live.handle, |sampler| sampler.creation == live.creation).unwrap_or_default()
        })?;
        Some(Loan { device, layout })
    }

    /// The layout.
    pub fn layout(&self) -> &LentLayout {
        &self.layout
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        let (handle, table) = (self.device.handle, &self.device.table);
        for object in self.device.work.lending.give_back(&self.layout) {
            // SAFETY: the device is alive, because vkDestroyDevice waits for this worker. The program has destroyed the
            // object, which it created without an allocator, and no worker uses it any more.
            unsafe {
                match object {
                    Postponed::Layout(layout) => {
                        if let Some(destroy) = table.destroy_pipeline_layout {
                            destroy(handle, layout, ptr::null());
                        }
                    }
                    Postponed::Sampler(sampler) => {
                        if let Some(destroy) = table.destroy_sampler {
                            destroy(handle, sampler, ptr::null());
                        }
                    }
                }
            }
        }
    }
}
