//! One prewarm at a time for each application: two would make everything twice.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Another process works on the application.
#[derive(Debug)]
pub(crate) struct Taken;

/// Held as long as this process prewarms. None: the file system has no locks, or there is nothing to lock.
pub(crate) struct Lock(#[allow(dead_code, reason = "closed when it is dropped")] Option<OwnedFd>);

/// Takes the lock of an application: that of the folder of its portable part, which nobody else locks, so that no file
/// has to be made for it.
/// Another process may hold it so long.
pub(crate) fn take(root: &Path, application: &str, patience: Duration) -> Result<Lock, Taken> {
    taken_within(&root.join(application).join("portable"), patience)
}

/// Takes the lock of all stashes below this root: that of its folder. One service at a time works there.
pub(crate) fn take_all(root: &Path) -> Result<Lock, Taken> {
    // A process that was killed as it started a worker leaves the lock to that for a moment.
    taken_within(root, Duration::from_secs(2))
}

fn taken_within(folder: &Path, patience: Duration) -> Result<Lock, Taken> {
    let began = Instant::now();
    loop {
        match taken(folder) {
            Err(Taken) if began.elapsed() < patience => std::thread::sleep(LOOK_EVERY),
            taken => return taken,
        }
    }
}

fn taken(folder: &Path) -> Result<Lock, Taken> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(folder) = open(folder, flags, Mode::empty()) else {
        return Ok(Lock(None));
    };
    match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Lock(Some(folder))),
        Err(Errno::WOULDBLOCK) => Err(Taken),
        Err(_) => Ok(Lock(None)),
    }
}
