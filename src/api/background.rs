//! The exported function for background work. `include/vkstash.h` is made of this file: the comments of functions are
//! written for C.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use super::sessions::call;
use super::types::{
    VKSTASH_BACKGROUND_MODE_ALLOW_INTRUSIVE_MEASUREMENTS, VKSTASH_BACKGROUND_MODE_ALLOWED,
    VKSTASH_BACKGROUND_MODE_DISABLED, VKSTASH_BACKGROUND_MODE_PROFILING, VKSTASH_MEASUREMENTS_ACTION_COMMIT,
    VKSTASH_MEASUREMENTS_ACTION_COMMIT_HIGH_PRIORITY, VKSTASH_MEASUREMENTS_ACTION_DISCARD_PREVIOUS,
    VKSTASH_MEASUREMENTS_ACTION_KEEP_ALL, VkstashResult,
};
use crate::background::mode::{self, Action, Event, Mode, ModeError};
use crate::config;
use crate::state::process::session;
use vkstash_host::guard;
use vkstash_model::counters::Count;

fn mode_of(number: u32) -> Option<Mode> {
    Some(match number {
        VKSTASH_BACKGROUND_MODE_ALLOWED => Mode::Allowed,
        VKSTASH_BACKGROUND_MODE_ALLOW_INTRUSIVE_MEASUREMENTS => Mode::Intrusive,
        VKSTASH_BACKGROUND_MODE_DISABLED => Mode::Disabled,
        VKSTASH_BACKGROUND_MODE_PROFILING => Mode::Profiling,
        _ => return None,
    })
}

fn action_of(number: u32) -> Option<Action> {
    Some(match number {
        VKSTASH_MEASUREMENTS_ACTION_KEEP_ALL => Action::KeepAll,
        VKSTASH_MEASUREMENTS_ACTION_COMMIT => Action::CommitResults,
        VKSTASH_MEASUREMENTS_ACTION_COMMIT_HIGH_PRIORITY => Action::CommitResultsHighPriority,
        VKSTASH_MEASUREMENTS_ACTION_DISCARD_PREVIOUS => Action::DiscardPrevious,
        _ => return None,
    })
}

/// Sets what background work may do in this process, and says what becomes of the measurements so far.
///
/// mode is VKSTASH_BACKGROUND_MODE_..., action VKSTASH_MEASUREMENTS_ACTION_... With one of the two actions COMMIT,
/// completion_event may be a descriptor, for instance of an eventfd: the number 1 is written to it, as 8 bytes, when
/// all tasks of the commit have been run or cancelled. Otherwise it must be -1. The descriptor is copied. Unless it is
/// NULL, *further_measurements_desired becomes 1 if running the workload again would show something new, and 0
/// otherwise.
///
/// The modes DISABLED and PROFILING and the action COMMIT_HIGH_PRIORITY need developer mode; without it the answer is
/// VKSTASH_ERROR_NOT_CURRENTLY_AVAILABLE, and nothing is changed. What the user has set (VKSTASH_BACKGROUND, vkstash
/// background) stays in force where it forbids work.
///
/// # Safety
/// NULL, or a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vkstash_set_background_mode(
    mode: u32,
    action: u32,
    completion_event: i32,
    further_measurements_desired: *mut u32,
) -> VkstashResult {
    call("vkstash_set_background_mode", || {
        let (Some(mode), Some(action)) = (mode_of(mode), action_of(action)) else {
            return VkstashResult::VKSTASH_ERROR_INVALID_ARGUMENT;
        };
        // Workers have thread-local variables.
        if config::inert() || guard::tls_destroyed() {
            return VkstashResult::VKSTASH_ERROR_NOT_CURRENTLY_AVAILABLE;
        }
        let event = match completion_event {
            -1 => None,
            // SAFETY: a number that is not -1. It is only copied, which fails if it is no open descriptor.
            fd if fd >= 0 => match Event::descriptor(unsafe { BorrowedFd::borrow_raw(fd) }) {
                Ok(event) => Some(event),
                Err(_) => return VkstashResult::VKSTASH_ERROR_INVALID_ARGUMENT,
            },
            _ => return VkstashResult::VKSTASH_ERROR_INVALID_ARGUMENT,
        };
        match mode::set(mode, action, event) {
            Ok(()) => {
                if !further_measurements_desired.is_null() {
                    let further = u32::from(has_compiled_since());
                    // SAFETY: not NULL, so the caller promises a place for a number, which may be unaligned.
                    unsafe { further_measurements_desired.write_unaligned(further) };
                }
                VkstashResult::VKSTASH_SUCCESS
            }
            Err(ModeError::EventWithoutCommit) => VkstashResult::VKSTASH_ERROR_INVALID_ARGUMENT,
            Err(ModeError::DeveloperModeNeeded(_)) => VkstashResult::VKSTASH_ERROR_NOT_CURRENTLY_AVAILABLE,
        }
    })
}

/// Whether drivers have compiled something since this was asked last: running the workload again would show what is had
/// without that. Nothing is compiled in the steady state.
fn has_compiled_since() -> bool {
    static COMPILED: AtomicU64 = AtomicU64::new(0);
    let compiled = session::sum(&[Count::Compiled, Count::CompiledUnrecorded]);
    COMPILED.swap(compiled, Ordering::Relaxed) != compiled
}
