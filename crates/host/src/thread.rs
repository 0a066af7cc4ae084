//! Starting threads, on which no handler of the program runs for a signal that was sent to it, and what processors are
//! left for them.
//!
//! No thread of the stash lowers its priority, though much of its work can wait. Inside a process that does harm where
//! all processors are busy: a thread of low priority that has lost its processor keeps the locks that it holds, also
//! the kernel's for the memory map of the process, and the process cannot end, until it has its next turn (with
//! SCHED_IDLE after half a second); and every thread that it starts, such as one of a driver's, keeps the low priority
//! for ever, because unprivileged processes cannot raise it. A thread whose work can wait looks at how long it
//! has waited for a processor ([`times`]).
#![allow(unsafe_code, reason = "calls of the C library that its crates do not wrap")]

use std::os::unix::thread::JoinHandleExt as _;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};

use crate::descriptor::read_system_file;

/// Stack of a thread that calls no driver, beside what the C library takes out of every stack: the static thread-local
/// storage of all libraries in the process, which may be megabytes.
const OWN_STACK: usize = 1 << 20;
/// The least stack of a thread that calls drivers, whose compilers expect what a program's own threads usually have.
const DRIVER_STACK: usize = 8 << 20;
/// The largest: where the user has raised the limit far above that, address space is dearer.
const MOST_STACK: usize = 64 << 20;

/// Signals that a thread raises itself, by what it does. If they are blocked then, the system ends the process: without
/// the program's crash handler, and where a sandbox has a handler answer a system call in the kernel's place (SIGSYS).
const OWN: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];

/// Address space that must be left for a new thread: the C library reserves twice the size of a heap for it, which is
/// 64 MiB (in 32 bits 1 MiB), and gives half of it back. Where the program's limit leaves no more, drivers die of what
/// they do not get.
const SPACE_FOR_ONE: u64 = if cfg!(target_pointer_width = "64") { 256 << 20 } else { 8 << 20 };
/// Address space in bytes that must be left for all threads of a stash and its workers: a thread that was just started
/// has no heap yet, so that a look at what is left before the next thread does not suffice.
const SPACE_FOR_ALL: u64 = 3 * SPACE_FOR_ONE;

/// Time between two looks whether a thread has ended.
const LOOKS_EVERY: Duration = Duration::from_micros(250);

/// What a thread does that needs stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// The stack of a thread that runs this library's own code.
    Own,
    /// The stack of a thread that calls drivers: as large as those of the program's threads by default, if that is
    /// more.
    Drivers,
}

impl Stack {
    /// The stack's size in bytes.
    fn bytes(self) -> usize {
        let wanted = match self {
            Stack::Own => OWN_STACK,
            Stack::Drivers => usual_stack().clamp(DRIVER_STACK, MOST_STACK),
        };
        wanted.saturating_add(least_stack())
    }
}

/// The size of the stack that the C library gives to threads by default, which RLIMIT_STACK decides when the program
/// starts. 0: it does not say.
fn usual_stack() -> usize {
    let mut bytes = 0;
    // SAFETY: the attributes are on this stack, and used between the calls that initialize and destroy them.
    unsafe {
        let mut attributes = std::mem::zeroed();
        if libc::pthread_attr_init(&mut attributes) == 0 {
            libc::pthread_attr_getstacksize(&attributes, &mut bytes);
            libc::pthread_attr_destroy(&mut attributes);
        }
    }
    bytes
}

