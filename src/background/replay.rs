//! A call of the program, made again from its recipe on a worker.

use std::cell::Cell;

use ash::vk;
use smallvec::SmallVec;

use super::loan::Loan;
use super::objects::{NamedLayout, ObjectError, OwnObjects, RecipeObjects};
use super::recreate::NotRecorded;
use crate::serve::call::Call;
use crate::serve::create_info::{CreateInfo, Creation};
use crate::serve::request::{DescribedPipeline, Request};
use crate::state::caches::program_cache::ProgramCache;
use crate::state::devices::device::Device;
use crate::state::process::stored::Stored;
use vkstash_model::counters::BypassReason;
use vkstash_model::identifier::{NativeIdentifier, module_identity};
use vkstash_model::recipe::{Pipeline, Recipe};
use vkstash_model::record::{Key, Kind};
use vkstash_model::{check, key};
use vkstash_recipe::capture::{Library, Objects, SubpassUse};
use vkstash_recipe::chain::Refusal;
use vkstash_recipe::rebuild::RebuildError;
use vkstash_recipe::rebuild::pipeline::{Info, pipeline};

/// Why a pipeline is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotMade {
    /// No artifact of it was ever taken by this driver, and compiling it might take long.
    #[error("there is no artifact of it that was ever taken")]
    NoWay,
    /// The stash has no recipe, or something else under its key.
    #[error("there is no recipe of it")]
    NoRecipe,
    /// An object that the recipe names cannot be made.
    #[error(transparent)]
    Objects(#[from] ObjectError),
    /// The pipeline's create info cannot be made of the recipe.
    #[error(transparent)]
    Rebuild(#[from] RebuildError),
    /// What was rebuilt is another pipeline.
    #[error("its create info is that of another pipeline")]
    Different,
    /// The call is put off: the program creates pipelines, or the task must end.
    #[error("another time")]
    ComesLater,
    /// Its call compiles nothing, so that nothing is gained, or must not be made ahead.
    #[error("its call compiles nothing")]
    NothingToCompile,
    /// The driver has made it, but it is not recorded.
    #[error(transparent)]
    NotRecorded(#[from] NotRecorded),
    /// The driver does not take its artifact.
    #[error("the driver does not take its artifact")]
    Refused,
    /// The driver's own caches no longer have it.
    #[error("the driver has it no longer")]
    FoundNoMore,
    /// The driver does not make it.
    #[error("the driver answers {0:?}")]
    Driver(vk::Result),
}

impl NotMade {
    /// Whether nothing more can be made on this device.
    pub fn ends_it(&self) -> bool {
        let (NotMade::Driver(result)
        | NotMade::NotRecorded(NotRecorded::Driver(result))
        | NotMade::Objects(ObjectError::Driver(_, result))) = self
        else {
            return false;
        };
        [
            vk::Result::ERROR_DEVICE_LOST,
            vk::Result::ERROR_OUT_OF_HOST_MEMORY,
            vk::Result::ERROR_OUT_OF_DEVICE_MEMORY,
        ]
        .contains(result)
    }
}

/// What is done with the call.
pub trait Replay {
    /// What the call leaves.
    type Output;

    /// Calls the driver.
    ///
    /// # Safety
    /// The request's create info is valid, and the calling thread may call the driver.
    unsafe fn run<I: CreateInfo>(self, request: &Request<'_, I>) -> Result<Self::Output, NotMade>;
}

/// What the stash has of a call: read before its driver calls, because vkDestroyDevice waits for a worker behind the
/// gate.
pub struct StoredCall {
    recipe: Vec<u8>,
    /// What the recipe names.
    named: SmallVec<[Named; 7]>,
    /// The digest of the layout where it is to be one of the program's, and its flags.
    borrows: Option<(Key, vk::PipelineLayoutCreateFlags)>,
}

struct Named {
    kind: Kind,
    key: Key,
    /// Empty after it was asked for, which is once.
    record: Cell<Vec<u8>>,
}

impl StoredCall {
    /// Reads what making the call of this key again takes. `lends`: whether the program lends a layout of this
    /// digest.
    pub fn read(
        stored: &Stored,
        own: &OwnObjects,
        key: &Key,
        lends: impl Fn(&Key) -> Result<(), ObjectError>,
    ) -> Result<StoredCall, NotMade> {
        let mut recipe = Vec::new();
        let is_there = stored.portable.read(Kind::Recipe, key, &mut recipe);
        if !is_there || !check::is_true(Kind::Recipe, key, &recipe) {
            return Err(NotMade::NoRecipe);
        }
        let lacks = key::decode(&recipe).map(|recipe: Recipe<'_>| own.lacks(&recipe));
        let (mut named, mut borrows) = (SmallVec::new(), None);
        for (kind, key) in lacks.map_err(|_| NotMade::NoRecipe)? {
            let mut record = Vec::new();
            if !stored.portable.read(kind, &key, &mut record) {
                return Err(ObjectError::NoRecord(kind, key).into());
            }
            if kind == Kind::Layout {
                borrows = own.borrows(&key, &record)?;
                if borrows.is_some() {
                    // The rest is read once the layout is there.
                    lends(&key)?;
                }
            }
            named.push(Named { kind, key, record: Cell::new(record) });
        }
        Ok(StoredCall { recipe, named, borrows })
    }

    /// Borrows the layout for the pipeline of this key, where it is to be one of the program's. The worker is behind
    /// the gate.
    pub fn borrow<'a>(&self, device: &'a Device, key: &Key) -> Result<Option<Loan<'a>>, NotMade> {
        let Some((digest, _)) = &self.borrows else { return Ok(None) };
        Loan::of(device, digest, key).map(Some).ok_or(ObjectError::LayoutAwaited.into())
    }

    fn borrowed(&self, loan: Option<&Loan<'_>>) -> Option<NamedLayout> {
        let ((digest, flags), loan) = self.borrows.zip(loan)?;
        let is_independent = flags.contains(vk::PipelineLayoutCreateFlags::INDEPENDENT_SETS_EXT);
        Some(NamedLayout { digest, handle: loan.layout().handle, is_independent })
    }

    fn take(&self, kind: Kind, key: &Key, buffer: &mut Vec<u8>) -> bool {
        let found = self.named.iter().find(|named| (named.kind, &named.key) == (kind, key));
        found.map(|named| *buffer = named.record.take()).is_some()
    }
}

/// Makes the call of this key again, on the calling thread. `loan`: what [`StoredCall::borrow`] has given.
///
/// # Safety
/// The device is alive until the call returns, and its commands may be called from this thread. `own` is of this
/// device.
pub unsafe fn with_request<A: Replay>(
    device: &Device,
    own: &OwnObjects,
    key: &Key,
    stored_call: &StoredCall,
    loan: Option<&Loan<'_>>,
    work: A,
) -> Result<A::Output, NotMade> {
    let recipe: Recipe<'_> = key::decode(&stored_call.recipe).map_err(|_| NotMade::NoRecipe)?;
    let is_left = match recipe.pipeline {
        Pipeline::RayTracing(_) => !device.policy.workers_make_ray_tracing,
        // No way hands shader objects over.
        Pipeline::Shaders(_) => true,
        Pipeline::Compute(_) | Pipeline::Graphics(_) => false,
    };
    if is_left {
        return Err(NotMade::NoWay);
    }
    let read = |kind: Kind, key: &Key, buffer: &mut Vec<u8>| stored_call.take(kind, key, buffer);
    let borrowed = stored_call.borrowed(loan);
    // SAFETY: `own` is of this live device, whose commands this thread may call; the loan outlives the objects.
    let objects = unsafe { own.prepare(&recipe, &read, borrowed, &[]) }?;
    // SAFETY: the objects are of this live device; the create infos and what they point to live until the call is over.
    unsafe {
        match pipeline(&recipe, &objects)? {
            Info::Compute(rebuilt) => run(device, &objects, rebuilt.info(), key, work),
            Info::Graphics(rebuilt, _) => run(device, &objects, rebuilt.info(), key, work),
            Info::RayTracing(rebuilt) => run(device, &objects, rebuilt.info(), key, work),
        }
    }
}

/// # Safety
/// As [`with_request`]; `info` is a valid create info, made of `objects`.
unsafe fn run<I: CreateInfo, A: Replay>(
    device: &Device,
    objects: &RecipeObjects<'_>,
    info: &I,
    key: &Key,
    work: A,
) -> Result<A::Output, NotMade> {
    // SAFETY: `info` is a valid create info, which outlives `creation`.
    let creation = unsafe { Creation::of(info) };
    let parsed = &creation.parsed;
    if parsed.is_fast_link() || parsed.has_nothing_to_compile() || parsed.joins_retained() {
        return Err(NotMade::NothingToCompile);
    }
    let mut recipe = Vec::new();
    let known = Known { device, objects };
    // SAFETY: `creation` is of a valid create info, whose handles are those that `known` describes.
    let described = unsafe { DescribedPipeline::of(&known, &creation, &mut recipe) };
    // What a request of the program would be looked up by. If that is not this key, no request has it: somebody else
    // wrote the recipe, or this version reads it otherwise than the one that wrote it.
    let described = described.map_err(|_| NotMade::Different)?;
    if described.key != *key {
        return Err(NotMade::Different);
    }
    // No cache of the program's is filled.
    let program_cache = ProgramCache::Unknown(vk::PipelineCache::null());
    let call =
        Call { device, program_cache: &program_cache, allocator: std::ptr::null(), creation: &creation };
    // SAFETY: the request's create info is valid, and this thread may call the driver (# Safety of `with_request`).
    unsafe { work.run(&Request { call, pipeline: &described }) }
}

/// What capture is told of the layer's own objects.
struct Known<'a> {
    device: &'a Device,
    objects: &'a RecipeObjects<'a>,
}

fn unknown() -> Refusal {
    Refusal::plain(BypassReason::UnknownObject)
}

impl Objects for Known<'_> {
    fn module(&self, module: vk::ShaderModule) -> Result<Key, Refusal> {
        self.objects.identity_of(module).ok_or(unknown())
    }

    fn inline_module(&self, flags: vk::ShaderModuleCreateFlags, code: &[u8]) -> Key {
        module_identity(flags, code)
    }

    fn identified(&self, identifier: &NativeIdentifier) -> Option<Key> {
        self.device.identified(identifier)
    }

    fn algorithm(&self) -> [u8; 16] {
        self.device.algorithm()
    }

    fn layout(&self, layout: vk::PipelineLayout) -> Result<Key, Refusal> {
        self.objects.digest_of_layout(layout).ok_or(unknown())
    }

    fn render_pass(&self, render_pass: vk::RenderPass, subpass: u32) -> Result<(Key, SubpassUse), Refusal> {
        self.objects.digest_of_pass(render_pass, subpass).ok_or(unknown())
    }

    fn library(&self, _: vk::Pipeline) -> Result<Library, Refusal> {
        Err(unknown())
    }

    fn advanced_blend(&self) -> bool {
        Objects::advanced_blend(self.device)
    }

    fn looked_into(&self) -> vk::PipelineCreateFlags {
        self.device.looked_into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_lost_or_has_no_memory_ends_the_work_wherever_the_driver_says_it() {
        let answers = |result| {
            [NotMade::Driver(result), NotRecorded::Driver(result).into()].map(|reason| reason.ends_it())
        };
        assert_eq!(answers(vk::Result::ERROR_DEVICE_LOST), [true; 2]);
        assert_eq!(answers(vk::Result::ERROR_OUT_OF_HOST_MEMORY), [true; 2]);
        assert_eq!(answers(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY), [true; 2]);
        assert_eq!(answers(vk::Result::ERROR_UNKNOWN), [false; 2]);
        assert!(!NotMade::NotRecorded(NotRecorded::Refused).ends_it());
    }
}
