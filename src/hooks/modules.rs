//! Shader modules: hashed when they are created, and their code queued for the store if it is new.

use ash::vk;

use crate::guard::guard;
use crate::identifier::{self, NativeIdentifier};
use crate::recipe::capture::stage;
use crate::recipe::chain;
use crate::resolve::module_record;
use crate::state::device::{self, Device, IdentifierMode};
use crate::state::objects::Module;
use crate::stats::Count;
use crate::store::part::{Key, Kind};

/// vkCreateShaderModule.
pub unsafe extern "system" fn create(
    handle: vk::Device,
    info: *const vk::ShaderModuleCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    module: *mut vk::ShaderModule,
) -> vk::Result {
    // SAFETY: a live device.
    let Some(device) = (unsafe { device::find(handle) }) else { return vk::Result::ERROR_UNKNOWN };
    let Some(next) = device.table.create_shader_module else { return vk::Result::ERROR_UNKNOWN };
    // SAFETY: the program's valid arguments.
    let result = unsafe { next(handle, info, allocator, module) };
    if result == vk::Result::SUCCESS && device.describes() {
        // SAFETY: as above; the driver has written the handle.
        guard("vkCreateShaderModule", || unsafe { describe(&device, &*info, *module) }, || ());
    }
    result
}

/// # Safety
/// A valid create info and the module that was made of it.
unsafe fn describe(device: &Device, info: &vk::ShaderModuleCreateInfo<'_>, module: vk::ShaderModule) {
    // SAFETY: the caller's contract.
    let (code, scanned) = unsafe { (stage::code(info), chain::scan(info.p_next, |_| Ok(false))) };
    let identity = identifier::module_identity(info.flags, code);
    device.count(Count::Modules);
    let native = match device.identifiers {
        // SAFETY: a live module of a device that enabled the extension.
        IdentifierMode::Native => unsafe { native_identifier(device, module) },
        _ => None,
    };
    // Plain structures in a module's chain would have to be part of its identity; there are none today.
    let refusal = scanned.err();
    device.modules.insert(module, Module { identity, refusal });
    if device.keeps_artifacts() {
        keep(device, &identity, info.flags, code);
        if let Some(native) = native {
            device.learn_pair(&native, &identity);
        }
    }
}

/// Queues code that the stash does not have; code that it has is not copied.
fn keep(device: &Device, identity: &Key, flags: vk::ShaderModuleCreateFlags, code: &[u8]) {
    let Some(stored) = device.stored() else { return };
    if stored.portable.contains(Kind::Module, identity) {
        return;
    }
    device.count(Count::ModulesNew);
    if !stored.portable.put(Kind::Module, identity, module_record(flags, code).into_boxed_slice()) {
        device.count(Count::Dropped);
    }
}

/// # Safety
/// A live module of a device that enabled the extension natively.
unsafe fn native_identifier(device: &Device, module: vk::ShaderModule) -> Option<NativeIdentifier> {
    let mut identifier = vk::ShaderModuleIdentifierEXT::default();
    // SAFETY: the caller's contract.
    unsafe { (device.table.get_shader_module_identifier?)(device.handle, module, &mut identifier) };
    let bytes = identifier.identifier.get(..identifier.identifier_size as usize)?;
    NativeIdentifier::new(bytes)
}

/// vkDestroyShaderModule.
pub unsafe extern "system" fn destroy(
    handle: vk::Device,
    module: vk::ShaderModule,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: a live device.
    let Some(device) = (unsafe { device::find(handle) }) else { return };
    // Forgotten first: the driver may give the handle to another thread at once.
    guard("vkDestroyShaderModule", || device.modules.remove(module), || ());
    if let Some(next) = device.table.destroy_shader_module {
        // SAFETY: the program's valid arguments.
        unsafe { next(handle, module, allocator) };
    }
}
