//! The program's create info as it is offered to the driver with a cache of ours.

use ash::vk;

use super::call::{self, CreateInfo};
use super::{Request, modules};
use crate::recipe::chain::Arena;
use crate::state::device::{Device, IdentifierMode};

/// What a create info needs that is offered to the driver with a cache of ours, for as long as the call.
pub struct Offered<'a> {
    device: &'a Device,
    brought: modules::Brought<'a>,
    arena: Arena,
}

impl<'a> Offered<'a> {
    /// Nothing is allocated until something is needed.
    pub fn new(device: &'a Device) -> Offered<'a> {
        Offered { device, brought: modules::Brought::new(device), arena: Arena::default() }
    }

    /// Whether the stash lacks code that an identifier of ours stands for.
    pub fn lacks_module(&self) -> bool {
        self.brought.lacks_module()
    }

    /// The create info with FAIL_ON_COMPILE_REQUIRED, and with the code that an identifier of ours stands for.
    /// None: the stash lacks the code, or a chain cannot be copied.
    ///
    /// # Safety
    /// The request's create info is valid; the copy is used only while `self` lives and stays where it is.
    pub unsafe fn prepare<I: CreateInfo>(&mut self, request: &Request<'_, I>) -> Option<I> {
        let mut info = request.info;
        if request.steering.identifier_only && self.device.identifiers == IdentifierMode::Emulated {
            // SAFETY: the caller's contract.
            info = unsafe { self.brought.bring(&info, request.recipe, self.device.stored()?) }?;
        }
        if self.device.cache_control {
            let fail_on = vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED;
            let none = vk::PipelineCreateFlags::empty();
            let flags2 = request.steering.flags2;
            // SAFETY: as above.
            info = unsafe { call::with_flags(&info, flags2, fail_on, none, &mut self.arena) }?;
        }
        Some(info)
    }
}
