//! The modes of background work, and what becomes of measurements. docs/process.md describes both.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::{Errno, fcntl_dupfd_cloexec};

use super::pool::{self, Event as Signal, Pool};
use crate::config::{Config, OfProcess};
use vkstash_host::descriptor::Descriptor;
use vkstash_host::forks::PerProcess;
use vkstash_host::signals;
use vkstash_host::sync::Mutex;
pub use vkstash_model::background_mode::BackgroundMode as Mode;
use vkstash_store::settings;

/// What becomes of the measurements so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// Measurements stay, and more are made.
    #[default]
    KeepAll,
    /// The workload was shown completely: what is worth doing is done now.
    CommitResults,
    /// As [`Action::CommitResults`], by more threads, also while the machine is busy.
    CommitResultsHighPriority,
    /// Measurements so far are forgotten.
    DiscardPrevious,
}

/// What is told, once, that all tasks of a commit have been run or cancelled.
pub enum Event {
    /// The number 1 in eight bytes is written to the descriptor: an eventfd, or something else that takes them at once.
    Descriptor(Descriptor),
    /// Called on any thread, also on the one that commits, before that call returns.
    #[cfg(test)]
    Callback(Box<dyn FnOnce() + Send>),
}

/// Why a mode is not set. Nothing is changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModeError {
    /// An event can only tell of a commit.
    #[error("a completion event needs the action commit")]
    EventWithoutCommit,
    /// The mode or the action is for developers.
    #[error("{0} needs the developer mode")]
    DeveloperModeNeeded(&'static str),
}

impl Event {
    /// An event that writes to a copy of this descriptor.
    pub fn descriptor(descriptor: BorrowedFd<'_>) -> io::Result<Event> {
        let copy = fcntl_dupfd_cloexec(descriptor, 3)?;
        Ok(Event::Descriptor(Descriptor::new(copy)?))
    }

    fn signal(self) -> Signal {
        match self {
            #[cfg(test)]
            Event::Callback(callback) => callback,
            Event::Descriptor(descriptor) => Box::new(move || {
                // There is no caller any more that could be told of an error.
                let _ = write_one(&descriptor);
            }),
        }
    }
}

/// Waits for nothing: a descriptor that takes nothing now is not written to.
fn write_one(descriptor: &Descriptor) -> Result<(), Errno> {
    use std::os::fd::AsRawFd as _;
    let fd = descriptor.still()?;
    let mut asked = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: one structure on this stack.
    let ready = unsafe { libc::poll(&mut asked, 1, 0) };
    if ready == 1 && asked.revents & libc::POLLOUT != 0 {
        signals::write(fd, &1u64.to_ne_bytes())?;
    }
    Ok(())
}

/// Sets the mode of background work in this process, and says what becomes of the measurements so far.
///
/// A mode of the user's that forbids background work (`VKSTASH_BACKGROUND`, or the settings of the stash) stays in
/// force.
pub fn set(mode: Mode, action: Action, event: Option<Event>) -> Result<(), ModeError> {
    set_in(pool::of_process(), mode, action, event, is_developer_mode)
}

/// Whether the environment or the settings switch developer mode on; called only when it matters, because it may read
/// a file.
fn is_developer_mode() -> bool {
    OfProcess::get().background.developer_mode
        || Config::from_environment()
            .root
            .is_some_and(|root| settings::read(&root).all().developer_mode == Some(true))
}

/// Changes of the mode take turns.
static TURN: PerProcess<Mutex<()>> = PerProcess::empty();

/// [`set`] in one pool.
pub(super) fn set_in(
    pool: &Pool,
    mode: Mode,
    action: Action,
    event: Option<Event>,
    is_developer_mode: impl FnOnce() -> bool,
) -> Result<(), ModeError> {
    let commits = matches!(action, Action::CommitResults | Action::CommitResultsHighPriority);
    if event.is_some() && !commits {
        return Err(ModeError::EventWithoutCommit);
    }
    let is_urgent = action == Action::CommitResultsHighPriority;
    let restricted = match mode {
        Mode::Disabled => Some("the mode disabled"),
        Mode::Profiling => Some("the mode profiling"),
        _ if is_urgent => Some("a commit at high priority"),
        _ => None,
    };
    if let Some(what) = restricted.filter(|_| !is_developer_mode()) {
        return Err(ModeError::DeveloperModeNeeded(what));
    }
    let turn = TURN.get().lock();
    // Tasks that the commit causes are accepted also if the new mode forbids them.
    pool.set_mode(mode, commits);
    let producers = pool.producers();
    match action {
        Action::KeepAll => {}
        Action::DiscardPrevious => producers.iter().for_each(|producer| producer.discard()),
        Action::CommitResults | Action::CommitResultsHighPriority => {
            producers.iter().for_each(|producer| producer.commit());
        }
    }
    let reached = commits.then(|| pool.commit(event.map(Event::signal), is_urgent));
    pool.set_mode(mode, false);
    drop(turn);
    // The lock is released before this: a callback may set the mode again.
    pool::signal(reached.flatten());
    Ok(())
}
