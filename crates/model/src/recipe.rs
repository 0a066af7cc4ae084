//! Contents of a recipe. Every field is part of the key; the encoding is versioned by [`SCHEMA`].
//!
//! Numbers are the Vulkan values themselves. Floating-point members are kept as their bits, so that equal
//! recipes are equal bytes. Layouts and render passes are named by the digest of their own encoding and
//! stored beside the recipe: a program has few of them and uses them in many pipelines.

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::{Deserialize as DeriveDeserialize, Serialize, Serializer};
use smallvec::SmallVec;

use crate::record::Key;
use crate::{key, list};

/// Version of the encoding below. Any change to it, or to what capture writes into it, is a new number.
pub const SCHEMA: u32 = 2;

/// Bytes that are encoded with their length and decoded without a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes<'a>(pub &'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Bytes<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrow;
        impl<'de> Visitor<'de> for Borrow {
            type Value = Bytes<'de>;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("bytes")
            }

            fn visit_borrowed_bytes<E: Error>(self, bytes: &'de [u8]) -> Result<Bytes<'de>, E> {
                Ok(Bytes(bytes))
            }
        }
        deserializer.deserialize_bytes(Borrow)
    }
}

/// A pNext structure whose members are all plain numbers: their bytes, without padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, DeriveDeserialize)]
pub struct Extension<'a> {
    /// VkStructureType.
    pub s_type: i32,
    /// The members that follow pNext.
    #[serde(borrow)]
    pub members: Bytes<'a>,
}

/// A pNext structure with counts and pointers, written out as 32-bit words: its members in order, each array
/// behind its count. What the specification ignores is absent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, DeriveDeserialize)]
pub struct Flattened {
    /// VkStructureType.
    pub s_type: i32,
    /// The words.
    #[serde(with = "list")]
    pub words: Words,
}

/// A structure's words.
pub type Words = SmallVec<[u32; 16]>;

/// The structures of one chain, each list sorted by type: the order in a chain means nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct Extensions<'a> {
    /// Structures of numbers alone.
    #[serde(borrow, with = "list")]
    pub plain: SmallVec<[Extension<'a>; 2]>,
    /// The others. They are rare: no room is kept for any.
    #[serde(with = "list")]
    pub flattened: SmallVec<[Flattened; 0]>,
}

/// One pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct Recipe<'a> {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The pipeline.
    #[serde(borrow)]
    pub pipeline: Pipeline<'a>,
}

/// The kinds of pipelines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
#[allow(clippy::large_enum_variant, reason = "built once a call, on the stack: a box would be an allocation")]
pub enum Pipeline<'a> {
    /// VkComputePipelineCreateInfo.
    Compute(#[serde(borrow)] Compute<'a>),
    /// VkGraphicsPipelineCreateInfo: a complete pipeline, a library, or a link of libraries.
    Graphics(#[serde(borrow)] Graphics<'a>),
    /// VkRayTracingPipelineCreateInfoKHR.
    RayTracing(#[serde(borrow)] RayTracing<'a>),
    /// VkShaderCreateInfoEXT: no pipeline, but made of the same parts.
    Shaders(#[serde(borrow)] Shaders<'a>),
}

/// What a recipe names by digest: records of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Of the [`PipelineLayout`], where there is one.
    pub layout: Option<Key>,
    /// Of the [`RenderPass`], where there is one.
    pub render_pass: Option<Key>,
}

impl<'a> Pipeline<'a> {
    /// What the recipe names by digest.
    pub fn parts(&self) -> Parts {
        match self {
            Pipeline::Compute(compute) => Parts { layout: compute.layout, render_pass: None },
            Pipeline::RayTracing(tracing) => Parts { layout: tracing.layout, render_pass: None },
            Pipeline::Shaders(shaders) => Parts { layout: Some(shaders.layout), render_pass: None },
            Pipeline::Graphics(graphics) => Parts {
                layout: graphics.layout,
                render_pass: match &graphics.target {
                    Target::RenderPass { render_pass, .. } => Some(*render_pass),
                    Target::None | Target::Dynamic { .. } => None,
                },
            },
        }
    }

    /// The stages, in the order in which the program gave them.
    pub fn stages(&self) -> &[Stage<'a>] {
        match self {
            Pipeline::Compute(compute) => std::slice::from_ref(&compute.stage),
            Pipeline::Graphics(graphics) => &graphics.stages,
            Pipeline::RayTracing(tracing) => &tracing.stages,
            Pipeline::Shaders(shaders) => &shaders.stages,
        }
    }

    /// Keys of the libraries that it links.
    pub fn libraries(&self) -> &[Key] {
        match self {
            Pipeline::Compute(_) | Pipeline::Shaders(_) => &[],
            Pipeline::Graphics(graphics) => &graphics.libraries,
            Pipeline::RayTracing(tracing) => &tracing.libraries,
        }
    }
}

/// A compute pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct Compute<'a> {
    /// VkPipelineCreateFlags2, less what only steers the call.
    pub flags: u64,
    /// Its only stage.
    #[serde(borrow)]
    pub stage: Stage<'a>,
    /// Digest of the [`PipelineLayout`]; None with descriptor heaps, which need none.
    pub layout: Option<Key>,
    /// Structures of the pipeline's chain.
    #[serde(borrow)]
    pub extensions: Extensions<'a>,
}

/// The code of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub enum Code<'a> {
    /// By module identity.
    Module(Key),
    /// By a driver's own identifier, where the module was never seen.
    Native {
        /// VkPhysicalDeviceShaderModuleIdentifierPropertiesEXT::shaderModuleIdentifierAlgorithmUUID.
        algorithm: [u8; 16],
        /// 1 to 32 bytes.
        #[serde(borrow)]
        identifier: Bytes<'a>,
    },
}

