//! One prewarm at a time for each application: two would make everything twice.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;

/// Another process works on the application.
#[derive(Debug)]
pub(crate) struct Taken;

/// Held as long as this process prewarms. None: the file system has no locks, or there is nothing to lock.
pub(crate) struct Lock(#[allow(dead_code, reason = "closed when it is dropped")] Option<OwnedFd>);

/// Takes the lock of an application: that of the folder of its portable part, which nobody else locks, so that no file
/// has to be made for it.
pub(crate) fn take(root: &Path, application: &str) -> Result<Lock, Taken> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(folder) = open(root.join(application).join("portable"), flags, Mode::empty()) else {
        return Ok(Lock(None));
    };
    match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Lock(Some(folder))),
        Err(Errno::WOULDBLOCK) => Err(Taken),
        Err(_) => Ok(Lock(None)),
    }
}
