//! Answers to creation calls. One file for each source of a pipeline.
//!
//! - [`ask`] the way of a creation: described, asked for, settled
//! - [`facts`] what decides about the order of the sources; [`order`] the order
//! - [`verdict`] what has become of a request; [`settle`] what follows from it, and nowhere else; [`record`] what the
//!   stash learns of it
//! - [`create_info`] create infos of any kind, and their copies; [`call`] one creation of a pipeline, [`request`] the
//!   same once it is described
//!
//! The sources, each with a verdict, or the reason that it has none:
//!
//! - [`parked`] what background work has finished already
//! - [`driver`] what the driver's caches have
//! - [`artifact`] the stash
//! - [`companion`] a cache of the layer's with what the program's would hold without the stash
//! - [`compile`] the driver compiles, or answers where the program forbids that
//! - [`own`] the program's own call as it is, and what the layer refuses in the driver's place
//!
//! And beside them:
//!
//! - [`deferred`] ray tracing pipelines that the driver makes in a deferred operation; [`operation`] those operations
//! - [`failed`] what the program gets where the layer itself has failed
//! - [`shaders`] shader objects, of their binaries in the stash
//! - [`complete_data`] the data of the program's caches, with their pending entries
//! - [`modules`] SPIR-V from the stash for stages that are named by identifier only
//! - [`emulated`] cache control on a driver that lacks it
//! - [`compiling`] what is done before the driver compiles
//! - [`offer`], [`feedback`], [`stopwatch`] what they share
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

pub mod artifact;
pub mod ask;
pub mod call;
pub mod companion;
mod compile;
mod compiling;
pub mod complete_data;
pub mod create_info;
pub mod deferred;
mod driver;
mod emulated;
mod facts;
pub mod failed;
mod feedback;
pub mod modules;
mod offer;
pub mod operation;
mod order;
pub mod own;
mod parked;
mod record;
pub mod request;
pub mod settle;
pub mod shaders;
mod stopwatch;
pub mod verdict;