/// A shader object, or those that are linked together, in the order of their stages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct Shaders<'a> {
    /// The shaders. Their flags are VkShaderCreateFlagsEXT.
    #[serde(borrow, with = "list")]
    pub stages: SmallVec<[Stage<'a>; 2]>,
    /// VkShaderCreateInfoEXT::nextStage of each.
    #[serde(with = "list")]
    pub next_stages: SmallVec<[u32; 2]>,
    /// Digest of the [`PipelineLayout`] with the set layouts and push constants that all of them name.
    pub layout: Key,
}

/// One shader stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct Stage<'a> {
    /// VkPipelineShaderStageCreateFlags, or the flags of a shader object.
    pub flags: u32,
    /// VkShaderStageFlagBits.
    pub stage: u32,
    /// The code.
    #[serde(borrow)]
    pub code: Code<'a>,
    /// The entry point's name, without the terminating zero.
    #[serde(borrow)]
    pub entry_point: Bytes<'a>,
    /// Specialization constants by identifier, sorted; bytes that no entry names are left out.
    #[serde(borrow, with = "list")]
    pub specialization: SmallVec<[(u32, Bytes<'a>); 4]>,
    /// VkShaderDescriptorSetAndBindingMappingInfoEXT; empty where there is none.
    #[serde(with = "list")]
    pub mappings: SmallVec<[Mapping; 0]>,
    /// Plain structures of the stage's chain.
    #[serde(borrow)]
    pub extensions: Extensions<'a>,
}

/// Where a stage finds the descriptors of some bindings in a descriptor heap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct Mapping {
    /// Set, first binding, number of bindings, resource mask, VkDescriptorMappingSourceEXT.
    pub members: [u32; 5],
    /// The numbers of the source's own structure, in order.
    #[serde(with = "list")]
    pub source: SmallVec<[u32; 11]>,
    /// The embedded sampler, where there is one.
    pub sampler: Option<Box<Sampler>>,
}

