//! Rebuilds, and captures what was rebuilt.

use std::cell::RefCell;

use ash::vk::{self, Handle};
use serde::Serialize;
use vkstash_model::record::Key;

use crate::capture::compute::compute;
use crate::capture::flags::DERIVATIVE;
use crate::capture::graphics::graphics;
use crate::capture::parsed::Parsed;
use crate::capture::ray_tracing::ray_tracing;
use crate::capture::tests::helpers::{Known, encoded, handle};
use crate::capture::{self, Captured, Library, Objects, Scratch, SubpassUse};
use crate::chain::Refusal;
use crate::rebuild::pipeline::{Info, pipeline};
use crate::rebuild::render_pass::Form;
use crate::rebuild::{self, Device, Limits, RebuildError, StageCode};
use vkstash_model::counters::BypassReason;
use vkstash_model::identifier::{NativeIdentifier, module_identity};
use vkstash_model::recipe::{
    Attachment, Pipeline, PipelineLayout, Recipe, RenderPass, Sampler, SetLayout, YcbcrConversion,
};

/// Limits that hide nothing.
pub const UNLIMITED: Limits = Limits {
    viewports: u32::MAX,
    vertex_bindings: u32::MAX,
    vertex_attributes: u32::MAX,
    color_attachments: u32::MAX,
    sets: u32::MAX,
    discard_rectangles: u32::MAX,
    sample_locations: u32::MAX,
};

/// A device on which everything is there: handles are the numbers of keys in a list.
pub struct Everything {
    pub keys: RefCell<Vec<Key>>,
    pub known: Known,
    /// Code by its identity, given as SPIR-V inside the stages.
    pub inline: Vec<(vk::ShaderModuleCreateFlags, Vec<u32>)>,
    pub limits: Limits,
}

impl Everything {
    pub fn new(known: &Known) -> Everything {
        Everything { keys: RefCell::default(), known: known.clone(), inline: Vec::new(), limits: UNLIMITED }
    }

    fn handle<H: Handle>(&self, key: &Key) -> H {
        let mut keys = self.keys.borrow_mut();
        keys.push(*key);
        handle(keys.len() as u64)
    }

    fn key(&self, object: impl Handle) -> Result<Key, Refusal> {
        let index = usize::try_from(object.as_raw()).unwrap().wrapping_sub(1);
        let key = self.keys.borrow().get(index).copied();
        key.ok_or(Refusal::plain(BypassReason::UnknownObject))
    }

    /// What the tests of capture say of the library whose handle is in its key.
    fn traits(&self, key: &Key) -> capture::LibraryTraits {
        let original = u64::from_le_bytes(key[..8].try_into().unwrap());
        self.known.library(handle(original)).map(|library| library.traits).unwrap_or_default()
    }
}

impl Device for Everything {
    fn module(&self, identity: &Key) -> Option<StageCode<'_>> {
        let bytes = |code: &[u32]| code.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>();
        let inline =
            self.inline.iter().find(|(flags, code)| module_identity(*flags, &bytes(code)) == *identity);
        Some(match inline {
            Some((flags, code)) => StageCode::Inline(*flags, code),
            None => StageCode::Module(self.handle(identity)),
        })
    }

    fn has_identifiers_of(&self, algorithm: &[u8; 16]) -> bool {
        *algorithm == Objects::algorithm(self)
    }

    fn layout(&self, digest: &Key) -> Option<vk::PipelineLayout> {
        Some(self.handle(digest))
    }

    fn render_pass(&self, digest: &Key, _: u32) -> Option<(vk::RenderPass, SubpassUse)> {
        Some((self.handle(digest), self.known.subpass))
    }

    fn library(&self, key: &Key) -> Option<(vk::Pipeline, capture::LibraryTraits)> {
        Some((self.handle(key), self.traits(key)))
    }

    fn advanced_blend(&self) -> bool {
        self.known.advanced_blend
    }

    fn limits(&self) -> Limits {
        self.limits
    }
}

