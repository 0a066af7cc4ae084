//! Pipelines of recipes, made as the program made them, or only asked for.

use std::collections::HashMap;
use std::ptr;
use std::time::{Duration, Instant};

use ash::vk;
use rustc_hash::FxBuildHasher;

use super::program::Program;
use crate::background::objects::{LiveLibrary, ObjectError};
use crate::serve::create_info::{CreateInfo, Creation};
use crate::state::process::stored::Stored;
use vkstash_model::counters::Count;
use vkstash_model::recipe::{Pipeline, Recipe, Shaders};
use vkstash_model::record::{Key, Kind};
use vkstash_model::{check, key};
use vkstash_recipe::capture::LibraryTraits;
use vkstash_recipe::chain::Arena;
use vkstash_recipe::rebuild::RebuildError;
use vkstash_recipe::rebuild::pipeline::{Info, pipeline};
use vkstash_recipe::rebuild::shaders;

/// Libraries of libraries of libraries: deeper than any program nests them.
const DEEPEST: u32 = 8;

/// Libraries that are kept for further links.
const KEPT_LIBRARIES: usize = 256;

/// What became of a recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecipeOutcome {
    /// The pipeline's artifact is in the stash now.
    Recorded,
    /// The pipeline's artifact was in the stash already.
    There,
    /// The pipeline was made, and the driver gives out nothing that could be kept of it.
    Unrecorded,
}

