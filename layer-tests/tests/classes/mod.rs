//! The rarer classes of pipelines, and rare state of the usual ones.
//!
//! - [`rig`] a device with all features, [`draft`] a graphics pipeline to change
//! - [`libraries`] graphics pipeline libraries and their links
//! - [`state`] graphics state, member by member
//! - [`conversions`] YCbCr conversions in immutable samplers
//! - [`rays`], [`ray_tracing`] ray tracing pipelines and their libraries, [`deferral`] deferred operations,
//!   [`deferral_threads`] with several threads, [`deferred_libraries`] libraries with a loaded cache
//! - [`own_binaries`] a program's use of pipeline binaries
//! - [`later_calls`] what later calls see of served pipelines, [`queries`] the queries among these calls
//! - [`rebuilt`] pipelines rebuilt from the recipes that the others record
//! - [`parked_validation`] what workers make of these recipes, judged by the validation layer
//! - [`newer`] pipelines of extensions that no driver here has
//! - [`two_drivers`] two drivers in one instance

mod conversions;
mod deferral;
mod deferral_threads;
mod deferred_libraries;
mod draft;
mod foz;
mod later_calls;
mod libraries;
mod newer;
mod own_binaries;
mod parked_validation;
mod queries;
mod ray_tracing;
pub mod rays;
mod rebuilt;
pub mod rig;
mod state;
mod two_drivers;

use serde_json::Value;
use vkstash_layer_tests::env::Driver;
use vkstash_layer_tests::report::Reports;

/// The outcome of each pipeline: its name, the result and whether there is a handle; None if the device lacks a
/// feature.
type Results = Vec<(String, Option<(i32, bool)>)>;

/// The run found all of its `made` pipelines: the driver compiled none of them.
#[track_caller]
fn covered(driver: &Driver, reports: &Reports, made: usize) {
    let counters = reports.counters();
    assert!(reports.bypassed().is_empty(), "{:?}", reports.bypassed());
    // Lavapipe's caches keep nothing, so the layer describes nothing.
    if *driver == Driver::Lavapipe {
        return;
    }
    for what in ["compiled", "not_taken", "failed"] {
        assert_eq!(reports.sum(what), 0, "{what} on {}: {counters:?}", driver.name());
    }
    let had = ["served", "driver_had", "nothing_to_compile"].map(|what| reports.sum(what));
    assert_eq!(had.iter().sum::<u64>() as usize, made, "{}: {counters:?}", driver.name());
}

/// Every driver, the test driver with this script.
fn drivers(script: Value) -> [Driver; 4] {
    [Driver::Radv, Driver::Lavapipe, Driver::Test(script), Driver::Machine]
}
