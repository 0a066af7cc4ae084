//! The value that describes what a program does.

use serde::{Deserialize, Serialize};

/// The kind of pipelines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shader {
    /// Compute; the constant is part of the module.
    #[default]
    Compute,
    /// Compute; one module, and the constant is a specialization constant.
    Specialized,
    /// Compute; the constant is the number of values stored, so that each pipeline's code has another length.
    Lengthy,
    /// Graphics with a render pass.
    RenderPass,
    /// Graphics with dynamic rendering.
    DynamicRendering,
}

impl Shader {
    pub(super) fn is_graphics(self) -> bool {
        matches!(self, Shader::RenderPass | Shader::DynamicRendering)
    }
}

/// How a stage names its code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Code {
    /// The stage has a shader module.
    #[default]
    Module,
    /// A VkShaderModuleCreateInfo is in the stage's chain.
    Inline,
    /// The stage has an identifier alone, asked of the create info.
    Identifier,
    /// The stages have identifiers of these bytes.
    Bytes,
    /// The stage has a shader module, and beside it an identifier of size 0 with an invalid pointer.
    ModuleAndEmptyIdentifier,
}

/// The caches that are passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Caches {
    /// VK_NULL_HANDLE.
    #[default]
    None,
    /// Each call gets an empty cache of its own.
    Fresh,
    /// All calls share one cache.
    Shared,
}

/// How the process ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// The process destroys all objects and exits.
    #[default]
    Orderly,
    /// The process calls `exit` while device and instance are alive.
    Exit,
    /// The process calls `_exit` after this many milliseconds.
    UnderscoreExit(u64),
    /// The process is killed by SIGKILL after this many milliseconds.
    Kill(u64),
}

/// What the program does. The default is the simplest case.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Work {
    /// The kind of pipelines.
    pub shader: Shader,
    /// Number of pipelines.
    pub count: u32,
    /// The constant of the first pipeline; the others follow.
    pub first: u32,
    /// How stages name their code.
    pub code: Code,
    /// For [`Code::Bytes`].
    pub bytes: Vec<u8>,
    /// The caches.
    pub caches: Caches,
    /// The shared cache's initial data.
    pub initial_data: Vec<u8>,
    /// The flags are in VkPipelineCreateFlags2CreateInfo.
    pub flags2: bool,
    /// If not 0, pipelines have no layout (VK_EXT_descriptor_heap). The number is part of the sampler that each stage
    /// embeds.
    pub heap: u32,
    /// Create infos in one call.
    pub batch: u32,
    /// In each batch the first pipeline is the base of the others, by index.
    pub derivatives: bool,
    /// FAIL_ON_PIPELINE_COMPILE_REQUIRED.
    pub fail_on: bool,
    /// EARLY_RETURN_ON_FAILURE.
    pub early_return: bool,
    /// Creation feedback is requested.
    pub feedback: bool,
    /// Each create info's chain has a structure of an unknown type.
    pub unknown_structure: bool,
    /// Pointers that the specification says are ignored are invalid.
    pub invalid_pointers: bool,
    /// Graphics pipelines discard everything before rasterization.
    pub discard: bool,
    /// The device enables pipelineCreationCacheControl.
    pub cache_control: bool,
    /// The device enables these features, too ([`crate::vulkan::CoreFeatures`]).
    pub features: Vec<usize>,
    /// The device enables VK_EXT_shader_module_identifier.
    pub identifiers: bool,
    /// This many threads do the same in parallel, each from the first constant on.
    pub threads: u32,
    /// Validation messages are collected.
    pub messages: bool,
    /// How the process ends.
    pub end: End,
}

impl Default for Work {
    fn default() -> Work {
        Work {
            shader: Shader::Compute,
            count: 3,
            first: 1,
            code: Code::Module,
            bytes: Vec::new(),
            caches: Caches::None,
            initial_data: Vec::new(),
            flags2: false,
            heap: 0,
            batch: 1,
            derivatives: false,
            fail_on: false,
            early_return: false,
            feedback: false,
            unknown_structure: false,
            invalid_pointers: false,
            discard: false,
            cache_control: false,
            features: Vec::new(),
            identifiers: false,
            threads: 1,
            messages: false,
            end: End::Orderly,
        }
    }
}

/// The unknown structure type.
pub const UNKNOWN_STRUCTURE: i32 = 1_000_999_000;