/// Why a pipeline was not made.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// The stash cannot be used.
    #[error("the stash cannot be opened")]
    NoStash,
    /// The stash has no recipe under this key, or the record holds something else.
    #[error("the stash has no recipe of this key")]
    NoRecipe,
    /// Libraries that are made of each other.
    #[error("libraries that are nested too deeply")]
    TooDeep,
    /// What the recipe names cannot be made.
    #[error(transparent)]
    Objects(#[from] ObjectError),
    /// A library of the recipe cannot be made.
    #[error("a library of it: {0}")]
    Library(Box<MakeError>),
    /// The create info cannot be made.
    #[error(transparent)]
    Rebuild(#[from] RebuildError),
    /// The call that forbids compiling cannot be made.
    #[error("its create info cannot be copied")]
    NoCopy,
    /// The driver's answer.
    #[error("the driver answers {0:?}")]
    Driver(vk::Result),
    /// The artifact that the driver does not take is still the one in the stash.
    #[error("the artifact, which the driver does not take, could not be replaced")]
    NotReplaced,
    /// What was made could not be written.
    #[error("the artifact could not be written")]
    Unwritten,
}

/// What one call of the driver has created.
struct Created {
    /// NULL where it is shader objects.
    pipeline: vk::Pipeline,
    shaders: Vec<vk::ShaderEXT>,
    traits: LibraryTraits,
    /// [`Pipelines::served`] when that call began.
    before: (u64, u64),
}

/// Makes pipelines on a device.
pub struct Pipelines {
    // Field order does not matter: `drop` destroys the pipelines, and then the fields are dropped.
    program: Program,
    libraries: HashMap<Key, (vk::Pipeline, LibraryTraits), FxBuildHasher>,
    /// The stash was waited for in vain once.
    is_impatient: bool,
}

impl Pipelines {
    /// The pipelines of this program's device, of which none is made yet.
    pub fn new(program: Program) -> Pipelines {
        Pipelines { program, libraries: HashMap::default(), is_impatient: false }
    }

    fn stored(&self) -> Result<&Stored, MakeError> {
        self.program.layer().stored().ok_or(MakeError::NoStash)
    }

    fn has_artifact(&self, key: &Key) -> Result<bool, MakeError> {
        // Read, not looked up: a damaged one is made again.
        Ok(self.stored()?.device.read(Kind::Artifact, key, &mut Vec::new()))
    }

    /// Another worker may be sealing or merging files while this one reads the folder. What it could not read then is
    /// read by another thread, and until that is done an artifact may seem to be missing, or is not offered.
    fn wait_for_the_stash(&mut self) -> Result<(), MakeError> {
        let begun = Instant::now();
        let is_incomplete =
            |stored: &Stored| stored.device.is_incomplete() || stored.portable.is_incomplete();
        while !self.is_impatient && is_incomplete(self.stored()?) {
            std::thread::sleep(Duration::from_millis(2));
            self.is_impatient = begun.elapsed() > COMPLETE;
        }
        Ok(())
    }

    /// Has the layer compile and record a pipeline, unless its artifact is there. When it returns, the artifact is on
    /// disk: a worker that is killed afterwards loses nothing that was reported. `again`: an artifact that is there
    /// does not count unless the driver takes it.
    pub fn make(&mut self, key: &Key, again: bool) -> Result<RecipeOutcome, MakeError> {
        self.wait_for_the_stash()?;
        let mut old = Vec::new();
        if self.stored()?.device.read(Kind::Artifact, key, &mut old) && !again {
            return Ok(RecipeOutcome::There);
        }
        let Created { pipeline, shaders, before: (served, _), .. } = self.create(key, false, DEEPEST)?;
        self.destroy(pipeline);
        self.destroy_shaders(&shaders);
        let served_now = self.served().0;
        let stored = self.stored()?;
        if again && served_now > served {
            return Ok(RecipeOutcome::There);
        }
        let mut new = Vec::new();
        if again && (!stored.device.read(Kind::Artifact, key, &mut new) || new == old) {
            return Err(MakeError::NotReplaced);
        }
        if !stored.device.contains(Kind::Artifact, key) {
            return Ok(RecipeOutcome::Unrecorded);
        }
        // What the writer could not write is not there any more.
        let written = stored.stash.flush(FLUSH) && self.has_artifact(key)?;
        if written { Ok(RecipeOutcome::Recorded) } else { Err(MakeError::Unwritten) }
    }

    /// Asks for a pipeline and forbids to compile it. True: it was made of its artifact, and the driver confirmed that,
    /// where it can. Then the artifact is verified, so that it may be made ahead in the program's next run.
    pub fn check(&mut self, key: &Key) -> Result<bool, MakeError> {
        self.wait_for_the_stash()?;
        match self.create(key, true, DEEPEST) {
            Ok(Created { pipeline, shaders, before: (served, confirmed), .. }) => {
                self.destroy(pipeline);
                self.destroy_shaders(&shaders);
                let (served_now, confirmed_now) = self.served();
                let stored = self.stored()?;
                if confirmed_now > confirmed && !stored.device.contains(Kind::Verified, key) {
                    // If it is not written, the program's own first request verifies it.
                    stored.device.put(Kind::Verified, key, Box::default());
                }
                Ok(served_now > served)
            }
            Err(MakeError::Driver(vk::Result::PIPELINE_COMPILE_REQUIRED)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// How many were made of artifacts, and how many of them the driver has confirmed.
    fn served(&self) -> (u64, u64) {
        let counters = self.program.layer().counters();
        let confirmed = counters.get(Count::Served) + counters.get(Count::ShadersServed);
        (confirmed + counters.get(Count::Offered), confirmed)
    }

    /// Calls the driver, through the loader and the layer.
    fn create(&mut self, key: &Key, forbid: bool, depth: u32) -> Result<Created, MakeError> {
        let mut record = Vec::new();
        let found = self.stored()?.portable.read(Kind::Recipe, key, &mut record);
        if !found || !check::is_true(Kind::Recipe, key, &record) {
            return Err(MakeError::NoRecipe);
        }
        let recipe: Recipe<'_> = key::decode(&record).map_err(|_| MakeError::NoRecipe)?;
        if let Pipeline::Shaders(shaders) = &recipe.pipeline {
            return self.create_shaders(shaders);
        }
        let mut libraries: Vec<LiveLibrary> = Vec::new();
        for library in recipe.pipeline.libraries() {
            let made = self.library(library, depth);
            let (pipeline, traits) = made.map_err(|error| MakeError::Library(Box::new(error)))?;
            libraries.push((*library, pipeline, traits));
        }
        let stored = self.stored()?;
        let read = |kind: Kind, key: &Key, buffer: &mut Vec<u8>| stored.portable.read(kind, key, buffer);
        // SAFETY: the program's device is alive.
        let objects = unsafe { self.program.objects.prepare(&recipe, &read, None, &libraries) }?;
        let info = pipeline(&recipe, &objects)?;
        // Its libraries were made above, perhaps of their artifacts.
        let before = self.served();
        // SAFETY: the create info is rebuilt of a program's, with live objects and libraries of this device.
        let (pipeline, traits) = unsafe { self.call(&info, forbid) }?;
        Ok(Created { pipeline, shaders: Vec::new(), traits, before })
    }

    /// Shader objects, whose creation cannot be kept from compiling.
    fn create_shaders(&self, recipe: &Shaders<'_>) -> Result<Created, MakeError> {
        let stored = self.stored()?;
        let read = |kind: Kind, key: &Key, buffer: &mut Vec<u8>| stored.portable.read(kind, key, buffer);
        let Program { table, handle, objects, .. } = &self.program;
        // SAFETY: the program's device is alive.
        let parts = unsafe { objects.prepare_shaders(recipe, &read) }?;
        let rebuilt = shaders::shaders(recipe, &parts)?;
        let infos = rebuilt.info();
        let before = self.served();
        let mut made: Vec<vk::ShaderEXT> = infos.iter().map(|_| vk::ShaderEXT::null()).collect();
        let missing = MakeError::Driver(vk::Result::ERROR_EXTENSION_NOT_PRESENT);
        let create = table.create_shaders.ok_or(missing)?;
        // SAFETY: the create infos are rebuilt of a program's, with live set layouts of this device, and there is room
        // for as many handles.
        let result =
            unsafe { create(*handle, infos.len() as u32, infos.as_ptr(), ptr::null(), made.as_mut_ptr()) };
        if result != vk::Result::SUCCESS {
            self.destroy_shaders(&made);
            return Err(MakeError::Driver(result));
        }
        Ok(Created {
            pipeline: vk::Pipeline::null(),
            shaders: made,
            traits: LibraryTraits::default(),
            before,
        })
    }

    fn destroy_shaders(&self, made: &[vk::ShaderEXT]) {
        let Some(destroy) = self.program.table.destroy_shader else { return };
        for &shader in made {
            // SAFETY: NULL, or made on this device without an allocator, and used by nothing.
            unsafe { destroy(self.program.handle, shader, ptr::null()) };
        }
    }

    /// A library for links. What a link needs is made even where the link itself must not be compiled.
    fn library(&mut self, key: &Key, depth: u32) -> Result<(vk::Pipeline, LibraryTraits), MakeError> {
        if let Some(known) = self.libraries.get(key) {
            return Ok(*known);
        }
        let depth = depth.checked_sub(1).ok_or(MakeError::TooDeep)?;
        let Created { pipeline, traits, .. } = self.create(key, false, depth)?;
        self.libraries.insert(*key, (pipeline, traits));
        Ok((pipeline, traits))
    }

    /// Forgets libraries when there are many. Call it between two recipes: links of the current one need theirs.
    pub fn forget_some(&mut self) {
        if self.libraries.len() > KEPT_LIBRARIES {
            self.forget_all();
        }
    }

    fn forget_all(&mut self) {
        for (pipeline, _) in std::mem::take(&mut self.libraries).into_values() {
            self.destroy(pipeline);
        }
    }

    fn destroy(&self, made: vk::Pipeline) {
        if let Some(destroy) = self.program.table.destroy_pipeline {
            // SAFETY: made on this device without an allocator, and used by nothing.
            unsafe { destroy(self.program.handle, made, ptr::null()) };
        }
    }

    /// # Safety
    /// The create info is valid, but for its flags.
    unsafe fn call(&self, info: &Info<'_>, forbid: bool) -> Result<(vk::Pipeline, LibraryTraits), MakeError> {
        let Program { table, handle: device, .. } = &self.program;
        let device = *device;
        let forbid = forbid && self.program.layer().decided.cache_control;
        // A new and empty cache for each pipeline, as translators pass it: then nothing is asked of the driver's own
        // caches, from which nothing could be recorded, and what is compiled into it is the artifact.
        let cache = if forbid { vk::PipelineCache::null() } else { self.new_cache()? };
        let mut made = vk::Pipeline::null();
        let missing = vk::Result::ERROR_EXTENSION_NOT_PRESENT;
        let mut arena = Arena::default();
        // SAFETY: the create info is valid but for its flags, so all its pointers are; the commands are those
        // of this device, and the copies of the create infos and the arena live until the calls are over.
        let (result, traits) = unsafe {
            match info {
                Info::Compute(rebuilt) => {
                    let info = allowed(rebuilt.info(), forbid, &mut arena)?;
                    let create = table.create_compute_pipelines;
                    let call = |create: vk::PFN_vkCreateComputePipelines| {
                        create(device, cache, 1, &info, ptr::null(), &mut made)
                    };
                    (create.map_or(missing, call), LibraryTraits::default())
                }
                Info::Graphics(rebuilt, traits) => {
                    let info = allowed(rebuilt.info(), forbid, &mut arena)?;
                    let create = table.create_graphics_pipelines;
                    let call = |create: vk::PFN_vkCreateGraphicsPipelines| {
                        create(device, cache, 1, &info, ptr::null(), &mut made)
                    };
                    (create.map_or(missing, call), *traits)
                }
                Info::RayTracing(rebuilt) => {
                    let info = allowed(rebuilt.info(), forbid, &mut arena)?;
                    let create = table.create_ray_tracing_pipelines_khr;
                    let deferred = vk::DeferredOperationKHR::null();
                    let call = |create: vk::PFN_vkCreateRayTracingPipelinesKHR| {
                        create(device, deferred, cache, 1, &info, ptr::null(), &mut made)
                    };
                    (create.map_or(missing, call), LibraryTraits::default())
                }
            }
        };
        if let Some(destroy) = table.destroy_pipeline_cache {
            // SAFETY: made above on this device without an allocator, or NULL.
            unsafe { destroy(device, cache, ptr::null()) };
        }
        match result {
            vk::Result::SUCCESS => Ok((made, traits)),
            other => Err(MakeError::Driver(other)),
        }
    }

    fn new_cache(&self) -> Result<vk::PipelineCache, MakeError> {
        let mut cache = vk::PipelineCache::null();
        let missing = vk::Result::ERROR_EXTENSION_NOT_PRESENT;
        let create = self.program.table.create_pipeline_cache.ok_or(MakeError::Driver(missing))?;
        let info = vk::PipelineCacheCreateInfo::default();
        // SAFETY: a live device and a valid create info.
        match unsafe { create(self.program.handle, &info, ptr::null(), &mut cache) } {
            vk::Result::SUCCESS => Ok(cache),
            other => Err(MakeError::Driver(other)),
        }
    }
}

/// How long a worker waits until an artifact is written. A disk that takes longer is no reason to hang for ever.
const FLUSH: Duration = Duration::from_secs(30);
/// How long a worker waits until the stash is read.
const COMPLETE: Duration = Duration::from_secs(20);

impl Drop for Pipelines {
    fn drop(&mut self) {
        self.forget_all();
    }
}

/// The create info; if the call must not compile, a copy that says so.
///
/// # Safety
/// `info` is a valid create info. The copy is used only while `arena` and the original live and stay where they are.
unsafe fn allowed<I: CreateInfo>(info: &I, forbid: bool, arena: &mut Arena) -> Result<I, MakeError> {
    if !forbid {
        return Ok(*info);
    }
    // SAFETY: `info` is a valid create info; the caller keeps `arena` and the original while it uses the copy.
    let copy = unsafe {
        let mut creation = Creation::of(info);
        creation.forbid_compiling(arena).then_some(creation.info)
    };
    copy.ok_or(MakeError::NoCopy)
}
