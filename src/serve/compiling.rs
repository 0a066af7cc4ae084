//! Recipe and mark in the guard file, written before the driver compiles a described pipeline for the program.

use std::time::Duration;

use super::create_info::CreateInfo;
use super::record::{self, RecipeWanted};
use super::request::Request;
use crate::state::devices::compiling::Compiling;

/// How long a call waits until the recipe is on the disk at which a process has ended.
const RECORDED_IN: Duration = Duration::from_millis(100);

/// Marks the pipeline of a request, which the driver is about to compile. What a process has ended at is recorded
/// first. None: the program forbids compiling, or nothing is kept.
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn begin<I: CreateInfo>(request: &Request<'_, I>) -> Option<Compiling> {
    let Request { call, pipeline } = request;
    let (device, parsed) = (call.device, call.parsed());
    let stored = device.stored().filter(|_| !parsed.fails_on_compile_required())?;
    if device.wants_recipes() && stored.device.compile_deaths(&pipeline.key) > 0 {
        // SAFETY: the request's create info is valid (the caller's contract).
        unsafe { record::recipe(request, RecipeWanted::Yes) };
        stored.stash.flush(RECORDED_IN);
    }
    Some(Compiling::begin(stored, &pipeline.key, parsed.stage_flags()))
}