/// What the C library takes out of a thread's stack, and the little that it asks for beside that. 0: it does not say.
fn least_stack() -> usize {
    /// Takes the attributes of a thread, which glibc does not look at.
    type GetMinStack = unsafe extern "C" fn(*const libc::pthread_attr_t) -> usize;
    const UNKNOWN: usize = usize::MAX;
    // Asked once, because the look-up takes the dynamic loader's lock. No lock here: a child may be forked meanwhile.
    static LEAST: AtomicUsize = AtomicUsize::new(UNKNOWN);
    let mut least = LEAST.load(Ordering::Relaxed);
    if least == UNKNOWN {
        // SAFETY: a look-up by name. glibc's function of that name has that type, and wants initialized attributes.
        least = unsafe {
            let found = libc::dlsym(libc::RTLD_DEFAULT, c"__pthread_get_minstack".as_ptr());
            let mut attributes = std::mem::zeroed();
            if found.is_null() || libc::pthread_attr_init(&mut attributes) != 0 {
                0
            } else {
                let bytes = std::mem::transmute::<*mut libc::c_void, GetMinStack>(found)(&attributes);
                libc::pthread_attr_destroy(&mut attributes);
                bytes
            }
        };
        LEAST.store(least, Ordering::Relaxed);
    }
    least
}

/// Starts a thread that receives no signals but those that it raises itself, and has no real-time priority. `None`: the
/// system refuses it, or the program would have too little address space left.
pub fn spawn(name: &str, stack: Stack, body: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    let bytes = stack.bytes();
    if !space_is_left(SPACE_FOR_ONE.saturating_add(bytes as u64)) {
        return None;
    }
    let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(bytes);
    let body = move || {
        leave_real_time();
        body();
    };
    // SAFETY: the calls get valid pointers to signal sets on this stack. They change only the calling thread's mask,
    // which is restored before this function returns.
    unsafe {
        let mut all = std::mem::zeroed();
        let mut before = std::mem::zeroed();
        libc::sigfillset(&mut all);
        OWN.iter().for_each(|&signal| _ = libc::sigdelset(&mut all, signal));
        let blocked = libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before) == 0;
        let handle = builder.spawn(body).ok();
        if blocked {
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        }
        handle
    }
}

/// A thread inherits the scheduling of the one that starts it. A real-time one would keep a processor from the threads
/// of the program until its work is done, and its time counts against RLIMIT_RTTIME, at whose end the process is
/// killed.
fn leave_real_time() {
    /// In the answer, beside the policy, if a forked child is not to inherit it.
    const RESET_ON_FORK: libc::c_int = 0x4000_0000;
    // SAFETY: 0 is the calling thread; zeros are the parameter of the default policy, on this stack.
    unsafe {
        let policy = libc::sched_getscheduler(0) & !RESET_ON_FORK;
        if matches!(policy, libc::SCHED_FIFO | libc::SCHED_RR) {
            libc::sched_setscheduler(0, libc::SCHED_OTHER, &std::mem::zeroed());
        }
    }
}

/// Waits until a thread has ended wholly, with its destructors for thread-local storage. False: the time is over, and
/// the thread is left to itself. True on the thread itself, too, which ends later.
pub fn join(handle: JoinHandle<()>, limit: Duration) -> bool {
    let thread = handle.into_pthread_t();
    // SAFETY: pthread_self has no preconditions. The standard library's own handle does not work in an exit handler,
    // where thread-local storage is gone.
    if thread == unsafe { libc::pthread_self() } {
        // SAFETY: `thread` was taken out of its JoinHandle, so nobody else joins or detaches it.
        unsafe { libc::pthread_detach(thread) };
        return true;
    }
    let began = Instant::now();
    loop {
        // SAFETY: `thread` was taken out of its JoinHandle, so nobody else joins or detaches it. Where the call answers
        // 0, the thread is not used again.
        if unsafe { libc::pthread_tryjoin_np(thread, std::ptr::null_mut()) } == 0 {
            return true;
        }
        if began.elapsed() > limit {
            // SAFETY: `thread` was taken out of its JoinHandle and is not joined, so it is detached here alone.
            unsafe { libc::pthread_detach(thread) };
            return false;
        }
        std::thread::sleep(LOOKS_EVERY);
    }
}

/// Whether the limit of the process for its address space, if it has one, leaves less than all threads of a stash need.
pub fn may_use_little_space() -> bool {
    !space_is_left(SPACE_FOR_ALL)
}

