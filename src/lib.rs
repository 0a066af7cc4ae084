//! vkstash: a Vulkan implicit layer that gives every program a persistent pipeline stash.
//!
//! First law: the stash never hurts the program that hosts it. When in doubt, the driver gets the call
//! untouched, and a counter says so.
//!
//! The rooms, from the outside in; nothing imports upwards (docs/architecture.md):
//!
//! - `hooks` the intercepted commands, one file per group of commands; `prewarm` the worker of `vkstash prewarm`; `api`
//!   the C API
//! - `background` work ahead of the program's requests: it makes the parked pipelines
//! - `serve` what a creation call is answered with, one file for each source; it hands the parked pipelines over
//! - `state` what is known of live instances, devices and their objects; it holds the parked pipelines in between
//! - `loader` the loader's interface; `pipeline_binary` an extension newer than the bindings
//! - `stats` counters; `steps` what was tried for a pipeline
//! - `live` what the process does now, for `vkstash watch`
//! - `config`, `log`, `trace`, `faults` the environment, log lines, traces, panics on purpose; `user_file` files that
//!   the user names
//!
//! Below all of them are the crates `vkstash-recipe`, from create infos to recipes and back, `vkstash-model`, what
//! recipes and reports are, `vkstash-sessions`, shader cache sessions, `vkstash-store`, the stash on disk, and
//! `vkstash-host`, the ground floor of a library inside another program's process.
#![cfg_attr(not(test), deny(clippy::disallowed_types))]
#![allow(non_snake_case, reason = "the library's file name follows the Vulkan loader's conventions")]

mod api;
mod background;
mod config;
mod faults;
mod hooks;
mod live;
mod loader;
mod log;
mod pipeline_binary;
mod prewarm;
mod serve;
#[cfg(test)]
#[path = "../layer-tests/src/skip.rs"]
mod skip;
mod state;
mod stats;
mod steps;
mod trace;
mod user_file;
#[cfg(test)]
#[path = "../crates/store/src/tests/watched.rs"]
mod watched;

use ash::vk;
use vkstash_host::guard;

pub use loader::NegotiateLayerInterface;

/// The plan of background work, for the replay of recorded orders by `vkstash-bench predict`.
pub mod planned {
    pub use crate::background::order::{Order, in_order};
    pub use crate::state::ahead::plan::Plan;
    pub use vkstash_store::stash::uses::Noted;
}

/// The one symbol that the Vulkan loader looks up in a layer library (loader interface 2).
///
/// # Safety
/// Called by the Vulkan loader, with a valid VkNegotiateLayerInterface that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn vkNegotiateLoaderLayerInterfaceVersion(
    interface: *mut NegotiateLayerInterface,
) -> vk::Result {
    guard::prepare(log::init);
    // SAFETY: the loader passes its own VkNegotiateLayerInterface, which it keeps valid and writable for this call.
    let negotiate = || unsafe {
        loader::negotiate(
            interface,
            hooks::commands::get_instance_proc_addr,
            hooks::commands::get_device_proc_addr,
            hooks::commands::get_physical_device_proc_addr,
        )
    };
    guard::guard("negotiation", negotiate, || vk::Result::ERROR_INITIALIZATION_FAILED)
}

/// The worker of `vkstash prewarm`, which the tool calls in a process of its own: reads requests from one descriptor
/// and writes answers to the other until the input ends (docs/prewarm.md). 0: it ended in order.
///
/// # Safety
/// `input` and `output` are open descriptors, which belong to this call from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vkstash_prewarm_worker(input: libc::c_int, output: libc::c_int) -> libc::c_int {
    guard::prepare(log::init);
    // SAFETY: `input` and `output` are open descriptors that the tool has given away with this call.
    guard::guard("prewarm", || unsafe { prewarm::worker::run(input, output) }, || 2)
}