impl Objects for Everything {
    fn module(&self, module: vk::ShaderModule) -> Result<Key, Refusal> {
        self.key(module)
    }

    fn inline_module(&self, flags: vk::ShaderModuleCreateFlags, code: &[u8]) -> Key {
        module_identity(flags, code)
    }

    fn identified(&self, _: &NativeIdentifier) -> Option<Key> {
        None
    }

    fn algorithm(&self) -> [u8; 16] {
        self.known.algorithm()
    }

    fn layout(&self, layout: vk::PipelineLayout) -> Result<Key, Refusal> {
        self.key(layout)
    }

    fn render_pass(&self, pass: vk::RenderPass, _: u32) -> Result<(Key, SubpassUse), Refusal> {
        Ok((self.key(pass)?, self.known.subpass))
    }

    fn library(&self, library: vk::Pipeline) -> Result<Library, Refusal> {
        let key = self.key(library)?;
        Ok(Library { key, traits: self.traits(&key) })
    }

    fn advanced_blend(&self) -> bool {
        self.known.advanced_blend
    }

    fn looked_into(&self) -> vk::PipelineCreateFlags {
        vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR
            | vk::PipelineCreateFlags::CAPTURE_INTERNAL_REPRESENTATIONS_KHR
    }
}

/// The bytes of what capture says of what was rebuilt.
pub fn round_trip(
    recipe: &Recipe<'_>,
    device: &Everything,
) -> Result<Result<Vec<u8>, Refusal>, RebuildError> {
    let mut scratch = Scratch::default();
    let bytes = |captured: Captured<'_>| encoded(&captured.recipe);
    let rebuilt = pipeline(recipe, device)?;
    // SAFETY: the pointers of what was rebuilt lead into its arena or are NULL; arrays are as long as their counts.
    Ok(unsafe {
        match &rebuilt {
            Info::Compute(rebuilt) => {
                let info = rebuilt.info();
                compute(info, &Parsed::compute(info), device, &mut scratch).map(bytes)
            }
            Info::Graphics(rebuilt, traits) => {
                let info = rebuilt.info();
                let captured = graphics(info, &Parsed::graphics(info), device, &mut scratch);
                captured.map(|captured| {
                    assert_eq!(captured.traits, *traits);
                    bytes(captured)
                })
            }
            Info::RayTracing(rebuilt) => {
                let info = rebuilt.info();
                ray_tracing(info, &Parsed::ray_tracing(info), device, &mut scratch).map(bytes)
            }
        }
    })
}

/// Whether a recipe of the tests cannot be rebuilt by design.
fn is_expected(recipe: &Recipe<'_>, error: RebuildError) -> bool {
    match &recipe.pipeline {
        Pipeline::Compute(compute) => compute.flags & DERIVATIVE != 0 && error == RebuildError::Derivative,
        Pipeline::Graphics(graphics) if graphics.flags & DERIVATIVE != 0 => error == RebuildError::Derivative,
        // One test leaves out pieces of state that only dynamic states would let a program leave out.
        Pipeline::Graphics(_) => error == RebuildError::Contradiction("state that is missing"),
        Pipeline::RayTracing(tracing) => {
            let stages = tracing.stages.len() as u32;
            let mut shaders = tracing.groups.iter().flat_map(|group| &group[1..]);
            let wild = shaders.any(|&shader| shader >= stages && shader != vk::SHADER_UNUSED_KHR);
            wild && matches!(error, RebuildError::Contradiction(_))
        }
        Pipeline::Shaders(_) => error == RebuildError::NoPipeline,
    }
}

/// What the tests of capture describe comes back byte by byte. A change to any byte of a recipe that is rebuilt all
/// the same is in what comes back, too.
pub fn assert_same(recipe: &Recipe<'_>, known: &Known) {
    match round_trip(recipe, &Everything::new(known)) {
        Ok(again) => assert_eq!(again, Ok(encoded(recipe)), "{recipe:?}"),
        Err(error) => assert!(is_expected(recipe, error), "{error}: {recipe:?}"),
    }
}

