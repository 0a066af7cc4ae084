//! The ladder: the ordered ways to serve one creation call. One file a rung.
//!
//! - [`ladder`] the rungs one after the other
//! - [`create_info`] create infos of any kind, and their copies; [`call`] one creation of a pipeline, [`request`] the
//!   same once it is described; [`passed`] the cache that the program passed
//! - [`outcome`] what the rungs answer with
//! - [`bypass`] rung 1: what cannot be described
//! - [`parked`] rung 2: what background work has finished already
//! - [`artifact`] rung 3: from an artifact of the stash, confirmed as taken
//! - [`binary`] artifacts of VK_KHR_pipeline_binary
//! - [`driver`] rungs 4 and 5: what the driver has already, and compile required
//! - [`facts`] what decides about the order of the sources, and the [`order`]
//! - [`companion`] a cache of the layer's with what the program's would hold without the stash
//! - [`compile`] rung 6: the driver compiles, and what it made is recorded
//! - [`late`] what the driver had, recorded by background work
//! - [`compile_stored`] rung 6 with stored SPIR-V, for stages that are named by identifier only
//! - [`deferred`] ray tracing pipelines that the driver makes in a deferred operation
//! - [`failed`] what the program gets where the layer itself has failed
//! - [`app_data`] the data of the program's caches, with their pending entries
//! - [`modules`] SPIR-V from the stash for stages that are named by identifier only
//! - [`emulated`] cache control on a driver that lacks it
//! - [`refuse`] where the layer itself answers COMPILE_REQUIRED
//! - [`stopwatch`] what a compile takes
//! - [`offered`], [`private_cache`], [`feedback`], [`record`], [`counts`] what the rungs share
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

pub mod app_data;
pub mod artifact;
mod binary;
mod bypass;
pub mod call;
pub mod companion;
mod compile;
mod compile_stored;
pub mod counts;
pub mod create_info;
pub mod deferred;
mod driver;
mod emulated;
mod facts;
pub mod failed;
mod feedback;
pub mod ladder;
pub mod late;
pub mod modules;
mod offered;
mod order;
pub mod outcome;
mod parked;
pub mod passed;
mod private_cache;
mod record;
pub mod refuse;
pub mod request;
mod stopwatch;
