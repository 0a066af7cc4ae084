//! What the program does, described by a value.

use serde::{Deserialize, Serialize};

/// What the pipelines are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shader {
    /// Compute; the constant is part of the module.
    #[default]
    Compute,
    /// Compute; one module, and the constant is a specialization constant.
    Specialized,
    /// Compute; the constant says how many values are stored, so that each pipeline's code has its own length.
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
    /// By a shader module.
    #[default]
    Module,
    /// By a create info in the stage's chain.
    Inline,
    /// By its identifier alone, asked of the create info.
    Identifier,
    /// By these bytes alone.
    Bytes,
    /// By a shader module, with an identifier of size 0 and a wild pointer beside it.
    ModuleAndEmptyIdentifier,
}

/// The caches that are passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Caches {
    /// VK_NULL_HANDLE.
    #[default]
    None,
    /// A fresh one for each call.
    Fresh,
    /// One for all.
    Shared,
}

/// How the process ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// It destroys everything and exits.
    #[default]
    Orderly,
    /// `exit` with device and instance alive.
    Exit,
    /// `_exit` after that many milliseconds.
    UnderscoreExit(u64),
    /// SIGKILL after that many milliseconds.
    Kill(u64),
}

/// What the program does. Everything not said is the simplest way.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Work {
    /// What the pipelines are.
    pub shader: Shader,
    /// How many.
    pub count: u32,
    /// The first one's constant; the others' follow.
    pub first: u32,
    /// How stages name their code.
    pub code: Code,
    /// For [`Code::Bytes`].
    pub bytes: Vec<u8>,
    /// The caches.
    pub caches: Caches,
    /// What the shared cache starts with.
    pub initial_data: Vec<u8>,
    /// Flags live in VkPipelineCreateFlags2CreateInfo.
    pub flags2: bool,
    /// Create infos in one call.
    pub batch: u32,
    /// In each batch the first one is the others' base, by index.
    pub derivatives: bool,
    /// FAIL_ON_PIPELINE_COMPILE_REQUIRED.
    pub fail_on: bool,
    /// EARLY_RETURN_ON_FAILURE.
    pub early_return: bool,
    /// Ask for creation feedback.
    pub feedback: bool,
    /// A structure that nobody knows in each create info's chain.
    pub unknown_structure: bool,
    /// Pointers that the specification says to ignore are wild.
    pub wild: bool,
    /// Graphics pipelines discard everything before rasterization.
    pub discard: bool,
    /// The device enables pipelineCreationCacheControl.
    pub cache_control: bool,
    /// The device enables VK_EXT_shader_module_identifier.
    pub identifiers: bool,
    /// Everything is made on so many threads at once, each from the first constant on.
    pub threads: u32,
    /// Collect validation messages.
    pub messages: bool,
    /// The end.
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
            batch: 1,
            derivatives: false,
            fail_on: false,
            early_return: false,
            feedback: false,
            unknown_structure: false,
            wild: false,
            discard: false,
            cache_control: false,
            identifiers: false,
            threads: 1,
            messages: false,
            end: End::Orderly,
        }
    }
}

/// The structure type that nobody knows.
pub const UNKNOWN_STRUCTURE: i32 = 1_000_999_000;
