//! Decision of the service about its next step: a function of what is so and of the settings, and of nothing else.

use std::time::Duration;

use crate::config::in_force::UpdateLimits;
use crate::drivers::MOST_CUT_OFF;
use crate::programs::prewarm::stop::Reason;

/// A driver whose files were changed less than this ago may be installed by half.
pub(crate) const SETTLED: Duration = Duration::from_secs(10);
/// Below this the machine has nothing to spare for a worker.
const LEAST_AVAILABLE: u64 = 1 << 30;

/// What is so.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Situation {
    /// A signal has asked the service to end.
    pub(crate) is_asked_to_end: bool,
    /// Applications with something to compile that were not tried yet.
    pub(crate) left: usize,
    /// How often work on these drivers has ended without any order.
    pub(crate) cut_off: u32,
    /// Since a file of a driver was changed.
    pub(crate) since_change: Duration,
    /// A program with the layer runs.
    pub(crate) program_runs: bool,
    pub(crate) is_on_battery: bool,
    /// The disk has less free than is to stay free.
    pub(crate) is_disk_full: bool,
    /// Bytes of memory that are available.
    pub(crate) memory: u64,
    /// How long the service has worked.
    pub(crate) worked: Duration,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Compile for the next application.
    Work,
    /// Look again later.
    Wait(Wait),
    End(End),
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Wait {
    #[error("a driver is being installed")]
    Installation,
    #[error("a program with the layer runs")]
    Program,
    #[error("the machine runs on battery")]
    Power,
    #[error("little memory is left")]
    Memory,
}

/// Why the service ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum End {
    #[error("everything is ready that can be")]
    Done,
    #[error("the settings switch it off (`vkstash background`)")]
    SwitchedOff,
    #[error("it was asked to end")]
    Signal,
    #[error("its time is over (`update-minutes`); it goes on the next time")]
    TimeOver,
    #[error("the disk is nearly full")]
    DiskFull,
    #[error(
        "work on these drivers was cut off {MOST_CUT_OFF} times, as if the machine went down: `vkstash prewarm --all` \
         tries again"
    )]
    CutOff,
}

/// What is to be done now. What ends it comes before what it waits for.
pub(crate) fn next(now: &Situation, settings: &UpdateLimits) -> Action {
    let is_time_over = settings.minutes != u64::MAX
        && now.worked >= Duration::from_secs(settings.minutes.saturating_mul(60));
    if now.is_asked_to_end {
        Action::End(End::Signal)
    } else if !settings.is_on {
        Action::End(End::SwitchedOff)
    } else if now.since_change < SETTLED {
        // What is left is not known yet.
        Action::Wait(Wait::Installation)
    } else if now.left == 0 {
        Action::End(End::Done)
    } else if now.cut_off >= MOST_CUT_OFF {
        Action::End(End::CutOff)
    } else if is_time_over {
        Action::End(End::TimeOver)
    } else if now.is_disk_full {
        Action::End(End::DiskFull)
    } else if now.program_runs {
        Action::Wait(Wait::Program)
    } else if now.is_on_battery {
        Action::Wait(Wait::Power)
    } else if now.memory < LEAST_AVAILABLE {
        Action::Wait(Wait::Memory)
    } else {
        Action::Work
    }
}

/// Why work that has begun is to stop. None: it goes on. Little memory is none: a worker may be what uses it, and has
/// a limit.
pub(crate) fn interruption(now: &Situation, settings: &UpdateLimits) -> Option<Reason> {
    // What is worked on is left, and a change of the drivers is seen when it is done.
    let now = Situation { left: 1, since_change: SETTLED, memory: u64::MAX, ..*now };
    match next(&now, settings) {
        Action::Work => None,
        Action::Wait(Wait::Program) => Some(Reason::ProgramRuns),
        Action::Wait(Wait::Power) => Some(Reason::OnBattery),
        Action::End(End::TimeOver) => Some(Reason::TimeOver),
        Action::End(End::DiskFull) => Some(Reason::DiskFull),
        Action::End(End::SwitchedOff) => Some(Reason::SwitchedOff),
        Action::Wait(_) | Action::End(_) => Some(Reason::Signal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: UpdateLimits = UpdateLimits { is_on: true, processors: 1, memory: 1 << 30, minutes: 60 };

    fn usual() -> Situation {
        Situation { left: 2, since_change: Duration::MAX, memory: u64::MAX, ..Situation::default() }
    }

    /// A change of the usual situation, the settings, what is done, and why work stops that has begun.
    type Row = (fn(&mut Situation, &mut UpdateLimits), Action, Option<Reason>);

    #[test]
    fn each_event_has_its_action() {
        use Action::{End as Ends, Wait as Waits, Work};
        let rows: &[Row] = &[
            (|_, _| (), Work, None),
            (|now, _| now.left = 0, Ends(End::Done), None),
            (|_, set| set.is_on = false, Ends(End::SwitchedOff), Some(Reason::SwitchedOff)),
            (|now, _| now.is_asked_to_end = true, Ends(End::Signal), Some(Reason::Signal)),
            (|now, _| now.program_runs = true, Waits(Wait::Program), Some(Reason::ProgramRuns)),
            (|now, _| now.is_on_battery = true, Waits(Wait::Power), Some(Reason::OnBattery)),
            (|now, _| now.memory = (1 << 30) - 1, Waits(Wait::Memory), None),
            (|now, _| now.is_disk_full = true, Ends(End::DiskFull), Some(Reason::DiskFull)),
            (|now, _| now.since_change = Duration::from_secs(9), Waits(Wait::Installation), None),
            (|now, _| now.since_change = Duration::from_secs(10), Work, None),
            (|now, _| now.worked = Duration::from_secs(3599), Work, None),
            (|now, _| now.worked = Duration::from_secs(3600), Ends(End::TimeOver), Some(Reason::TimeOver)),
            (|now, set| (now.worked, set.minutes) = (Duration::MAX, u64::MAX), Work, None),
            (|_, set| set.minutes = 0, Ends(End::TimeOver), Some(Reason::TimeOver)),
            (|now, _| now.cut_off = 2, Work, None),
            (|now, _| now.cut_off = 3, Ends(End::CutOff), Some(Reason::Signal)),
            // Of two events at once.
            (|now, _| (now.left, now.program_runs) = (0, true), Ends(End::Done), Some(Reason::ProgramRuns)),
            (
                |now, set| (now.program_runs, set.is_on) = (true, false),
                Ends(End::SwitchedOff),
                Some(Reason::SwitchedOff),
            ),
            (
                |now, _| (now.program_runs, now.is_on_battery) = (true, true),
                Waits(Wait::Program),
                Some(Reason::ProgramRuns),
            ),
            (
                |now, _| (now.is_asked_to_end, now.program_runs) = (true, true),
                Ends(End::Signal),
                Some(Reason::Signal),
            ),
            (|now, _| (now.left, now.since_change) = (0, Duration::ZERO), Waits(Wait::Installation), None),
        ];
        for (number, (change, action, interruption)) in rows.iter().enumerate() {
            let (mut now, mut settings) = (usual(), SETTINGS);
            change(&mut now, &mut settings);
            assert_eq!(next(&now, &settings), *action, "row {number}: {now:?} {settings:?}");
            assert_eq!(self::interruption(&now, &settings), *interruption, "row {number}: {now:?}");
        }
    }
}
