//! The exported function for identifiers. `include/vkstash.h` is made of this file: the comments of functions are
//! written for C.

use ash::vk;

use super::sessions::call;
use super::types::{VkstashModuleIdentifier, VkstashResult};
use vkstash_model::identifier::{ALGORITHM_UUID, module_identity};

/// The first word of SPIR-V, in this machine's byte order.
const SPIRV: u32 = 0x0723_0203;

/// Says which identifier the layer gives a shader module with these flags and this code, without a device: what
/// vkGetShaderModuleCreateInfoIdentifierEXT gives on a device with the layer's identifiers, that is on one whose
/// shaderModuleIdentifierAlgorithmUUID is algorithm_uuid. code_size is in bytes, as in VkShaderModuleCreateInfo. What
/// does not begin as SPIR-V is an invalid argument.
///
/// # Safety
/// Each pointer is NULL or points to so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vkstash_get_module_identifier(
    flags: u32,
    code: *const u32,
    code_size: usize,
    identifier: *mut VkstashModuleIdentifier,
) -> VkstashResult {
    call("vkstash_get_module_identifier", || {
        if identifier.is_null() || code.is_null() || code_size < 4 || code_size % 4 != 0 {
            return VkstashResult::VKSTASH_ERROR_INVALID_ARGUMENT;
        }
        // SAFETY: not NULL, so the caller promises at least four bytes, which may be unaligned.
        if unsafe { code.read_unaligned() } != SPIRV || isize::try_from(code_size).is_err() {
            return VkstashResult::VKSTASH_ERROR_INVALID_ARGUMENT;
        }
        // SAFETY: the caller promises so many bytes, which nobody changes during the call; they fit an address space.
        let bytes = unsafe { std::slice::from_raw_parts(code.cast::<u8>(), code_size) };
        let found = VkstashModuleIdentifier {
            identifier: module_identity(vk::ShaderModuleCreateFlags::from_raw(flags), bytes),
            algorithm_uuid: ALGORITHM_UUID,
        };
        // SAFETY: not NULL, so the caller promises a place for an identifier, which may be unaligned.
        unsafe { identifier.write_unaligned(found) };
        VkstashResult::VKSTASH_SUCCESS
    })
}
