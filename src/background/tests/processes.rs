//! Processes that fork, that end with work under way, and that get no threads. Each case is a process of its own,
//! because the pool of the process is used.

use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant};

use super::{Ends, PATIENCE, until};
use crate::background::gate;
use crate::background::pool::{self, Cancelled, Owner};

const CASE: &str = "VKSTASH_TEST_BACKGROUND_CASE";

/// Tests in which forks and the end of the process wait for workers in a driver as long as these need on a busy
/// machine.
const UNHURRIED: [&str; 3] = [
    "a_fork_finds_no_worker_in_a_driver",
    "the_drivers_exit_handlers_find_no_worker_in_it_and_queued_tasks_are_cancelled",
    "exit_handlers_that_a_driver_registers_in_a_call_find_no_worker_in_it_either",
];

/// Runs `body` in a process of its own, and gives that process's output. `None` in that process.
fn alone(test: &str, body: impl FnOnce()) -> Option<Output> {
    let name = format!("background::tests::processes::{test}");
    if std::env::var(CASE).is_ok_and(|case| case == test) {
        body();
        return None;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([&name, "--exact", "--nocapture"]).env(CASE, test).env("VKSTASH_BACKGROUND_WORKERS", "2");
    if UNHURRIED.contains(&test) {
        child.env("VKSTASH_TEST_UNHURRIED", "1");
    }
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("{test} does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Some(child.wait_with_output().unwrap())
}

/// [`alone`], and the process must end well.
fn passes(test: &str, body: impl FnOnce()) {
    if let Some(output) = alone(test, body) {
        assert!(output.status.success(), "{output:?}");
    }
}

fn exit_status(child: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: the process is a child of this one, and the status is on this stack.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "{status}");
    libc::WEXITSTATUS(status)
}

/// What a child does with the pool: 0 if it gets one of its own.
fn judge_child(parents: Owner) -> i32 {
    let ends = Ends::default();
    pool::queue(parents, ends.task(0, || ()));
    assert_eq!(ends.all(), [(0, Some(Cancelled::DeviceDestroyed))], "its device is the parent's");
    let own = pool::of_process().new_owner();
    pool::queue(own, ends.task(1, || drop(gate::enter_driver().unwrap())));
    until(|| ends.all().len() == 2);
    assert!(pool::leave(own) && pool::leave(parents));
    i32::from(ends.all()[1] != (1, None))
}

static IN_DRIVER: AtomicUsize = AtomicUsize::new(0);

/// How long a driver call takes.
static CALL_MS: AtomicU64 = AtomicU64::new(2);

/// Driver calls without an end.
fn calls() {
    while let Some(_inside) = gate::enter_driver() {
        IN_DRIVER.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(CALL_MS.load(Ordering::SeqCst)));
        IN_DRIVER.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn a_fork_finds_no_worker_in_a_driver() {
    passes("a_fork_finds_no_worker_in_a_driver", || {
        let (owner, ends) = (pool::of_process().new_owner(), Ends::default());
        (0..2).for_each(|number| pool::queue(owner, ends.task(number, calls)));
        until(|| IN_DRIVER.load(Ordering::SeqCst) > 0);
        for _ in 0..50 {
            // SAFETY: the child allocates and starts threads, which the C library allows here, and exits at once.
            let child = unsafe {
                match libc::fork() {
                    0 if IN_DRIVER.load(Ordering::SeqCst) > 0 => libc::_exit(2),
                    0 => libc::_exit(judge_child(owner)),
                    child => child,
                }
            };
            assert_eq!(exit_status(child), 0);
        }
        // The parent's workers go on.
        until(|| IN_DRIVER.load(Ordering::SeqCst) > 0);
        assert!(pool::leave(owner));
        assert_eq!(ends.all().len(), 2);
    });
}

#[test]
fn a_fork_does_not_wait_for_a_driver_that_hangs() {
    passes("a_fork_does_not_wait_for_a_driver_that_hangs", || {
        let (owner, ends) = (pool::of_process().new_owner(), Ends::default());
        let (release, released) = mpsc::channel::<()>();
        let (entered, is_entered) = mpsc::channel();
        let hang = move || {
            let _inside = gate::enter_driver().unwrap();
            entered.send(()).unwrap();
            let _ = released.recv();
        };
        pool::queue(owner, ends.task(0, hang));
        is_entered.recv().unwrap();
        // SAFETY: as in the test above.
        let child = unsafe {
            match libc::fork() {
                0 => libc::_exit(judge_child(owner)),
                child => child,
            }
        };
        assert_eq!(exit_status(child), 0);
        drop(release);
        assert!(pool::leave(owner));
    });
}

/// A driver that forks a process of its own, on a worker.
#[test]
fn a_fork_inside_a_driver_call_does_not_wait_for_itself() {
    passes("a_fork_inside_a_driver_call_does_not_wait_for_itself", || {
        let (owner, ends) = (pool::of_process().new_owner(), Ends::default());
        let (send, done) = mpsc::channel();
        let fork = move || {
            let _inside = gate::enter_driver().unwrap();
            // SAFETY: the child exits at once.
            let child = unsafe {
                match libc::fork() {
                    0 => libc::_exit(0),
                    child => child,
                }
            };
            assert_eq!(exit_status(child), 0);
            assert!(!gate::of_process().is_entered(), "by another thread");
            assert!(gate::enter_driver().is_some(), "the gate is open again");
            send.send(()).unwrap();
        };
        pool::queue(owner, ends.task(0, fork));
        done.recv().expect("the task has not panicked");
        assert!(pool::leave(owner));
    });
}

static CANCELLED: AtomicUsize = AtomicUsize::new(0);

/// Counts cancelled tasks where an exit handler can see them.
struct AtExit;

impl pool::Task for AtExit {
    fn name(&self) -> &'static str {
        "at exit"
    }

    fn run(self: Box<Self>) {
        calls();
    }

    fn cancel(self: Box<Self>, why: Cancelled) {
        assert_eq!(why, Cancelled::ProcessEnds);
        CANCELLED.fetch_add(1, Ordering::SeqCst);
    }
}

/// Registered as a driver's handler would be: before the first task.
extern "C" fn drivers_handler() {
    let status = match (IN_DRIVER.load(Ordering::SeqCst), CANCELLED.load(Ordering::SeqCst)) {
        (0, 10) => 7,
        (0, _) => 8,
        _ => 9,
    };
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(status) };
}

