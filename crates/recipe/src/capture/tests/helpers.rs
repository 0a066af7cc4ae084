//! Objects that are named by their handles, and captures as encoded bytes.

use std::ffi::c_void;
use std::ptr;

use ash::vk;
use serde::Serialize;

use crate::capture::compute::compute;
use crate::capture::graphics::graphics;
use crate::capture::parsed::Parsed;
use crate::capture::ray_tracing::ray_tracing;
use crate::capture::{Captured, Library, LibraryTraits, Objects, Scratch, SubpassUse};
use crate::chain::Refusal;
use crate::rebuild::tests::round_trip::assert_same;
use vkstash_model::counters::BypassReason;
use vkstash_model::identifier::NativeIdentifier;
use vkstash_model::key;
use vkstash_model::record::Key;

/// What capture is told about objects.
#[derive(Clone, Debug)]
pub struct Known {
    /// The attachments that every subpass uses.
    pub subpass: SubpassUse,
    /// What every identifier stands for.
    pub pair: Option<Key>,
    /// Libraries that have traits.
    pub libraries: Vec<(vk::Pipeline, LibraryTraits)>,
    pub advanced_blend: bool,
    pub looked_into: vk::PipelineCreateFlags,
}

pub const BOTH: SubpassUse = SubpassUse { color: true, depth_stencil: true };

const STATISTICS: vk::PipelineCreateFlags = vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR;

impl Default for Known {
    fn default() -> Self {
        Known {
            subpass: BOTH,
            pair: None,
            libraries: Vec::new(),
            advanced_blend: false,
            looked_into: STATISTICS,
        }
    }
}

pub fn named(handle: impl vk::Handle + Copy) -> Result<Key, Refusal> {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&handle.as_raw().to_le_bytes());
    if handle.as_raw() == 0 { Err(Refusal::plain(BypassReason::UnknownObject)) } else { Ok(key) }
}

impl Objects for Known {
    fn module(&self, module: vk::ShaderModule) -> Result<Key, Refusal> {
        named(module)
    }

    fn inline_module(&self, flags: vk::ShaderModuleCreateFlags, code: &[u8]) -> Key {
        vkstash_model::identifier::module_identity(flags, code)
    }

    fn identified(&self, _: &NativeIdentifier) -> Option<Key> {
        self.pair
    }

    fn algorithm(&self) -> [u8; 16] {
        [9; 16]
    }

    fn layout(&self, layout: vk::PipelineLayout) -> Result<Key, Refusal> {
        named(layout)
    }

    fn render_pass(&self, pass: vk::RenderPass, subpass: u32) -> Result<(Key, SubpassUse), Refusal> {
        let mut key = named(pass)?;
        key[31] = subpass as u8;
        Ok((key, self.subpass))
    }

    fn library(&self, library: vk::Pipeline) -> Result<Library, Refusal> {
        let traits = self.libraries.iter().find(|(known, _)| *known == library).map(|(_, traits)| *traits);
        Ok(Library { key: named(library)?, traits: traits.unwrap_or_default() })
    }

    fn advanced_blend(&self) -> bool {
        self.advanced_blend
    }

    fn looked_into(&self) -> vk::PipelineCreateFlags {
        self.looked_into
    }
}

pub fn handle<H: vk::Handle>(raw: u64) -> H {
    H::from_raw(raw)
}

pub fn shader<'a>(stage: vk::ShaderStageFlags, module: u64) -> vk::PipelineShaderStageCreateInfo<'a> {
    vk::PipelineShaderStageCreateInfo::default().stage(stage).module(handle(module)).name(c"main")
}

pub fn compute_info<'a>() -> vk::ComputePipelineCreateInfo<'a> {
    vk::ComputePipelineCreateInfo::default().stage(shader(vk::ShaderStageFlags::COMPUTE, 1)).layout(handle(2))
}

pub fn encoded(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    key::encode(value, &mut bytes).unwrap();
    bytes
}

