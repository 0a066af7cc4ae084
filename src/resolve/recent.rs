//! Notes hits and misses, so that later calls know whether to ask the driver first (state/asked_first.rs).

use std::time::Duration;

use super::call::Call;
use super::create_info::CreateInfo;
use crate::state::asked_first::Holder;

/// Notes one answer: how long a hit took, None for a miss.
///
/// # Safety
/// The call's create info is valid.
pub unsafe fn note<I: CreateInfo>(call: &Call<'_, I>, holder: Holder, hit: Option<Duration>) {
    let hits = call.passed.recent_hits(call.device);
    let Some(hits) = hits.filter(|hits| hit.is_some() || !hits.is_empty()) else { return };
    // SAFETY: the caller's contract.
    if let Some(stages) = unsafe { call.number_of_stages() } {
        hits.note(stages, holder, hit);
    }
}