/// Whether the limit of the process for its address space, if it has one, leaves so many bytes.
fn space_is_left(least: u64) -> bool {
    let Some(limit) = getrlimit(Resource::As).current else { return true };
    let text = read_system_file(c"/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().next().and_then(|pages| pages.parse::<u64>().ok());
    let used = pages.map(|pages| pages.saturating_mul(page_size() as u64));
    // How much is used is not known without /proc. A limit that is set was set for the program.
    used.is_some_and(|used| limit.saturating_sub(used) >= least)
}

/// Whether the main thread has ended (pthread_exit), so that the process lasts as long as its other threads. A thread
/// that keeps the process alive for the stash alone asks this, and ends. The system is asked ten times a second at
/// most.
pub fn main_has_ended() -> bool {
    const ASKS_EVERY_MS: u64 = 100;
    /// The time of the last answer in milliseconds, times two, and the answer. No lock: a child may be forked
    /// meanwhile.
    static ANSWER: AtomicU64 = AtomicU64::new(0);
    let (now, answer) = (coarse_ms(), ANSWER.load(Ordering::Relaxed));
    if answer != 0 && now.wrapping_sub(answer >> 1) < ASKS_EVERY_MS {
        return answer & 1 == 1;
    }
    let stat = read_system_file(c"/proc/self/stat").unwrap_or_default();
    // The state follows the name, which may hold anything.
    let has_ended = stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('Z'));
    ANSWER.store(now << 1 | u64::from(has_ended), Ordering::Relaxed);
    has_ended
}

/// Milliseconds of a clock that is read without a system call.
fn coarse_ms() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// A thread's times so far.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Time in which the thread had a processor.
    pub ran: Duration,
    /// Time in which the thread waited for a processor.
    pub waited: Duration,
}

impl Times {
    /// Before it has begun.
    pub const ZERO: Times = Times { ran: Duration::ZERO, waited: Duration::ZERO };
}

