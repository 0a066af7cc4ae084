//! The exported functions for control over caches. `include/vkstash.h` is made of this file: the comments of functions
//! are written for C.

use std::ffi::c_char;
use std::time::Duration;

use vkstash_sessions::control;
use vkstash_sessions::counts::{self, Requests};
use vkstash_sessions::description::Place;
use vkstash_store::maintenance::clear::clear;
use vkstash_store::settings;

use super::sessions::{call, place};
use super::types::{
    VKSTASH_CACHE_CONTROL_CLEAR, VKSTASH_CACHE_CONTROL_DISABLE, VKSTASH_CACHE_CONTROL_ENABLE,
    VKSTASH_CACHE_KIND_APPLICATION_MANAGED, VKSTASH_CACHE_KIND_IMPLICIT_CONVERSIONS,
    VKSTASH_CACHE_KIND_IMPLICIT_FOR_DRIVER, VkstashAdapter, VkstashCacheStatistics, VkstashResult,
};
use crate::config::{self, Config, OfProcess};
use crate::state::process::session;
use crate::state::process::support;
use crate::state::process::switches::{self, CacheKinds};
use vkstash_model::counters::Count;

const CONTROLS: u32 =
    VKSTASH_CACHE_CONTROL_DISABLE | VKSTASH_CACHE_CONTROL_ENABLE | VKSTASH_CACHE_CONTROL_CLEAR;

/// How long clearing waits for the writer of this process.
const SEALING: Duration = Duration::from_secs(1);

/// What the environment or the settings of the stash say.
pub(super) fn is_developer_mode() -> bool {
    let stored = |root: std::path::PathBuf| settings::read(&root).all().developer_mode;
    OfProcess::get().background.developer_mode
        || Config::from_environment().root.and_then(stored).unwrap_or(false)
}

/// Changes what caches do in this process: control is a combination of VKSTASH_CACHE_CONTROL_..., for each of kinds, a
/// combination of VKSTASH_CACHE_KIND_...
///
/// DISABLE and ENABLE exclude each other, and at least one control is needed. ENABLE ends what DISABLE began, and not
/// what the user has disabled in the settings. CLEAR means the stash of the program that application_name names as in
/// vkstash_create_session, and all sessions of this process; VKSTASH_ERROR_NOT_CURRENTLY_AVAILABLE after CLEAR says
/// that other running programs still write to some of it, which stays. For the driver's own cache all controls are
/// hints: DISABLE counts for devices that are created afterwards, if their driver can be told, and CLEAR does nothing.
///
/// Only in developer mode (VKSTASH_DEVELOPER_MODE=1, or the setting); otherwise the answer is
/// VKSTASH_ERROR_NOT_CURRENTLY_AVAILABLE, and nothing is done.
///
/// # Safety
/// NULL, or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vkstash_cache_control(
    kinds: u32,
    control: u32,
    application_name: *const c_char,
) -> VkstashResult {
    call("vkstash_cache_control", || {
        let both = VKSTASH_CACHE_CONTROL_DISABLE | VKSTASH_CACHE_CONTROL_ENABLE;
        let is_odd = control & !CONTROLS != 0 || control == 0 || control & both == both;
        if is_odd || kinds & !CacheKinds::ALL.0 != 0 || kinds == 0 {
            return VkstashResult::VKSTASH_ERROR_INVALID_ARGUMENT;
        }
        if config::inert() || !is_developer_mode() {
            return VkstashResult::VKSTASH_ERROR_NOT_CURRENTLY_AVAILABLE;
        }
        if control & both != 0 {
            let disabled = control & VKSTASH_CACHE_CONTROL_DISABLE != 0;
            switches::set(CacheKinds(kinds), disabled);
            if kinds & VKSTASH_CACHE_KIND_APPLICATION_MANAGED != 0 {
                control::disable(disabled);
            }
        }
        if control & VKSTASH_CACHE_CONTROL_CLEAR == 0 {
            return VkstashResult::VKSTASH_SUCCESS;
        }
        // SAFETY: the caller promises that `application_name` is NULL or a NULL-terminated string.
        let place = unsafe { place(application_name) };
        let records = clear_records(place.as_ref(), CacheKinds(kinds));
        match kinds & VKSTASH_CACHE_KIND_APPLICATION_MANAGED {
            0 => records,
            _ => match VkstashResult::from(control::clear(place.as_ref())) {
                VkstashResult::VKSTASH_SUCCESS => records,
                other => other,
            },
        }
    })
}

