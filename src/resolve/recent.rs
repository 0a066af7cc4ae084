//! What is noted of questions to the driver, for those that follow (state/asked_first.rs).

use std::time::Duration;

use super::Request;
use super::call::{self, CreateInfo};
use crate::state::asked_first::Holder;

/// Notes what asking has brought: how long a hit took, None for a miss.
///
/// # Safety
/// The request's create info is valid.
pub(super) unsafe fn note<I: CreateInfo>(request: &Request<'_, I>, holder: Holder, hit: Option<Duration>) {
    let hits = request.passed.recent_hits(request.device);
    let Some(hits) = hits.filter(|hits| hit.is_some() || !hits.is_empty()) else { return };
    // SAFETY: the caller's contract.
    if let Some(stages) = unsafe { call::number_of_stages(request.device, &request.info) } {
        hits.note(stages, holder, hit);
    }
}
