//! What one creation call is answered with. One file for each source of a pipeline.
//!
//! - [`sources`] asks the sources one after the other, and has compiled what none of them has
//! - [`facts`] what decides about their order; [`order`] the order
//! - [`create_info`] create infos of any kind, and their copies; [`call`] one creation of a pipeline, [`request`] the
//!   same once it is described; [`program_cache`] the cache that the program passed
//! - [`outcome`] what the sources answer with
//! - [`parked`] what background work has finished already
//! - [`driver`] what the driver's caches have, and the driver's answer where the program forbids compiling
//! - [`artifact`] from an artifact of the stash, confirmed as taken
//! - [`companion`] a cache of the layer's with what the program's would hold without the stash
//! - [`compile`] the driver compiles, and what it made is recorded
//! - [`driver_hits`] what the driver had: left to background work, which records it
//! - [`deferred`] ray tracing pipelines that the driver makes in a deferred operation
//! - [`bypass`] what cannot be described; [`failed`] what the program gets where the layer itself has failed
//! - [`shaders`] shader objects, of their binaries in the stash
//! - [`complete_data`] the data of the program's caches, with their pending entries
//! - [`modules`] SPIR-V from the stash for stages that are named by identifier only
//! - [`emulated`] cache control on a driver that lacks it
//! - [`refuse`] where the layer itself answers COMPILE_REQUIRED
//! - [`stopwatch`] what a compile takes
//! - [`offer`], [`feedback`], [`record`], [`counts`] what they share
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

pub mod artifact;
pub mod bypass;
pub mod call;
pub mod companion;
mod compile;
pub mod complete_data;
pub mod counts;
pub mod create_info;
pub mod deferred;
mod driver;
pub mod driver_hits;
mod emulated;
mod facts;
pub mod failed;
mod feedback;
pub mod modules;
mod offer;
mod order;
pub mod outcome;
mod parked;
pub mod program_cache;
mod record;
pub mod refuse;
pub mod request;
pub mod shaders;
pub mod sources;
mod stopwatch;
