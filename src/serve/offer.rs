//! The program's create info as it is offered to the driver with a cache of the layer's.

use super::create_info::CreateInfo;
use super::modules::StoredModules;
use super::request::Request;
use crate::state::devices::device::Device;
use vkstash_recipe::chain::Arena;

/// What a create info needs that is offered to the driver with a cache of the layer's, for as long as the call.
pub struct Offer<'a> {
    device: &'a Device,
    modules: StoredModules<'a>,
    arena: Arena,
}

impl<'a> Offer<'a> {
    /// Nothing is allocated until something is needed.
    pub fn new(device: &'a Device) -> Offer<'a> {
        Offer { device, modules: StoredModules::new(device), arena: Arena::default() }
    }

    /// Whether the stash lacks code that an identifier of the layer's stands for.
    pub fn lacks_module(&self) -> bool {
        self.modules.lacks_one()
    }

    /// The create info with FAIL_ON_COMPILE_REQUIRED, and with the code that an identifier of the layer's stands
    /// for.
    /// None: the stash lacks the code, or a chain cannot be copied.
    ///
    /// # Safety
    /// The request's create info is valid; the copy is used only while `self` lives and stays where it is.
    pub unsafe fn prepare<I: CreateInfo>(&mut self, request: &Request<'_, I>) -> Option<I> {
        let mut creation = *request.call.creation;
        if request.call.names_code_of_the_layers() {
            let (recipe, stored) = (request.pipeline.recipe, self.device.stored()?);
            // SAFETY: the create info is the one that the request's recipe was captured from; the caller
            // keeps `self.modules` in place while it uses the copy.
            creation = unsafe { self.modules.put_in(&creation, recipe, stored) }?;
        }
        let may_be_asked = !self.device.decided.cache_control || {
            // SAFETY: the create info, or its copy with modules, is valid; the caller keeps the arena where it is.
            unsafe { creation.forbid_compiling(&mut self.arena) }
        };
        may_be_asked.then_some(creation.info)
    }
}
