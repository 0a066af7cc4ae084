//! The pipeline caches of a device.

use super::cache_data_probe::CacheDataProbe;
use super::cache_state::CacheState;
use super::pending::{DriverContents, NullCache, PendingKeys};
use super::private_cache::CacheCommands;
use crate::state::objects::by_handle::Objects;

/// The program's pipeline caches, and what is known of them and kept beside them.
pub struct CachesOfDevice {
    /// Caches that the program has created.
    pub of_program: Objects<CacheState>,
    /// What is known of calls that pass VK_NULL_HANDLE as the cache.
    pub null: NullCache,
    /// Whether the data of the driver's caches holds pipelines.
    pub probe: CacheDataProbe,
    /// The commands that make, read and destroy caches.
    pub commands: CacheCommands,
    /// What the driver's caches have depends on when they are read (contract 4.7).
    pub incremental: bool,
}

impl CachesOfDevice {
    /// None of the program yet.
    pub fn new(commands: CacheCommands, incremental: bool) -> CachesOfDevice {
        CachesOfDevice {
            of_program: Objects::default(),
            null: NullCache { pending: PendingKeys::default(), driver_contents: DriverContents::new(false) },
            probe: CacheDataProbe::default(),
            commands,
            incremental,
        }
    }

    /// Destroys all caches of the layer's: the program destroys the device, and is in no other call. Its own caches it
    /// may have left alive.
    pub fn close(&self) {
        self.null.pending.companion.close();
        self.of_program.for_each(|cache| {
            cache.pending.companion.close();
            cache.answer.close(&self.commands);
        });
    }
}