/// The pool's handler runs first, then the program's, then the driver's.
fn work_until_exit() -> Owner {
    // SAFETY: the handlers are functions of this program.
    unsafe {
        libc::atexit(drivers_handler);
        libc::atexit(programs_handler);
    }
    let owner = pool::of_process().new_owner();
    (0..10).for_each(|_| pool::queue(owner, Box::new(AtExit)));
    (0..2).for_each(|_| pool::queue_after(owner, Duration::from_secs(1000), Box::new(AtExit)));
    until(|| IN_DRIVER.load(Ordering::SeqCst) > 0);
    owner
}

#[test]
fn the_drivers_exit_handlers_find_no_worker_in_it_and_queued_tasks_are_cancelled() {
    let test = "the_drivers_exit_handlers_find_no_worker_in_it_and_queued_tasks_are_cancelled";
    let body = || {
        // Longer than what the end waits for cancelled tasks.
        CALL_MS.store(4 * pool::CANCEL_LIMIT.as_millis() as u64, Ordering::SeqCst);
        work_until_exit();
        until(|| IN_DRIVER.load(Ordering::SeqCst) == 2);
        std::process::exit(0);
    };
    if let Some(output) = alone(test, body) {
        assert_eq!(output.status.code(), Some(7), "{output:?}");
    }
}

/// As LLVM does in a driver's first compile.
#[test]
fn exit_handlers_that_a_driver_registers_in_a_call_find_no_worker_in_it_either() {
    let test = "exit_handlers_that_a_driver_registers_in_a_call_find_no_worker_in_it_either";
    let body = || {
        let (owner, ends) = (pool::of_process().new_owner(), Ends::default());
        let task = || {
            // SAFETY: the handler is a function of this program.
            let register = |_inside| unsafe { libc::atexit(drivers_handler) };
            register(gate::enter_driver().unwrap());
            calls();
        };
        pool::queue(owner, ends.task(0, task));
        until(|| IN_DRIVER.load(Ordering::SeqCst) > 0);
        std::process::exit(0);
    };
    if let Some(output) = alone(test, body) {
        assert_eq!(output.status.code(), Some(8), "{output:?}");
    }
}

#[test]
fn a_device_that_is_destroyed_in_an_exit_handler_is_left() {
    let test = "a_device_that_is_destroyed_in_an_exit_handler_is_left";
    let body = || {
        let owner = work_until_exit();
        // SAFETY: the handler is a function of this program.
        unsafe { libc::atexit(programs_handler) };
        OWNER.set(owner).unwrap();
        std::process::exit(0);
    };
    if let Some(output) = alone(test, body) {
        assert_eq!(output.status.code(), Some(8), "nothing was left to cancel at exit: {output:?}");
    }
}

static OWNER: OnceLock<Owner> = OnceLock::new();