/// A graphics pipeline, complete or a part of one. State that contract 6 declares ignored, and state that
/// belongs to another part, is absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct Graphics<'a> {
    /// VkPipelineCreateFlags2, less what only steers the call.
    pub flags: u64,
    /// VkGraphicsPipelineLibraryFlagsEXT: the subsets of state that this create info itself provides.
    pub subsets: u32,
    /// Keys of the libraries that are linked, sorted: which of them comes first means nothing.
    #[serde(with = "list")]
    pub libraries: SmallVec<[Key; 4]>,
    /// The stages in the order in which the program gave them.
    #[serde(borrow, with = "list")]
    pub stages: SmallVec<[Stage<'a>; 5]>,
    /// VkPipelineVertexInputStateCreateInfo.
    #[serde(borrow)]
    pub vertex_input: Option<VertexInput<'a>>,
    /// Topology and primitive restart.
    #[serde(borrow)]
    pub input_assembly: Option<InputAssembly<'a>>,
    /// VkPipelineTessellationStateCreateInfo.
    #[serde(borrow)]
    pub tessellation: Option<Tessellation<'a>>,
    /// VkPipelineViewportStateCreateInfo.
    #[serde(borrow)]
    pub viewport: Option<Viewport<'a>>,
    /// VkPipelineRasterizationStateCreateInfo.
    #[serde(borrow)]
    pub rasterization: Option<Rasterization<'a>>,
    /// VkPipelineMultisampleStateCreateInfo.
    #[serde(borrow)]
    pub multisample: Option<Multisample<'a>>,
    /// VkPipelineDepthStencilStateCreateInfo.
    #[serde(borrow)]
    pub depth_stencil: Option<DepthStencil<'a>>,
    /// VkPipelineColorBlendStateCreateInfo.
    #[serde(borrow)]
    pub color_blend: Option<ColorBlend<'a>>,
    /// VkDynamicState values, sorted, without duplicates.
    #[serde(with = "list")]
    pub dynamic: SmallVec<[i32; 24]>,
    /// Digest of the [`PipelineLayout`]; None where no subset needs one.
    pub layout: Option<Key>,
    /// What the pipeline renders to.
    pub target: Target,
    /// Structures of the pipeline's chain.
    #[serde(borrow)]
    pub extensions: Extensions<'a>,
}

/// What a graphics pipeline renders to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub enum Target {
    /// None of the subsets needs one.
    None,
    /// A subpass of a render pass.
    RenderPass {
        /// Digest of the [`RenderPass`].
        render_pass: Key,
        /// Index.
        subpass: u32,
    },
    /// VkPipelineRenderingCreateInfo, or its absence (all zero). Formats belong to the fragment output state.
    Dynamic {
        /// View mask.
        view_mask: u32,
        /// VkFormat of each colour attachment.
        #[serde(with = "list")]
        color: SmallVec<[i32; 8]>,
        /// VkFormat.
        depth: i32,
        /// VkFormat.
        stencil: i32,
    },
}

/// A ray tracing pipeline or library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct RayTracing<'a> {
    /// VkPipelineCreateFlags2, less what only steers the call.
    pub flags: u64,
    /// The stages, in the order in which the groups number them.
    #[serde(borrow, with = "list")]
    pub stages: SmallVec<[Stage<'a>; 4]>,
    /// Of each group: type, general, closest hit, any hit and intersection shader. Their order is that of the
    /// shader group handles.
    #[serde(with = "list")]
    pub groups: SmallVec<[[u32; 5]; 4]>,
    /// maxPipelineRayRecursionDepth.
    pub max_recursion: u32,
    /// maxPipelineRayPayloadSize and maxPipelineRayHitAttributeSize, where there is an interface.
    pub interface: Option<(u32, u32)>,
    /// Keys of the libraries, in order: their groups follow the pipeline's own.
    #[serde(with = "list")]
    pub libraries: SmallVec<[Key; 2]>,
    /// VkDynamicState values, sorted, without duplicates.
    #[serde(with = "list")]
    pub dynamic: SmallVec<[i32; 2]>,
    /// Digest of the [`PipelineLayout`].
    pub layout: Option<Key>,
    /// Structures of the pipeline's chain.
    #[serde(borrow)]
    pub extensions: Extensions<'a>,
}

/// Vertex bindings, attributes and divisors, each sorted by its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct VertexInput<'a> {
    /// VkPipelineVertexInputStateCreateFlags.
    pub flags: u32,
    /// (binding, stride, input rate).
    #[serde(with = "list")]
    pub bindings: SmallVec<[(u32, u32, i32); 4]>,
    /// (location, binding, format, offset).
    #[serde(with = "list")]
    pub attributes: SmallVec<[(u32, u32, i32, u32); 8]>,
    /// (binding, divisor).
    #[serde(with = "list")]
    pub divisors: SmallVec<[(u32, u32); 2]>,
    /// Structures of its chain.
    #[serde(borrow)]
    pub extensions: Extensions<'a>,
}

/// Input assembly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct InputAssembly<'a> {
    /// Flags.
    pub flags: u32,
    /// VkPrimitiveTopology; its class matters even where it is dynamic.
    pub topology: i32,
    /// Primitive restart.
    pub restart: u32,
    /// Structures of its chain.
    #[serde(borrow)]
    pub extensions: Extensions<'a>,
}

