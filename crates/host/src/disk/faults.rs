//! Failures of file operations, on purpose: a test installs what decides them ([`install`]). Without it each operation
//! costs one more load.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use crate::once::OnceLock;

/// The kind of a file operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is named like the operation")]
pub enum Op {
    Open,
    MakeFolder,
    List,
    Stat,
    Space,
    Read,
    Write,
    Truncate,
    Sync,
    Stamp,
    Lock,
    Rename,
    Remove,
}

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The operation does nothing and returns the error.
    Error(Errno),
    /// A read or a write does half of its work, and says so.
    Short,
    /// This many 256ths of a write are done, and the error is all that is said.
    Torn(u8, Errno),
}

impl Fault {
    /// The error that is returned.
    pub fn error(self) -> Errno {
        match self {
            Fault::Error(error) | Fault::Torn(_, error) => error,
            Fault::Short => Errno::IO,
        }
    }

    /// Whether an operation of that kind can fail so.
    pub fn fits(self, op: Op) -> bool {
        match self {
            Fault::Error(_) => true,
            Fault::Short => matches!(op, Op::Read | Op::Write),
            Fault::Torn(..) => op == Op::Write,
        }
    }
}

/// What decides whether operations fail.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Asked before each operation.
    pub next: fn(Op) -> Option<Fault>,
    /// Asked before a file is locked: exclusively or not.
    pub of_lock: fn(BorrowedFd<'_>, bool) -> Result<(), Errno>,
    /// Told after a file or a folder was synced.
    pub synced: fn(BorrowedFd<'_>),
}

static INSTALLED: OnceLock<Faults> = OnceLock::new();

/// For the rest of the process; the first call counts.
pub fn install(faults: Faults) {
    let _ = INSTALLED.set(faults);
}

/// The fault of this operation.
#[inline]
pub(super) fn next(op: Op) -> Option<Fault> {
    INSTALLED.get().and_then(|faults| (faults.next)(op))
}

/// The fault of an operation that is done whole or not at all.
#[inline]
pub(super) fn ask(op: Op) -> Result<(), Errno> {
    next(op).map_or(Ok(()), |fault| Err(fault.error()))
}

/// Whether this lock is refused.
#[inline]
pub(super) fn of_lock(fd: BorrowedFd<'_>, exclusive: bool) -> Result<(), Errno> {
    INSTALLED.get().map_or(Ok(()), |faults| (faults.of_lock)(fd, exclusive))
}

/// The descriptor's file was synced.
#[inline]
pub(super) fn synced(fd: BorrowedFd<'_>) {
    INSTALLED.get().into_iter().for_each(|faults| (faults.synced)(fd));
}
