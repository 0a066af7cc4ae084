//! The two identifier queries, on a device whose driver cannot answer them.

use ash::vk;

use crate::state::devices::live_devices;
use vkstash_host::guard::guard;
use vkstash_model::identifier;
use vkstash_model::record::Key;
use vkstash_recipe::capture::stage;

/// vkGetShaderModuleIdentifierEXT.
pub unsafe extern "system" fn of_module(
    handle: vk::Device,
    module: vk::ShaderModule,
    answer: *mut vk::ShaderModuleIdentifierEXT<'_>,
) {
    let query = || {
        // SAFETY: a live device and a structure to fill.
        unsafe {
            let identity = live_devices::find(handle).and_then(|device| device.module_identity(module));
            write(&mut *answer, identity.as_ref());
        }
    };
    guard("vkGetShaderModuleIdentifierEXT", query, || ());
}

/// vkGetShaderModuleCreateInfoIdentifierEXT.
pub unsafe extern "system" fn of_create_info(
    _handle: vk::Device,
    info: *const vk::ShaderModuleCreateInfo<'_>,
    answer: *mut vk::ShaderModuleIdentifierEXT<'_>,
) {
    let query = || {
        // SAFETY: a valid create info and a structure to fill.
        unsafe {
            let identity = identifier::module_identity((*info).flags, stage::code(&*info));
            write(&mut *answer, Some(&identity));
        }
    };
    guard("vkGetShaderModuleCreateInfoIdentifierEXT", query, || ());
}

fn write(answer: &mut vk::ShaderModuleIdentifierEXT<'_>, identity: Option<&Key>) {
    answer.identifier = [0; 32];
    answer.identifier_size = identity.map_or(0, |identity| {
        answer.identifier.copy_from_slice(identity);
        identity.len() as u32
    });
}