/// Tessellation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct Tessellation<'a> {
    /// Flags.
    pub flags: u32,
    /// Control points; 0 where dynamic.
    pub patch_control_points: u32,
    /// Structures of its chain.
    #[serde(borrow)]
    pub extensions: Extensions<'a>,
}

/// Viewports and scissors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct Viewport<'a> {
    /// Flags.
    pub flags: u32,
    /// 0 where dynamic.
    pub viewport_count: u32,
    /// x, y, width, height, depth bounds as bits; empty where dynamic.
    #[serde(with = "list")]
    pub viewports: SmallVec<[[u32; 6]; 1]>,
    /// 0 where dynamic.
    pub scissor_count: u32,
    /// Offset and extent; empty where dynamic.
    #[serde(with = "list")]
    pub scissors: SmallVec<[(i32, i32, u32, u32); 1]>,
    /// Structures of its chain.
    #[serde(borrow)]
    pub extensions: Extensions<'a>,
}

/// Rasterization.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct Rasterization<'a> {
    /// Flags.
    pub flags: u32,
    /// depthClampEnable, rasterizerDiscardEnable, depthBiasEnable; 0 where dynamic.
    pub switches: [u32; 3],
    /// Polygon mode, cull mode, front face; 0 where dynamic.
    pub modes: [u32; 3],
    /// Depth bias constant, clamp, slope and line width as bits; 0 where dynamic.
    pub factors: [u32; 4],
    /// Structures of its chain.
    #[serde(borrow)]
    pub extensions: Extensions<'a>,
}

/// Multisampling.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct Multisample<'a> {
    /// Flags.
    pub flags: u32,
    /// VkSampleCountFlagBits.
    pub samples: u32,
    /// sampleShadingEnable and minSampleShading's bits.
    pub sample_shading: [u32; 2],
    /// Empty where NULL or dynamic.
    #[serde(with = "list")]
    pub sample_mask: SmallVec<[u32; 2]>,
    /// alphaToCoverageEnable, alphaToOneEnable.
    pub alpha: [u32; 2],
    /// Structures of its chain.
    #[serde(borrow)]
    pub extensions: Extensions<'a>,
}

/// Depth and stencil.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct DepthStencil<'a> {
    /// Flags.
    pub flags: u32,
    /// depthTestEnable, depthWriteEnable, depthCompareOp, depthBoundsTestEnable, stencilTestEnable; 0 where
    /// dynamic.
    pub depth: [u32; 5],
    /// Front and back: fail, pass, depth fail, compare, compare mask, write mask, reference; 0 where dynamic.
    pub stencil: [[u32; 7]; 2],
    /// Depth bounds as bits; 0 where dynamic.
    pub bounds: [u32; 2],
    /// Structures of its chain.
    #[serde(borrow)]
    pub extensions: Extensions<'a>,
}

/// Blending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct ColorBlend<'a> {
    /// Flags.
    pub flags: u32,
    /// logicOpEnable, logicOp; 0 where dynamic.
    pub logic: [u32; 2],
    /// Number of attachments.
    pub attachment_count: u32,
    /// Each attachment's eight members; empty where dynamic.
    #[serde(with = "list")]
    pub attachments: SmallVec<[[u32; 8]; 4]>,
    /// Blend constants as bits; 0 where dynamic.
    pub constants: [u32; 4],
    /// Structures of its chain.
    #[serde(borrow)]
    pub extensions: Extensions<'a>,
}

/// A plain structure that is owned: for objects that outlive the call that described them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, DeriveDeserialize)]
pub struct OwnedExtension {
    /// VkStructureType.
    pub s_type: i32,
    /// The members that follow pNext.
    pub members: Vec<u8>,
}

/// A sampler, for immutable samplers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct Sampler {
    /// VkSamplerCreateFlags.
    pub flags: u32,
    /// Every member of VkSamplerCreateInfo after the flags, in order, as 32-bit words.
    pub members: [u32; 15],
    /// The VkSamplerYcbcrConversion of its chain.
    pub conversion: Option<YcbcrConversion>,
    /// Plain structures.
    pub extensions: Vec<OwnedExtension>,
}

