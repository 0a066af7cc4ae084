//! The cache that the program passed.

use ash::vk;

use super::cache_state::{CacheState, InCall};
use super::of_device::CachesOfDevice;
use crate::state::process::policy::CacheHabit;
use vkstash_model::record::Key;
use vkstash_model::shader_set::ShaderSet;

/// The cache that the program passed.
#[derive(Clone)]
pub enum ProgramCache {
    /// VK_NULL_HANDLE.
    Null,
    /// A cache that was seen being created.
    Known {
        /// The handle.
        handle: vk::PipelineCache,
        /// What the layer knows of the cache.
        cache: InCall,
        /// What may be in the cache.
        contents: Contents,
    },
    /// A cache that was created where the layer did not see it, so nothing is known of it.
    Unknown(vk::PipelineCache),
}

/// What may be in the program's cache when a pipeline's turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// No pipeline: after this call its data is an artifact of this one pipeline.
    Nothing,
    /// Only earlier pipelines of the same batch: its data is no artifact of one pipeline.
    SameBatch,
    /// Pipelines of other calls or of earlier runs.
    Anything,
}

impl ProgramCache {
    /// What is known of the cache that a call passes; counts the call in until it is dropped.
    pub fn of(caches: &CachesOfDevice, handle: vk::PipelineCache) -> ProgramCache {
        if handle == vk::PipelineCache::null() {
            return ProgramCache::Null;
        }
        match caches.of_program.get(handle) {
            Some(cache) => {
                let contents = if cache.begin_call() { Contents::Nothing } else { Contents::Anything };
                ProgramCache::Known { handle, cache: InCall::new(cache), contents }
            }
            None => ProgramCache::Unknown(handle),
        }
    }

    /// The cache as the later pipelines of a batch find it: what the first ones put into it may be there by then.
    pub fn after_the_first(&self) -> ProgramCache {
        match self {
            ProgramCache::Null => ProgramCache::Null,
            ProgramCache::Unknown(handle) => ProgramCache::Unknown(*handle),
            ProgramCache::Known { handle, cache, contents } => {
                let contents = match contents {
                    Contents::Anything => Contents::Anything,
                    Contents::Nothing | Contents::SameBatch => Contents::SameBatch,
                };
                ProgramCache::Known { handle: *handle, cache: cache.clone(), contents }
            }
        }
    }

    /// The program's habit. None: nothing is known of the cache.
    pub fn habit(&self) -> Option<CacheHabit> {
        match self {
            ProgramCache::Null => Some(CacheHabit::None),
            ProgramCache::Known { cache, .. } if cache.holds_earlier_runs() => Some(CacheHabit::Loaded),
            ProgramCache::Known { contents: Contents::Anything, .. } => Some(CacheHabit::Shared),
            ProgramCache::Known { .. } => Some(CacheHabit::Fresh),
            ProgramCache::Unknown(_) => None,
        }
    }

    /// The handle as the program passed it.
    pub fn handle(&self) -> vk::PipelineCache {
        match self {
            ProgramCache::Null => vk::PipelineCache::null(),
            ProgramCache::Known { handle, .. } | ProgramCache::Unknown(handle) => *handle,
        }
    }

    /// The driver gets the cache in a call that was not described, and may put anything into it.
    pub fn mark_filled(&self, caches: &CachesOfDevice) {
        match self {
            ProgramCache::Null => caches.null.driver_contents.note(&ShaderSet::default()),
            ProgramCache::Known { cache, .. } => cache.mark_filled(),
            ProgramCache::Unknown(_) => {}
        }
    }

    /// The driver gets the cache in a call for this pipeline of these shaders, and may put it into it.
    pub fn mark_filled_with(&self, caches: &CachesOfDevice, key: &Key, shaders: &ShaderSet) {
        match self {
            ProgramCache::Null => caches.null.driver_contents.note(shaders),
            ProgramCache::Known { cache, .. } => cache.mark_filled_with(key, shaders),
            ProgramCache::Unknown(_) => {}
        }
    }

    /// What the layer knows of the cache. None: VK_NULL_HANDLE, or a cache that it did not see created.
    pub fn known(&self) -> Option<&CacheState> {
        match self {
            ProgramCache::Known { cache, .. } => Some(cache),
            ProgramCache::Null | ProgramCache::Unknown(_) => None,
        }
    }
}