/// What an object's description says after a round trip.
pub trait Described: Serialize + Sized {
    fn rebuilt(&self) -> Result<Vec<u8>, RebuildError>;

    /// Its bytes, after the round trip was compared.
    fn bytes(&self) -> Vec<u8> {
        assert_eq!(self.rebuilt(), Ok(encoded(self)));
        encoded(self)
    }
}

impl Described for YcbcrConversion {
    fn rebuilt(&self) -> Result<Vec<u8>, RebuildError> {
        let rebuilt = rebuild::objects::conversion(self)?;
        // SAFETY: a rebuilt conversion's chain leads through its arena.
        Ok(encoded(&unsafe { capture::objects::conversion(rebuilt.info()) }.unwrap()))
    }
}

impl Described for Sampler {
    fn rebuilt(&self) -> Result<Vec<u8>, RebuildError> {
        let conversion = self.conversion.as_ref().map_or(handle(0), |_| handle(7));
        let rebuilt = rebuild::objects::sampler(self, conversion)?;
        let converted = |_| Ok(self.conversion.clone().unwrap());
        // SAFETY: a rebuilt sampler's chain leads through its arena.
        Ok(encoded(&unsafe { capture::objects::sampler(rebuilt.info(), converted) }.unwrap()))
    }
}

impl Described for SetLayout {
    fn rebuilt(&self) -> Result<Vec<u8>, RebuildError> {
        let mut made: Vec<Sampler> = Vec::new();
        let rebuilt = rebuild::objects::set_layout(self, |sampler| {
            made.push(sampler.clone());
            Some(handle(made.len() as u64))
        })?;
        let sampler = |_, sampler: vk::Sampler| Ok(made[sampler.as_raw() as usize - 1].clone());
        // SAFETY: a rebuilt set layout's chain and arrays are in its arena, and are as long as their counts.
        Ok(encoded(&unsafe { capture::objects::set_layout(rebuilt.info(), sampler) }.unwrap()))
    }
}

impl Described for PipelineLayout {
    fn rebuilt(&self) -> Result<Vec<u8>, RebuildError> {
        let mut made: Vec<SetLayout> = Vec::new();
        let rebuilt = rebuild::objects::pipeline_layout(self, UNLIMITED, |set| {
            made.push(set.clone());
            Some(handle(made.len() as u64))
        })?;
        let set = |set: vk::DescriptorSetLayout| Ok(made[set.as_raw() as usize - 1].clone());
        // SAFETY: a rebuilt layout's arrays are in its arena, and are as long as their counts.
        Ok(encoded(&unsafe { capture::objects::pipeline_layout(rebuilt.info(), set) }.unwrap()))
    }
}

impl Described for RenderPass {
    fn rebuilt(&self) -> Result<Vec<u8>, RebuildError> {
        // SAFETY: both forms' chains and arrays are in their arena, and are as long as their counts.
        Ok(encoded(&unsafe {
            match rebuild::render_pass::render_pass(self, UNLIMITED)? {
                Form::First(rebuilt) => capture::render_pass::render_pass(rebuilt.info()),
                Form::Second(rebuilt) => capture::render_pass::render_pass2(rebuilt.info()),
            }
            .unwrap()
        }))
    }

    /// Some tests name attachments and subpasses that are not there, which are refused and put right.
    fn bytes(&self) -> Vec<u8> {
        let mut whole = self.clone();
        if self.rebuilt().is_err() {
            let nothing = Attachment { members: [0; 9], extensions: Vec::new() };
            whole.attachments.resize(32, nothing);
            let subpass = whole.subpasses[0].clone();
            whole.subpasses.resize(32, subpass);
        }
        assert_eq!(whole.rebuilt(), Ok(encoded(&whole)));
        encoded(self)
    }
}