/// The times of the calling thread. None: the system does not say.
pub fn times() -> Option<Times> {
    let text = read_system_file(c"/proc/thread-self/schedstat").ok()?;
    let mut times = text.split_whitespace().map(|time| time.parse().ok().map(Duration::from_nanos));
    Some(Times { ran: times.next()??, waited: times.next()?? })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn a_thread_that_shares_its_processor_waits_for_it() {
        let is_over = AtomicBool::new(false);
        let on_one_processor = || {
            // SAFETY: zeros are an empty set, on this stack; 0 is the calling thread.
            unsafe {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(0, &mut set);
                libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) == 0
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let is_on_one = on_one_processor();
                while is_on_one && !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let waits = scope.spawn(|| {
                if !on_one_processor() || times().is_none() {
                    eprintln!("SKIPPED: processor 0 is not allowed, or the system has no statistics");
                    return true;
                }
                let began = std::time::Instant::now();
                while times().is_some_and(|times| times.waited < Duration::from_millis(5)) {
                    if began.elapsed() > Duration::from_secs(100) {
                        return false;
                    }
                }
                true
            });
            let has_waited = waits.join().unwrap();
            is_over.store(true, Ordering::Relaxed);
            assert!(has_waited);
        });
    }

    const LIMITED: &str = "VKSTASH_TEST_LIMITED";

    #[test]
    fn a_program_with_little_address_space_gets_no_thread() {
        if std::env::var_os(LIMITED).is_some() {
            let text = read_system_file(c"/proc/self/statm").unwrap();
            let pages: u64 = text.split_whitespace().next().unwrap().parse().unwrap();
            let started = |left: u64| {
                let current = Some(pages * page_size() as u64 + left);
                rustix::process::setrlimit(Resource::As, rustix::process::Rlimit { current, maximum: None })
                    .unwrap();
                spawn("limited", Stack::Own, || ()).map(|thread| thread.join().unwrap()).is_some()
            };
            assert!(!may_use_little_space());
            assert!(started(2 * SPACE_FOR_ONE) && !started(SPACE_FOR_ONE / 2));
            assert!(may_use_little_space());
            return;
        }
        let name = "thread::tests::a_program_with_little_address_space_gets_no_thread";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let output = child.args(["--exact", "--nocapture", name]).env(LIMITED, "1").output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    static IS_ANSWERED: AtomicBool = AtomicBool::new(false);

    extern "C" fn answer(_: libc::c_int) {
        IS_ANSWERED.store(true, Ordering::SeqCst);
    }

    /// Has a handler answer the calling thread's getppid from now on, as browsers do with most calls. False: the system
    /// refuses it.
    fn sandbox() -> bool {
        const LOAD_NUMBER: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
        const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
        let step = |code, jt, k| libc::sock_filter { code, jt, jf: 0, k };
        let mut steps = [
            step(LOAD_NUMBER, 0, 0),
            step(IF_EQUAL, 1, libc::SYS_getppid as u32),
            step(RETURN, 0, libc::SECCOMP_RET_ALLOW),
            step(RETURN, 0, libc::SECCOMP_RET_TRAP),
        ];
        let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
        // SAFETY: the handler has the type that the call expects, and only stores; the filter is on this stack, and is
        // copied.
        unsafe {
            let handler: extern "C" fn(libc::c_int) = answer;
            libc::signal(libc::SIGSYS, handler as libc::sighandler_t);
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) == 0
        }
    }

    #[test]
    fn a_sandbox_that_answers_calls_by_a_signal_does_not_end_the_process() {
        let calls = || {
            let is_sandboxed = sandbox();
            if is_sandboxed {
                // SAFETY: getppid takes no argument, and only reads a number.
                unsafe { libc::syscall(libc::SYS_getppid) };
            }
            assert!(IS_ANSWERED.load(Ordering::SeqCst) || !is_sandboxed);
            if !is_sandboxed {
                eprintln!("SKIPPED: the system has no filters of system calls");
            }
        };
        spawn("sandboxed", Stack::Own, calls).unwrap().join().unwrap();
    }

    /// Nanoseconds of the clock that all processes share.
    fn now() -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the structure is on this stack; the clock exists on every system.
        assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) }, 0);
        u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap()
    }

    const PRIORITY: &str = "VKSTASH_TEST_PRIORITY";

    /// The program of the test below: ends while another thread of this priority computes.
    fn end_beside(priority: &str) -> ! {
        let (policy, nice) = if priority == "idle" {
            (libc::SCHED_IDLE, 0)
        } else {
            (libc::SCHED_OTHER, priority.parse().unwrap())
        };
        std::thread::spawn(move || {
            // SAFETY: zeros are a valid parameter, on this stack; 0 is the calling thread.
            unsafe { libc::sched_setscheduler(0, policy, &std::mem::zeroed()) };
            rustix::process::setpriority_process(None, nice).unwrap();
            loop {
                std::hint::spin_loop();
            }
        });
        std::thread::sleep(Duration::from_millis(200));
        println!("ends: {}", now());
        std::process::exit(0)
    }

    /// Prints how long a process takes to end on a machine whose processors compute, if another of its threads does,
    /// too: from its last statement to the return of the wait for it.
    #[test]
    #[ignore = "prints figures"]
    fn what_a_thread_of_low_priority_costs_at_the_end_of_its_process() {
        if let Ok(priority) = std::env::var(PRIORITY) {
            end_beside(&priority);
        }
        let name = "thread::tests::what_a_thread_of_low_priority_costs_at_the_end_of_its_process";
        let took = |priority: &str| {
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            child.args(["--ignored", "--exact", "--nocapture", name]).env(PRIORITY, priority);
            let output = child.output().unwrap();
            let end = now();
            let text = String::from_utf8(output.stdout).unwrap();
            let began = text.lines().find_map(|line| line.split_once("ends: ")?.1.parse::<u64>().ok());
            (end - began.unwrap()) / 1_000
        };
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().unwrap().get() {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            for priority in ["0", "5", "10", "19", "idle"] {
                let mut all: Vec<_> = (0..11).map(|_| took(priority)).collect();
                all.sort_unstable();
                println!("{priority}: {} us, {} to {}", all[5], all[0], all[10]);
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}