/// Destroys the device, as the destructor of a global object does.
extern "C" fn programs_handler() {
    if !OWNER.get().is_none_or(|owner| pool::leave(*owner)) {
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(6) };
    }
}

/// A signal handler that ends the process has interrupted a thread that holds the pool's lock.
#[test]
fn exit_in_a_signal_handler_does_not_wait_for_the_thread_that_it_has_interrupted() {
    extern "C" fn exits(_: libc::c_int) {
        // SAFETY: a program must not do this, but some do.
        unsafe { libc::exit(0) };
    }
    let test = "exit_in_a_signal_handler_does_not_wait_for_the_thread_that_it_has_interrupted";
    let body = || {
        OWNER.set(work_until_exit()).unwrap();
        pool::of_process().locked(|| {
            // SAFETY: the handler is a function of this program.
            unsafe {
                libc::signal(libc::SIGUSR1, exits as *const () as libc::sighandler_t);
                libc::raise(libc::SIGUSR1);
            }
        });
        unreachable!("the process has ended");
    };
    if let Some(output) = alone(test, body) {
        assert_eq!(output.status.code(), Some(8), "{output:?}");
    }
}

#[test]
fn a_driver_that_hangs_does_not_keep_the_process() {
    let test = "a_driver_that_hangs_does_not_keep_the_process";
    let body = || {
        let (owner, ends, entered) = (pool::of_process().new_owner(), Ends::default(), mpsc::channel());
        let hang = move || {
            let _inside = gate::enter_driver().unwrap();
            entered.0.send(()).unwrap();
            loop {
                std::thread::park();
            }
        };
        pool::queue(owner, ends.task(0, hang));
        entered.1.recv().unwrap();
        std::process::exit(7);
    };
    if let Some(output) = alone(test, body) {
        assert_eq!(output.status.code(), Some(7), "{output:?}");
    }
}

/// A driver that ends the process in the middle of a worker's call.
#[test]
fn exit_on_a_worker_does_not_wait_for_itself() {
    let test = "exit_on_a_worker_does_not_wait_for_itself";
    let body = || {
        let (owner, ends) = (pool::of_process().new_owner(), Ends::default());
        let exit = || {
            let _inside = gate::enter_driver().unwrap();
            std::process::exit(7);
        };
        pool::queue(owner, ends.task(0, exit));
        loop {
            std::thread::park();
        }
    };
    if let Some(output) = alone(test, body) {
        assert_eq!(output.status.code(), Some(7), "{output:?}");
    }
}

#[test]
fn where_no_thread_can_be_started_tasks_are_cancelled() {
    passes("where_no_thread_can_be_started_tasks_are_cancelled", || {
        let (owner, ends) = (pool::of_process().new_owner(), Ends::default());
        let (before, none) = (limit(None), libc::rlimit { rlim_cur: 1, rlim_max: libc::RLIM_INFINITY });
        limit(Some(none));
        (0..3).for_each(|number| pool::queue(owner, ends.task(number, || ())));
        limit(Some(before));
        assert!(ends.all().iter().all(|(_, end)| *end == Some(Cancelled::NoThread)), "{:?}", ends.all());
        assert_eq!(ends.all().len(), 3);
        pool::queue(owner, ends.task(3, || ()));
        until(|| ends.all().len() == 4);
        assert_eq!(ends.all()[3], (3, None));
        assert!(pool::leave(owner));
    });
}

/// Sets the limit of the address space, which threads need for their stacks. Gives the one before.
fn limit(new: Option<libc::rlimit>) -> libc::rlimit {
    let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both structures are on this stack.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_AS, &mut before), 0);
        if let Some(new) = new {
            assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &new), 0);
        }
    }
    before
}

#[test]
fn a_program_that_gives_no_task_has_no_worker_and_no_gate() {
    passes("a_program_that_gives_no_task_has_no_worker_and_no_gate", || {
        let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
        let before = threads();
        let owner = pool::of_process().new_owner();
        assert!(pool::is_allowed());
        {
            let _call = gate::program_call();
            assert!(!gate::of_process().has_calls());
        }
        assert!(pool::leave(owner));
        assert_eq!(threads(), before);
        static CALLED: AtomicBool = AtomicBool::new(false);
        let owner = pool::of_process().new_owner();
        let ends = Ends::default();
        pool::queue(owner, ends.task(0, || until(|| CALLED.load(Ordering::SeqCst))));
        {
            let _call = gate::program_call();
            assert!(gate::of_process().has_calls(), "there is a worker now");
        }
        CALLED.store(true, Ordering::SeqCst);
        assert!(pool::leave(owner));
        pool::join();
        assert_eq!(threads(), before, "the workers are joined");
    });
}
