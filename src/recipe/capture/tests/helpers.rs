//! Objects that are named by their handles, and captures as encoded bytes.

use std::ffi::c_void;
use std::ptr;

use ash::vk;
use serde::Serialize;

use crate::recipe::capture::compute::compute;
use crate::recipe::capture::graphics::graphics;
use crate::recipe::capture::ray_tracing::ray_tracing;
use crate::recipe::capture::stage::Steering;
use crate::recipe::capture::{Library, LibraryTraits, Objects, Scratch, SubpassUse};
use crate::recipe::chain::Refusal;
use crate::recipe::identifier::NativeIdentifier;
use crate::recipe::key;
use crate::stats::BypassReason;
use vkstash_store::format::record::Key;

/// What capture is told about objects.
#[derive(Clone, Debug)]
pub struct Known {
    /// Of every subpass.
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
        crate::recipe::identifier::module_identity(flags, code)
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

pub fn of_compute_with(
    info: &vk::ComputePipelineCreateInfo<'_>,
    known: &Known,
) -> Result<(Vec<u8>, Steering), Refusal> {
    let mut scratch = Scratch::default();
    // SAFETY: the tests pass create infos that are valid where the contract lets them be read.
    unsafe { compute(info, known, &mut scratch) }.map(|(recipe, steering)| (encoded(&recipe), steering))
}

pub fn of_compute(info: &vk::ComputePipelineCreateInfo<'_>) -> Result<(Vec<u8>, Steering), Refusal> {
    of_compute_with(info, &Known::default())
}

pub fn of_graphics(
    info: &vk::GraphicsPipelineCreateInfo<'_>,
    known: &Known,
) -> Result<(Vec<u8>, Steering), Refusal> {
    let mut scratch = Scratch::default();
    // SAFETY: as above.
    unsafe { graphics(info, known, &mut scratch) }.map(|(recipe, steering)| (encoded(&recipe), steering))
}

pub fn of_ray_tracing(
    info: &vk::RayTracingPipelineCreateInfoKHR<'_>,
) -> Result<(Vec<u8>, Steering), Refusal> {
    let mut scratch = Scratch::default();
    // SAFETY: as above.
    unsafe { ray_tracing(info, &Known::default(), &mut scratch) }
        .map(|(recipe, steering)| (encoded(&recipe), steering))
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
