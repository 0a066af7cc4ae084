//! Times calls that are answered without a compile, for the comparison of the stash with the driver.

use std::time::Instant;

use super::call::Call;
use super::create_info::CreateInfo;
use crate::guard::tls_destroyed;
use crate::state::device::Device;
use crate::state::ended_runs::EndedRun;
use crate::stats::Count;
use vkstash_store::format::comparison::CacheHabit;

/// A call that has begun.
#[derive(Clone, Copy)]
pub struct Timed(Option<(CacheHabit, Instant)>);

impl Timed {
    /// A call begins. Only those are timed that either may answer, and only as many as are compared.
    pub fn begin<I: CreateInfo>(call: &Call<'_, I>) -> Timed {
        let device = call.device;
        let is_comparable = || {
            device.may_ask_driver_first()
                && !call.parsed().is_library()
                && !device.knows_failures()
                && !device.has_no_artifacts()
                && !device.leaves_first_run_to_workers()
        };
        let timed = call.passed.habit().filter(|&habit| {
            !device.comparisons.is_measured(habit) && is_comparable() && {
                device.asked_first(habit);
                device.comparisons.is_timed(habit)
            }
        });
        Timed(timed.map(|habit| (habit, Instant::now())))
    }

    /// When it began, if it is timed.
    pub fn since(&self) -> Option<Instant> {
        self.0.map(|(_, since)| since)
    }

    /// The pipeline was had without a compile, at that time; None: now.
    pub fn end(self, device: &Device, at: Option<Instant>) {
        let Some((habit, since)) = self.0 else { return };
        let took = at.unwrap_or_else(Instant::now) - since;
        let Some(now) = device.comparisons.note_call(habit, since, took) else { return };
        if !compiles_much(device) {
            device.record_comparison(habit, &now);
        }
    }
}

/// The program destroys the device: what its run has shown is recorded. What vkDestroyInstance costs is added when the
/// instance is destroyed.
pub fn end_run(device: &Device) {
    let (compiled, others) = made(device);
    let ended_runs = &device.instance().ended_runs;
    ended_runs.add_pipelines(compiled + others);
    ended_runs.note_idle(device.parked.has_no_creation());
    // The maps of the store need thread-local storage.
    if compiles_much(device) || tls_destroyed() {
        return;
    }
    let ended = device.comparisons.at_end(ended_runs.pipelines());
    ended.for_each(|(habit, now)| device.record_comparison(habit, &now));
    if let Some(header) = device.header() {
        ended_runs.add(EndedRun { header, habits: device.comparisons.ended().collect() });
    }
}

/// Whether more than an eighth of this run's pipelines were compiled, or are to be recorded by workers, whatever the
/// habit: such a run says nothing of those that will be served.
fn compiles_much(device: &Device) -> bool {
    let (compiled, others) = made(device);
    8 * compiled > compiled + others
}

/// How many pipelines of this run were compiled or are to be recorded by workers, and how many were had otherwise.
fn made(device: &Device) -> (u64, u64) {
    let sum = |counts: &[Count]| -> u64 { counts.iter().map(|count| device.counters().get(*count)).sum() };
    let compiled = sum(&[Count::Compiled, Count::CompiledUnrecorded]);
    let others = sum(&[Count::Served, Count::Offered, Count::Parked, Count::DriverHad]);
    // Among what the driver had.
    let left = sum(&[Count::LeftToWorkers]).min(others);
    (compiled + left, others - left)
}
