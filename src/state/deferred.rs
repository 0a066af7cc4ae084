//! Deferred creation calls that the driver has not finished (VK_KHR_deferred_host_operations).

use std::sync::Arc;
use std::time::Instant;

use ash::vk;

use super::app_cache::AppCache;
use super::objects::LibraryObject;
use crate::store::part::Key;

/// A deferred creation call that the driver has not finished.
pub struct Pending {
    /// The cache of ours that the driver fills; null where nothing is recorded.
    pub cache: vk::PipelineCache,
    /// The keys of the pipelines.
    pub keys: Vec<Key>,
    /// The cache that the program passed.
    pub passed: Option<Arc<AppCache>>,
    /// The pipelines that will be libraries, by index.
    pub libraries: Vec<(usize, LibraryObject)>,
    /// Where the driver writes the handles; the program keeps it valid until the operation is complete.
    pub pipelines: *mut vk::Pipeline,
    /// When the call was made.
    pub started: Instant,
}

// SAFETY: the pointer is read by the one call that takes the entry out, before it tells the program that the
// operation is complete (contract 3.6).
unsafe impl Send for Pending {}