fn of_pipelines() -> VkstashCacheStatistics {
    let missed_anywhere = session::sum(&[Count::Compiled, Count::CompiledUnrecorded]);
    let unasked = session::sum(&[Count::Bypassed, Count::NothingToCompile]);
    let missed_in_stash =
        missed_anywhere.saturating_add(unasked).saturating_add(session::sum(&[Count::DriverHad]));
    let served = session::sum(&[Count::Served, Count::Parked, Count::Offered]);
    let created = served.saturating_add(missed_in_stash);
    VkstashCacheStatistics { created, missed_in_stash, missed_anywhere }
}

fn clear_records(place: Option<&Place>, kinds: CacheKinds) -> VkstashResult {
    let Some(place) = place else { return VkstashResult::VKSTASH_SUCCESS };
    // What this process writes to itself is rewritten too.
    let session = session::open_session(place.root(), place.application());
    let stash = session.as_ref().and_then(|session| session.stash());
    let clears = kinds.has(CacheKinds::COMPILATIONS.with(CacheKinds::CONVERSIONS));
    if let Some(stash) = stash.filter(|_| clears) {
        // If that fails, the records that stay are counted.
        stash.seal(SEALING);
    }
    let cleared = clear(place.root(), Some(place.application()), kinds);
    if let Some(stash) = stash.filter(|_| clears) {
        stash.follow_rewritten();
    }
    match cleared {
        Ok(cleared) if cleared.kept == 0 => VkstashResult::VKSTASH_SUCCESS,
        Ok(_) => VkstashResult::VKSTASH_ERROR_NOT_CURRENTLY_AVAILABLE,
        Err(_) => VkstashResult::VKSTASH_ERROR_REFUSED,
    }
}

/// Says which caches there are for a device: *support becomes a combination of VKSTASH_CACHE_SUPPORT_...
///
/// Whether a driver has a cache of its own is known of its driver ID and of the environment.
///
/// # Safety
/// Each pointer is NULL or points to what its type says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vkstash_get_cache_support(
    adapter: *const VkstashAdapter,
    support: *mut u32,
) -> VkstashResult {
    call("vkstash_get_cache_support", || {
        if adapter.is_null() || support.is_null() {
            return VkstashResult::VKSTASH_ERROR_INVALID_ARGUMENT;
        }
        // SAFETY: not NULL, so the caller promises an adapter of plain numbers.
        let adapter = unsafe { adapter.read_unaligned() };
        let found = support::of(adapter.driver_id, &|name| std::env::var(name).ok());
        // SAFETY: not NULL, so the caller promises a place for a number, which may be unaligned.
        unsafe { support.write_unaligned(found) };
        VkstashResult::VKSTASH_SUCCESS
    })
}

/// Counts what this process has created so far. What is counted depends on kind, which is one of
/// VKSTASH_CACHE_KIND_...: pipelines (IMPLICIT_FOR_DRIVER) and shader modules (IMPLICIT_CONVERSIONS) on all devices
/// that were created with the layer, and values that sessions were asked for (APPLICATION_MANAGED), where a find for
/// the size alone counts if there is none. What drivers keep themselves nobody counts: the answer is
/// VKSTASH_ERROR_NOT_SUPPORTED.
///
/// # Safety
/// NULL, or a place for statistics.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vkstash_get_cache_statistics(
    kind: u32,
    statistics: *mut VkstashCacheStatistics,
) -> VkstashResult {
    call("vkstash_get_cache_statistics", || {
        if statistics.is_null() || kind.count_ones() != 1 || kind & !CacheKinds::ALL.0 != 0 {
            return VkstashResult::VKSTASH_ERROR_INVALID_ARGUMENT;
        }
        let counted = match kind {
            VKSTASH_CACHE_KIND_IMPLICIT_FOR_DRIVER => of_pipelines(),
            VKSTASH_CACHE_KIND_IMPLICIT_CONVERSIONS => {
                // The program that made the module has translated it: only the stash keeps modules.
                let new = session::sum(&[Count::ModulesNew]);
                let created = session::sum(&[Count::Modules]);
                VkstashCacheStatistics { created, missed_in_stash: new, missed_anywhere: new }
            }
            VKSTASH_CACHE_KIND_APPLICATION_MANAGED => {
                let Requests { delivered, missed } = counts::requests();
                let created = delivered.saturating_add(missed);
                VkstashCacheStatistics { created, missed_in_stash: missed, missed_anywhere: missed }
            }
            _ => return VkstashResult::VKSTASH_ERROR_NOT_SUPPORTED,
        };
        // SAFETY: not NULL, so the caller promises a place for statistics, which may be unaligned.
        unsafe { statistics.write_unaligned(counted) };
        VkstashResult::VKSTASH_SUCCESS
    })
}