/// What is known of a captured pipeline beside its recipe.
#[derive(Debug)]
pub struct Options {
    pub fails_on_compile_required: bool,
    pub returns_early: bool,
    pub flags2: bool,
    pub lacks_code: bool,
    pub identifier_structure: bool,
    pub library: bool,
    pub linked: bool,
    pub nothing_to_compile: bool,
    pub traits: LibraryTraits,
    /// The identities of SPIR-V inside stages; of compute pipelines.
    pub inline: Vec<Key>,
}

/// Describes it, and compares what comes back from a round trip.
fn told(parsed: &Parsed<'_>, captured: &Captured<'_>, known: &Known) -> (Vec<u8>, Options) {
    assert_same(&captured.recipe, known);
    let options = Options {
        fails_on_compile_required: parsed.fails_on_compile_required(),
        returns_early: parsed.returns_early(),
        flags2: parsed.flags2,
        lacks_code: parsed.naming.lacks_code,
        identifier_structure: parsed.naming.identifier_structure,
        library: parsed.is_library(),
        linked: parsed.is_linked(),
        nothing_to_compile: parsed.has_nothing_to_compile(),
        traits: captured.traits,
        inline: Vec::new(),
    };
    (encoded(&captured.recipe), options)
}

pub fn of_compute_with(
    info: &vk::ComputePipelineCreateInfo<'_>,
    known: &Known,
) -> Result<(Vec<u8>, Options), Refusal> {
    let mut scratch = Scratch::default();
    // SAFETY: the tests pass create infos that are valid where contract 6 lets them be read.
    let (bytes, options) = unsafe {
        let parsed = Parsed::compute(info);
        compute(info, &parsed, known, &mut scratch).map(|captured| told(&parsed, &captured, known))
    }?;
    Ok((bytes, Options { inline: scratch.inline.to_vec(), ..options }))
}

pub fn of_compute(info: &vk::ComputePipelineCreateInfo<'_>) -> Result<(Vec<u8>, Options), Refusal> {
    of_compute_with(info, &Known::default())
}

pub fn of_graphics(
    info: &vk::GraphicsPipelineCreateInfo<'_>,
    known: &Known,
) -> Result<(Vec<u8>, Options), Refusal> {
    let mut scratch = Scratch::default();
    // SAFETY: the tests pass create infos that are valid where contract 6 lets them be read.
    unsafe {
        let parsed = Parsed::graphics(info);
        graphics(info, &parsed, known, &mut scratch).map(|captured| told(&parsed, &captured, known))
    }
}

pub fn of_ray_tracing(info: &vk::RayTracingPipelineCreateInfoKHR<'_>) -> Result<(Vec<u8>, Options), Refusal> {
    let (mut scratch, known) = (Scratch::default(), &Known::default());
    // SAFETY: the tests pass create infos that are valid where contract 6 lets them be read.
    unsafe {
        let parsed = Parsed::ray_tracing(info);
        ray_tracing(info, &parsed, known, &mut scratch).map(|captured| told(&parsed, &captured, known))
    }
}

/// The reason alone, where there is no capture.
pub fn reason<T>(captured: Result<T, Refusal>) -> Result<(), BypassReason> {
    captured.map(|_| ()).map_err(|refusal| refusal.reason)
}

/// Links structures (each with sType and pNext, and writable) in this order and returns the head.
pub fn link(nodes: &[*const c_void]) -> *const c_void {
    let mut head: *const c_void = ptr::null();
    for &node in nodes.iter().rev() {
        let node = node.cast_mut().cast::<vk::BaseOutStructure<'_>>();
        // SAFETY: the tests pass copies of structures.
        unsafe { (*node).p_next = head.cast_mut().cast() };
        head = node.cast_const().cast();
    }
    head
}

/// Asserts that all of them are captured, and all different.
pub fn assert_all_differ(captures: Vec<(String, Result<Vec<u8>, Refusal>)>) {
    let mut seen: Vec<(String, Vec<u8>)> = Vec::new();
    for (name, captured) in captures {
        let bytes = captured.unwrap_or_else(|refusal| panic!("{name}: {refusal:?}"));
        if let Some((other, _)) = seen.iter().find(|(_, other)| *other == bytes) {
            panic!("{name} is the same as {other}");
        }
        seen.push((name, bytes));
    }
}
