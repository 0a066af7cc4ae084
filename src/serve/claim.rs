//! Before a compile whose artifact is recorded: of several processes that need it at the same time, one compiles.

use std::time::Duration;

use vkstash_model::counters::Count;
use vkstash_model::payload;
use vkstash_model::steps::{StepAnswer, StepSource};
use vkstash_store::format::record::Kind;
use vkstash_store::part::claiming::{Claim, Taken};

use super::create_info::CreateInfo;
use super::outcome::{ArtifactOutcome, Served};
use super::request::Request;
use super::{artifact, compile};
use crate::faults;
use crate::steps::Steps;

/// The longest wait for another process.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// What has come of it.
pub enum Turn<'a> {
    /// This process compiles. What it claims, if anything, is kept until the compile is over.
    Mine(Option<Taken<'a>>),
    /// Another process has compiled.
    Served(Served),
}

/// Claims the pipeline, or waits for the process that has claimed it, within the limits of [`Claim`]. Not for calls
/// that forbid compiling.
///
/// # Safety
/// The request's create info is valid.
pub unsafe fn take_turn<'a, I: CreateInfo>(
    request: &Request<'a, I>,
    missed: &ArtifactOutcome<'_>,
    buffer: &mut Vec<u8>,
    steps: &mut Steps,
) -> Turn<'a> {
    let (device, key) = (request.call.device, &request.pipeline.key);
    let Some(stored) = device.stored().filter(|_| compile::leaves_artifact(request, missed)) else {
        return Turn::Mine(None);
    };
    let limit = || {
        let mut record = Vec::new();
        let cost = stored.device.read(Kind::Cost, key, &mut record).then(|| payload::cost(&record)).flatten();
        let longest = faults::time_limit(LONGEST_WAIT);
        cost.map_or(longest, |cost| cost.min(longest))
    };
    match stored.device.claim(key, limit) {
        Claim::Taken(taken) => return Turn::Mine(Some(taken)),
        Claim::Unclaimed => return Turn::Mine(None),
        Claim::InVain => {
            device.count(Count::WaitedInVain);
            return Turn::Mine(None);
        }
        Claim::Recorded => {}
    }
    steps.asks(StepSource::Stash);
    // SAFETY: the request's create info is valid (the caller's contract).
    let served = unsafe { artifact::serve(request, buffer) };
    steps.add(
        StepSource::Stash,
        served.as_ref().map_or_else(ArtifactOutcome::step_answer, |_| StepAnswer::Had),
    );
    match served {
        Ok(served) => {
            device.count(Count::ServedByOther);
            Turn::Served(served)
        }
        Err(_) => Turn::Mine(None),
    }
}