/// VkSamplerYcbcrConversionCreateInfo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct YcbcrConversion {
    /// Format, model, range, four components, x and y chroma offset, filter, explicit reconstruction.
    pub members: [u32; 11],
    /// Plain structures.
    pub extensions: Vec<OwnedExtension>,
}

/// One binding of a descriptor set layout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct Binding {
    /// Binding number.
    pub binding: u32,
    /// VkDescriptorType.
    pub descriptor_type: i32,
    /// Count, or bytes for inline uniform blocks.
    pub count: u32,
    /// VkShaderStageFlags.
    pub stages: u32,
    /// VkDescriptorBindingFlags.
    pub flags: u32,
    /// Empty where there are none.
    pub immutable_samplers: Vec<Sampler>,
    /// Types of a mutable descriptor, sorted.
    pub mutable_types: Vec<i32>,
}

/// A descriptor set layout, its bindings sorted by number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct SetLayout {
    /// VkDescriptorSetLayoutCreateFlags.
    pub flags: u32,
    /// The bindings.
    pub bindings: Vec<Binding>,
}

/// A pipeline layout down to its samplers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct PipelineLayout {
    /// [`SCHEMA`].
    pub schema: u32,
    /// VkPipelineLayoutCreateFlags.
    pub flags: u32,
    /// The sets; None for VK_NULL_HANDLE.
    pub sets: Vec<Option<SetLayout>>,
    /// (stages, offset, size), sorted.
    pub push_constants: Vec<(u32, u32, u32)>,
}

/// VkAttachmentDescription2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct Attachment {
    /// flags, format, samples, loadOp, storeOp, stencilLoadOp, stencilStoreOp, initialLayout, finalLayout.
    pub members: [u32; 9],
    /// Plain structures.
    pub extensions: Vec<OwnedExtension>,
}

/// VkAttachmentReference2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct Reference {
    /// Index, or VK_ATTACHMENT_UNUSED.
    pub attachment: u32,
    /// VkImageLayout.
    pub layout: i32,
    /// VkImageAspectFlags, of input attachments.
    pub aspects: u32,
    /// Plain structures.
    pub extensions: Vec<OwnedExtension>,
}

/// VkSubpassDescription2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct Subpass {
    /// flags, bind point, view mask.
    pub members: [u32; 3],
    /// Input attachments.
    pub inputs: Vec<Reference>,
    /// Colour attachments.
    pub colors: Vec<Reference>,
    /// Resolve attachments; empty where NULL.
    pub resolves: Vec<Reference>,
    /// Depth and stencil attachment.
    pub depth_stencil: Option<Reference>,
    /// Depth resolve mode, stencil resolve mode and the attachment.
    pub depth_stencil_resolve: Option<(u32, u32, Option<Reference>)>,
    /// The fragment shading rate attachment and the width and height of its texels.
    pub shading_rate: Option<(Option<Reference>, u32, u32)>,
    /// Preserved attachments.
    pub preserve: Vec<u32>,
    /// Plain structures.
    pub extensions: Vec<OwnedExtension>,
}

/// VkSubpassDependency2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct Dependency {
    /// source, destination, stages ×2, access ×2, flags.
    pub members: [u32; 7],
    /// View offset.
    pub view_offset: i32,
    /// Plain structures.
    pub extensions: Vec<OwnedExtension>,
}

/// A render pass, whichever of the two commands made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
pub struct RenderPass {
    /// [`SCHEMA`].
    pub schema: u32,
    /// VkRenderPassCreateFlags.
    pub flags: u32,
    /// Attachments.
    pub attachments: Vec<Attachment>,
    /// Subpasses.
    pub subpasses: Vec<Subpass>,
    /// Dependencies.
    pub dependencies: Vec<Dependency>,
    /// Correlated view masks.
    pub correlated_views: Vec<u32>,
    /// Plain structures.
    pub extensions: Vec<OwnedExtension>,
}

/// Calls `each` with the identity of every module that an encoded recipe names. Of what is no recipe of this schema
/// there are none.
pub fn modules_of(recipe: &[u8], each: &mut dyn FnMut(&Key)) {
    let Ok(recipe) = key::decode::<Recipe<'_>>(recipe) else { return };
    for stage in recipe.pipeline.stages() {
        if let Code::Module(identity) = &stage.code {
            each(identity);
        }
    }
}
