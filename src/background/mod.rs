//! Work that nobody waits for: pipelines that are finished before the program requests them, and artifacts that are
//! recorded after it did.
//!
//! - [`park`] parked pipelines: who makes them, and when they are given up
//! - [`make`] one pipeline; `replay` its call, from the recipe; `order` which ones the program is likely to ask for;
//!   `questions` whether the driver's own caches are asked for it
//! - [`driver_hits`] artifacts of what the driver had: recorded when the program creates nothing, by its call, which
//!   `recreate` makes once more
//! - [`mode`] what background work may do, and what becomes of measurements
//! - [`work`] what each kind of work has of its device, and how it ends with the device
//! - [`pool`] the workers and their tasks
//! - [`gate`] when a worker may call a driver; `pauses` when it gives up its processor; `queue` tasks that wait;
//!   `processors` and `memory` what the process may use
//! - [`objects`] modules, layouts and render passes of the layer's own, made of the stash's records; `loan` layouts of
//!   the program's
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

pub mod driver_hits;
pub mod gate;
mod loan;
pub mod make;
pub mod memory;
pub mod mode;
pub mod objects;
pub mod order;
pub mod park;
mod pauses;
pub mod pool;
pub mod processors;
mod questions;
mod queue;
mod recreate;
mod replay;
#[cfg(test)]
mod tests;
pub mod work;
