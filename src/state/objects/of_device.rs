//! Objects of a device.

use super::by_handle::Objects;
use super::described::{
    ConversionObject, EncodedObject, LibraryObject, Module, SamplerObject, SetLayoutObject,
};
use super::shader_code::ShaderCode;

/// The program's live objects that pipelines are created from.
#[derive(Default)]
pub struct ObjectsOfDevice {
    /// Shader modules.
    pub modules: Objects<Module>,
    /// Colour conversions.
    pub conversions: Objects<ConversionObject>,
    /// Samplers.
    pub samplers: Objects<SamplerObject>,
    /// Descriptor set layouts.
    pub set_layouts: Objects<SetLayoutObject>,
    /// Pipeline layouts.
    pub layouts: Objects<EncodedObject>,
    /// Render passes.
    pub render_passes: Objects<EncodedObject>,
    /// Pipelines that are libraries.
    pub libraries: Objects<LibraryObject>,
    /// Code of live shader objects.
    pub shader_code: ShaderCode,
}
