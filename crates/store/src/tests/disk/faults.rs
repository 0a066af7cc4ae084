//! Plans of failures: which file operations fail, and how. There is one plan for the process, because the writer is
//! another thread; a test with a plan runs in a process of its own.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;
use std::time::Duration;

use rustix::fs::{FileType, OFlags, Stat, fcntl_getfl, fstat};
use rustix::io::Errno;

use crate::tests::disk::power;
use vkstash_host::disk::faults::{Fault, Faults, Op, install};
use vkstash_host::sync::Mutex;

/// Errors that files can have.
pub(crate) const ERRORS: [Errno; 7] =
    [Errno::IO, Errno::NOSPC, Errno::MFILE, Errno::INTR, Errno::STALE, Errno::ACCESS, Errno::NOMEM];

/// Which operations fail.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Plan {
    /// The n-th operation that can fail so, from 1, of one kind if it is given; with `on` all later ones too.
    Nth { fault: Fault, op: Option<Op>, n: u64, on: bool },
    /// No operation fails; those of the thread that starts the plan take longer than a program waits, and are counted.
    /// Those of other threads wait until the plan ends.
    Slow,
    /// No operation fails; each takes so long. Those of the program's threads are counted, which are all but the
    /// layer's own.
    Delayed { delay: Duration },
    /// No operation fails; those of one kind are counted.
    Counted { op: Op },
    /// No operation fails; those of one kind wait until the plan ends.
    Block { op: Op },
    /// No operation fails; the first of one kind waits until the plan ends.
    BlockOnce { op: Op },
    /// Locks of files as Linux has them on NFSv4: an exclusive one needs a descriptor that can write, a shared one
    /// needs one that can read.
    NfsLocks,
    /// One of `one_of` operations fails, at random.
    Random { seed: u64, one_of: u64 },
}

struct State {
    plan: Plan,
    /// The thread that has started it.
    thread: ThreadId,
    /// The number of operations that could have failed.
    calls: u64,
    /// The operations that failed, in order.
    hit: Vec<(Op, Fault)>,
}

/// Longer than a program waits until its stash is open.
const LONGER: Duration = Duration::from_millis(20);

static ACTIVE: AtomicBool = AtomicBool::new(false);
static STATE: Mutex<Option<State>> = Mutex::new(None);

/// Operations ask the plan, and the model of power cuts, from now on.
pub(super) fn watch() {
    install(Faults { next, of_lock, synced: power::was_synced });
}

/// Starts a plan.
pub(crate) fn begin(plan: Plan) {
    let state = State { plan, thread: std::thread::current().id(), calls: 0, hit: Vec::new() };
    watch();
    *STATE.lock() = Some(state);
    ACTIVE.store(true, Ordering::SeqCst);
}

/// Ends the plan. Returns the operations that failed.
pub(crate) fn end() -> Vec<(Op, Fault)> {
    ACTIVE.store(false, Ordering::SeqCst);
    let state = STATE.lock().take();
    state.map_or_else(Vec::new, |state| state.hit)
}

/// The number of operations that were counted or waited.
pub(crate) fn calls() -> u64 {
    STATE.lock().as_ref().map_or(0, |state| state.calls)
}

/// Whether an operation waits or has waited.
pub(crate) fn has_held() -> bool {
    calls() > 0
}

/// The fault of this operation.
fn next(op: Op) -> Option<Fault> {
    power::may_be_cut();
    if !ACTIVE.load(Ordering::Relaxed) {
        return None;
    }
    let mut locked = STATE.lock();
    let state = locked.as_mut()?;
    let fault = match state.plan {
        Plan::Block { op: held } | Plan::BlockOnce { op: held } => {
            state.calls += u64::from(held == op);
            let holds = held == op && (state.calls == 1 || matches!(state.plan, Plan::Block { .. }));
            drop(locked);
            while holds && ACTIVE.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            return None;
        }
        Plan::Slow => {
            let mine = state.thread == std::thread::current().id();
            state.calls += u64::from(mine);
            drop(locked);
            if mine {
                std::thread::sleep(LONGER);
            }
            while !mine && ACTIVE.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            return None;
        }
        Plan::Delayed { delay } => {
            let current = std::thread::current();
            let is_layers = current.name().is_some_and(|name| name.starts_with("vkstash"));
            state.calls += u64::from(!is_layers);
            drop(locked);
            std::thread::sleep(delay);
            return None;
        }
        Plan::NfsLocks => None,
        Plan::Counted { op: counted } => {
            state.calls += u64::from(counted == op);
            None
        }
        Plan::Nth { fault, op: only, n, on } => {
            if !fault.fits(op) || only.is_some_and(|only| only != op) {
                return None;
            }
            state.calls += 1;
            (state.calls == n || on && state.calls > n).then_some(fault)
        }
        Plan::Random { seed, one_of } => {
            state.calls += 1;
            let number = mixed(seed.wrapping_add(state.calls.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
            let error = ERRORS[(number >> 8) as usize % ERRORS.len()];
            let fault = match number >> 16 & 3 {
                0 if Fault::Short.fits(op) => Fault::Short,
                1 if Fault::Torn(0, error).fits(op) => Fault::Torn((number >> 24) as u8, error),
                _ => Fault::Error(error),
            };
            ((number >> 32) % one_of == 0).then_some(fault)
        }
    };
    state.hit.extend(fault.map(|fault| (op, fault)));
    fault
}

/// What NFS says of a lock of this file, where that is the plan.
fn of_lock(fd: BorrowedFd<'_>, exclusive: bool) -> Result<(), Errno> {
    let is_planned = STATE.lock().as_ref().is_some_and(|state| matches!(state.plan, Plan::NfsLocks));
    // Linux keeps the locks of folders to itself.
    let is_file = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !is_planned || !is_file(fstat(fd)?) {
        return Ok(());
    }
    let lacks = if exclusive { OFlags::RDONLY } else { OFlags::WRONLY };
    if fcntl_getfl(fd)? & OFlags::RWMODE == lacks { Err(Errno::BADF) } else { Ok(()) }
}

fn mixed(mut number: u64) -> u64 {
    number = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    number = (number ^ number >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ number >> 31
}
