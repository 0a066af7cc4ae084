//! Locks that show whether the process that writes a file still runs. Such a process holds the file's exclusive lock
//! until it ends.
//!
//! Questions ask for a shared lock: NFS grants an exclusive one only to descriptors that can write (EBADF). Where a
//! file system has no locks at all, nobody can know, and files count as left once they are a week old.

use rustix::io::Errno;

use crate::descriptor::Descriptor;
use crate::disk::ops as disk;
use crate::util::unix_ms;

/// On a file system without locks a file that was not changed for so many seconds has no process any more.
const LEFT_AFTER: i64 = 7 * 24 * 3600;

/// Whether the error says that locks of this kind do not exist there. Every other error is none that would say anything
/// of another process.
pub fn are_missing(error: Errno) -> bool {
    matches!(error, Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK | Errno::INVAL | Errno::BADF)
}

/// Whether a process writes the file.
pub fn is_locked(fd: &Descriptor) -> bool {
    match disk::try_lock_shared(fd) {
        // A lock of this process would look like a writer's. If unlocking fails, closing the file unlocks it.
        Ok(()) => disk::unlock(fd).is_err(),
        Err(error) => !is_left_without(fd, error),
    }
}

/// Takes the file of which no process is left, until the descriptor is closed: nobody else takes it alone, or begins to
/// write it. False: a process has it, or it cannot be told.
pub fn take(fd: &Descriptor) -> bool {
    disk::try_lock_shared(fd).map_or_else(|error| is_left_without(fd, error), |()| true)
}

/// [`take`] that only one process can do. The descriptor must be able to write.
pub fn take_alone(fd: &Descriptor) -> bool {
    disk::try_lock(fd).map_or_else(|error| is_left_without(fd, error), |()| true)
}

/// Takes the lock of work that one process does at a time. Where there are no locks two may do it at once: merging then
/// writes some records twice, and folding reports loses a few. Without it a stash would grow for ever there.
pub fn begin(fd: &Descriptor) -> Result<(), Errno> {
    disk::try_lock(fd).or_else(|error| if are_missing(error) { Ok(()) } else { Err(error) })
}

/// Whether a file, of which locking gave this error, has no process: its file system has no locks, and it is old.
fn is_left_without(fd: &Descriptor, error: Errno) -> bool {
    are_missing(error) && is_older(fd, LEFT_AFTER)
}

/// Whether the file was last changed so many seconds ago. False where the clock was set back.
pub fn is_older(fd: &Descriptor, seconds: i64) -> bool {
    let now = i64::try_from(unix_ms() / 1000).unwrap_or(0);
    disk::fstat(fd).is_ok_and(|stat| now.saturating_sub(stat.st_mtime) >= seconds)
}
