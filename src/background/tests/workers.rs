//! Tests of workers: when they start and end, what they are, and what they wait for.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::{Duration, Instant};

use super::{Counter, Ends, PATIENCE, patient_pool, pool, pool_at, times, until};
use crate::background::gate::{self, Gate, YIELDS_FOR};
use crate::background::pauses;
use crate::background::pool::{Cancelled, Owner, Pool, Producer, Times, WORKERS};
use vkstash_model::background_mode::BackgroundMode;
use vkstash_model::variables::{self, Background};

#[derive(Default)]
struct Counting(Counter);

impl Producer for Counting {
    fn failed(&self) {
        self.0.add();
    }
}

#[test]
fn tasks_start_in_the_order_in_which_they_were_received() {
    let (pool, ends) = (pool(1), Ends::default());
    let owner = pool.new_owner();
    assert_eq!(pool.workers(), 0, "there is no work");
    (0..100).for_each(|number| pool.queue(owner, ends.task(number, || ())));
    until(|| ends.all().len() == 100);
    assert_eq!(ends.all(), (0..100).map(|number| (number, None)).collect::<Vec<_>>());
    assert!(pool.leave(owner));
    assert_eq!(pool.workers(), 0);
}

#[test]
fn the_list_of_variables_has_the_number_of_workers() {
    let is_it = |variable: &&variables::Variable| variable.name == variables::BACKGROUND_WORKERS;
    let values = variables::ALL.iter().find(is_it).unwrap().values;
    assert_eq!(values, format!("a number; {WORKERS} by default, 1 on one or two processors"));
}

#[test]
fn there_are_as_many_workers_as_tasks_and_not_more_than_allowed() {
    let (pool, ends, running) = (pool(2), Ends::default(), Counter::default());
    let (release, blocked) = mpsc::channel::<()>();
    let blocked = Arc::new(Mutex::new(blocked));
    let owner = pool.new_owner();
    for number in 0..3 {
        let (running, blocked) = (running.clone(), blocked.clone());
        let body = move || {
            running.add();
            let _ = blocked.lock().unwrap().recv();
        };
        pool.queue(owner, ends.task(number, body));
        assert_eq!(pool.workers(), (number + 1).min(2));
    }
    until(|| running.get() == 2);
    drop(release);
    until(|| running.get() == 3);
    assert!(pool.leave(owner));
    assert_eq!(pool.workers(), 0);
}

#[test]
fn an_idle_worker_ends_and_the_next_task_starts_another() {
    let (pool, ends) = (pool(2), Ends::default());
    let owner = pool.new_owner();
    for number in 0..2 {
        pool.queue(owner, ends.task(number, || ()));
        until(|| ends.all().len() == number + 1);
        // The worker may have ended before the test looks.
        assert!(pool.workers() <= 1);
        until(|| pool.workers() == 0);
    }
    assert!(pool.leave(owner));
}

/// Tasks are queued at about the time at which an idle worker ends.
#[test]
fn a_worker_that_ends_leaves_no_task_behind() {
    for workers in [1, 2] {
        let environment = Background { workers: Some(workers), ..Background::default() };
        let pool =
            Pool::new(&environment, Arc::default(), Times { idle: Duration::from_micros(200), ..times() });
        let (ends, owner) = (Ends::default(), pool.new_owner());
        for number in 0..3000 {
            let task = ends.task(number, || ());
            match number % 4 {
                0 => pool.queue_after(owner, Duration::from_micros(300), task),
                _ => pool.queue(owner, task),
            }
            if number % 2 == 0 {
                until(|| ends.all().len() == number + 1);
            }
            std::thread::sleep(Duration::from_micros(number as u64 * 7 % 400));
        }
        until(|| ends.all().len() == 3000);
        assert!(ends.all().iter().all(|(_, end)| end.is_none()));
        assert!(pool.leave(owner));
    }
}

#[test]
fn workers_that_become_idle_together_do_not_forget_a_later_task() {
    let environment = Background { workers: Some(2), ..Background::default() };
    let pool = Pool::new(&environment, Arc::default(), Times { idle: Duration::from_millis(1), ..times() });
    let (ends, owner) = (Ends::default(), pool.new_owner());
    for round in 0..20 {
        let together = Arc::new(Barrier::new(2));
        for number in 0..2 {
            let together = together.clone();
            pool.queue(owner, ends.task(3 * round + number, move || _ = together.wait()));
        }
        pool.queue_after(owner, Duration::from_millis(20), ends.task(3 * round + 2, || ()));
        until(|| ends.all().len() == 3 * round + 3);
    }
    assert!(pool.leave(owner));
}

/// Each of them takes the other for the one that waits.
#[test]
fn idle_workers_do_not_wait_for_each_other_when_a_later_task_is_due() {
    let (pool, ends) = (patient_pool(2), Ends::default());
    let owner = pool.new_owner();
    let together = Arc::new(Barrier::new(2));
    for number in 0..2 {
        let together = together.clone();
        pool.queue(owner, ends.task(number, move || _ = together.wait()));
    }
    until(|| ends.all().len() == 2);
    assert_eq!(pool.workers(), 2);
    pool.queue_after(owner, Duration::from_millis(20), ends.task(2, || ()));
    until(|| ends.all().len() == 3);
    assert!(pool.leave(owner));
}

static REGISTERED: AtomicUsize = AtomicUsize::new(0);

/// A handler that is registered at exit is never given back.
#[test]
fn a_process_registers_its_handler_once_however_many_workers_begin_until_a_library_is_loaded() {
    let gate = Arc::new(Gate::default());
    gate.after_calls(|| _ = REGISTERED.fetch_add(1, Ordering::SeqCst));
    for device in 0..200 {
        let pool = pool_at(&gate, 1);
        let (ends, owner) = (Ends::default(), pool.new_owner());
        pool.queue(owner, ends.task(device, || ()));
        until(|| ends.all().len() == 1);
        assert!(pool.leave(owner));
        pool.join();
    }
    assert!(
        REGISTERED.load(Ordering::SeqCst) <= 2,
        "{} for 200 devices; a test beside this one may load a library",
        REGISTERED.load(Ordering::SeqCst)
    );
    let before = REGISTERED.load(Ordering::SeqCst);
    // SAFETY: a library of the C library's, without constructors that matter.
    assert!(!unsafe { libc::dlopen(c"libresolv.so.2".as_ptr(), libc::RTLD_NOW) }.is_null());
    (0..10).for_each(|_| gate.begin_worker(&Arc::default()));
    assert_eq!(REGISTERED.load(Ordering::SeqCst), before + 1);
}

#[test]
fn a_worker_receives_no_signals_and_has_the_priorities_of_the_program() {
    let priorities = || {
        // SAFETY: the calls take numbers; 0 is the calling thread.
        let (policy, io) =
            unsafe { (libc::sched_getscheduler(0), libc::syscall(libc::SYS_ioprio_get, 1, 0)) };
        (policy, rustix::process::getpriority_process(None).unwrap(), io)
    };
    let (pool, ends) = (pool(1), Ends::default());
    let (send, found) = mpsc::channel();
    let look = move || {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap().trim();
        let name = std::thread::current().name().unwrap().to_owned();
        send.send((u64::from_str_radix(blocked, 16).unwrap(), priorities(), name)).unwrap();
    };
    let owner = pool.new_owner();
    pool.queue(owner, ends.task(0, look));
    let (blocked, its_own, name) = found.recv().unwrap();
    // The C library keeps two signals for itself.
    let never = [libc::SIGKILL, libc::SIGSTOP];
    let raised = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];
    for signal in (1..=31).chain(34..=64).filter(|signal| !never.contains(signal)) {
        let is_blocked = blocked & (1 << (signal - 1)) != 0;
        assert_eq!(is_blocked, !raised.contains(&signal), "{signal}: {blocked:x}");
    }
    assert_eq!((its_own, name.as_str()), (priorities(), "vkstash-worker"));
    assert!(pool.leave(owner));
}

#[test]
fn a_panic_is_counted_and_the_worker_goes_on() {
    let (pool, ends, counting) = (patient_pool(1), Ends::default(), Arc::new(Counting::default()));
    let owner = pool.new_owner();
    pool.register(owner, counting.clone());
    pool.queue(owner, ends.task(0, || panic!("on purpose")));
    pool.queue(owner, ends.task(1, || ()));
    until(|| ends.all().len() == 2);
    assert_eq!((counting.0.get(), pool.workers()), (1, 1));
    assert!(pool.leave(owner));
}

/// A task inside a driver, and whether it may enter again.
fn driver_call(
    entered: &mpsc::Sender<()>,
    release: mpsc::Receiver<()>,
    again: &Arc<AtomicBool>,
) -> impl FnOnce() + Send + 'static {
    let (entered, again) = (entered.clone(), again.clone());
    move || {
        let inside = gate::enter_driver().expect("the gate is open");
        entered.send(()).unwrap();
        let _ = release.recv();
        drop(inside);
        again.store(gate::enter_driver().is_some(), Ordering::SeqCst);
    }
}

#[test]
fn destroying_a_device_waits_for_the_call_under_way_only() {
    let (pool, ends) = (pool(1), Ends::default());
    let (owner, other) = (pool.new_owner(), pool.new_owner());
    let (entered, is_entered) = mpsc::channel();
    let (release, released) = mpsc::channel();
    let again = Arc::new(AtomicBool::new(true));
    pool.queue(owner, ends.task(0, driver_call(&entered, released, &again)));
    (1..10).for_each(|number| pool.queue(owner, ends.task(number, || ())));
    pool.queue(other, ends.task(10, || ()));
    is_entered.recv().unwrap();
    std::thread::scope(|scope| {
        let leaving = scope.spawn(|| pool.leave(owner));
        until(|| ends.all().len() == 10);
        assert!(!leaving.is_finished(), "the call is under way");
        release.send(()).unwrap();
        assert!(leaving.join().unwrap());
    });
    assert!(!again.load(Ordering::SeqCst), "the task had to end");
    pool.queue(owner, ends.task(11, || ()));
    until(|| ends.all().len() == 12);
    let why = |number: usize| ends.all().iter().find(|(of, _)| *of == number).unwrap().1;
    assert!((1..10).chain([11]).all(|number| why(number) == Some(Cancelled::DeviceDestroyed)));
    assert_eq!((why(0), why(10)), (None, None), "the other device's task is run");
    assert!(pool.leave(other));
    assert_eq!(pool.workers(), 0);
}

#[test]
fn a_task_that_destroys_its_own_device_does_not_wait_for_itself() {
    let (pool, ends) = (Arc::new(pool(1)), Ends::default());
    let owner = pool.new_owner();
    let (inner, (send, left)) = (pool.clone(), mpsc::channel());
    pool.queue(owner, ends.task(0, move || send.send(inner.leave(owner)).unwrap()));
    assert!(left.recv().unwrap());
    until(|| pool.workers() == 0);
}

#[test]
fn a_thousand_devices_leave_nothing() {
    let (pool, ends) = (pool(2), Ends::default());
    for number in 0..1000 {
        let owner = pool.new_owner();
        pool.queue(owner, ends.task(number, || ()));
        if number % 3 == 0 {
            pool.queue(owner, ends.task(1000 + number, || ()));
        }
        assert!(pool.leave(owner));
    }
    let mut numbers: Vec<_> = ends.all().into_iter().map(|(number, _)| number).collect();
    numbers.sort_unstable();
    let expected: Vec<_> = (0..1000).chain((0..1000).step_by(3).map(|number| 1000 + number)).collect();
    assert_eq!((numbers, pool.workers()), (expected, 0));
}

/// A worker may begin work for a device that is gone by then.
#[test]
fn work_that_was_not_registered_has_no_task_and_keeps_no_worker() {
    let (pool, ends) = (pool(1), Ends::default());
    let (owner, late) = (pool.new_owner(), Owner::new());
    pool.queue(owner, ends.task(0, || ()));
    until(|| ends.all().len() == 1);
    pool.queue(late, ends.task(1, || ()));
    assert_eq!(ends.all(), [(0, None), (1, Some(Cancelled::DeviceDestroyed))]);
    assert!(pool.leave(owner));
    assert_eq!(pool.workers(), 0);
}

#[test]
fn a_thousand_devices_at_once_share_the_workers() {
    let (pool, ends) = (pool(2), Ends::default());
    let owners: Vec<_> = (0..1000).map(|_| pool.new_owner()).collect();
    for (number, owner) in owners.iter().enumerate() {
        pool.queue(*owner, ends.task(number, || ()));
        assert!(pool.workers() <= 2);
    }
    until(|| ends.all().len() == 1000);
    assert!(owners.into_iter().all(|owner| pool.leave(owner)));
    assert_eq!(pool.workers(), 0);
}

#[test]
fn a_worker_lets_the_program_go_first_and_is_not_starved() {
    let gate = Arc::new(Gate::default());
    let (pool, ends) = (pool_at(&gate, 1), Ends::default());
    let owner = pool.new_owner();
    let (send, waited) = mpsc::channel();
    let call = gate.program_call();
    let began = Instant::now();
    let task = move || {
        let inside = gate::enter_driver();
        send.send((inside.is_some(), began.elapsed())).unwrap();
    };
    pool.queue(owner, ends.task(0, task));
    let (entered, waited) = waited.recv().unwrap();
    assert!(entered && waited >= YIELDS_FOR, "{waited:?}");
    drop(call);
    assert!(pool.leave(owner));
}

#[test]
fn a_task_that_waits_for_the_programs_calls_ends_with_its_device() {
    let gate = Arc::new(Gate::default());
    let (pool, ends) = (pool_at(&gate, 1), Ends::default());
    let owner = pool.new_owner();
    let (calls, barrier) = (Counter::default(), Arc::new(Barrier::new(2)));
    let _call = gate.program_call();
    let (counted, begun) = (calls.clone(), barrier.clone());
    let task = move || {
        begun.wait();
        while gate::enter_driver().is_some() {
            counted.add();
        }
    };
    pool.queue(owner, ends.task(0, task));
    barrier.wait();
    assert!(pool.leave(owner));
    let before = calls.get();
    assert_eq!((calls.get(), pool.workers()), (before, 0));
}

/// A worker that waits for a quiet moment.
#[test]
fn a_task_sees_whether_the_program_has_begun_a_call() {
    let gate = Arc::new(Gate::default());
    let (pool, ends) = (pool_at(&gate, 1), Ends::default());
    let owner = pool.new_owner();
    let look = |number| {
        let (send, seen) = mpsc::channel();
        pool.queue(owner, ends.task(number, move || send.send(gate::begun_calls()).unwrap()));
        seen.recv().unwrap()
    };
    let before = look(0).unwrap();
    assert_eq!(look(1), Some(before));
    let call = gate.program_call();
    assert_eq!(look(2), None, "one is under way");
    drop(call);
    let after = look(3).unwrap();
    assert_ne!(after, before);
    assert_eq!(look(4), Some(after));
    assert!(pool.leave(owner));
}

#[test]
fn without_workers_a_call_of_the_program_is_not_counted() {
    let _call = gate::program_call();
    assert!(!gate::of_process().has_calls());
}

/// Two devices: a driver call for the first one hangs.
#[test]
fn nobody_waits_for_ever_for_a_worker_that_hangs() {
    let environment = Background { workers: Some(1), ..Background::default() };
    let times = Times { in_driver: Duration::from_millis(20), ..Times::usual() };
    let pool = Pool::new(&environment, Arc::default(), times);
    let (ends, hangs, other) = (Ends::default(), pool.new_owner(), pool.new_owner());
    let (entered, is_entered) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    pool.queue(hangs, ends.task(1, driver_call(&entered, released, &Arc::default())));
    is_entered.recv().unwrap();
    assert!(!pool.leave(hangs), "its device must not be destroyed");
    assert!(pool.leave(other));
    let (send, joined) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pool.join();
            send.send(()).unwrap();
        });
        let joined = joined.recv_timeout(PATIENCE);
        drop(release);
        assert!(joined.is_ok(), "vkDestroyInstance waits for the worker");
    });
}

/// A pool of one worker with the times of a process.
fn pool_with_usual_times() -> Pool {
    let environment = Background { workers: Some(1), ..Background::default() };
    Pool::new(&environment, Arc::default(), Times::usual())
}

/// Its worker has been in no driver, or in one before.
#[test]
fn nobody_waits_for_a_task_that_is_in_no_driver() {
    for was_inside in [false, true] {
        let (pool, ends) = (pool_with_usual_times(), Ends::default());
        let owner = pool.new_owner();
        let (begun, has_begun) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let again = Arc::new(AtomicBool::new(true));
        let enters = again.clone();
        pool.queue(
            owner,
            ends.task(1, move || {
                drop(was_inside.then(gate::enter_driver));
                begun.send(()).unwrap();
                _ = released.recv();
                enters.store(gate::enter_driver().is_some(), Ordering::SeqCst);
            }),
        );
        has_begun.recv().unwrap();
        assert!(pool.leave(owner), "its device may be destroyed");
        std::thread::scope(|scope| {
            let joining = scope.spawn(|| pool.join());
            if was_inside {
                // The driver's library, with what it destroys at the end of a thread, goes away.
                std::thread::sleep(Duration::from_millis(50));
                assert!(!joining.is_finished());
            } else {
                until(|| joining.is_finished());
            }
            drop(release);
        });
        until(|| !again.load(Ordering::SeqCst));
    }
}

/// The settings are on a disk that does not answer.
#[test]
fn nobody_waits_for_a_task_whose_settings_are_read() {
    struct Settings(Mutex<mpsc::Receiver<()>>, mpsc::Sender<()>);
    impl Producer for Settings {
        fn stored_mode(&self) -> Option<BackgroundMode> {
            self.1.send(()).unwrap();
            _ = self.0.lock().unwrap().recv();
            None
        }
    }
    let (pool, ends) = (pool_with_usual_times(), Ends::default());
    let owner = pool.new_owner();
    let (release, released) = mpsc::channel();
    let (asked, is_asked) = mpsc::channel();
    pool.register(owner, Arc::new(Settings(Mutex::new(released), asked)));
    pool.queue(owner, ends.task(1, || ()));
    is_asked.recv().unwrap();
    assert!(pool.leave(owner));
    pool.join();
    assert!(ends.all().is_empty(), "the settings are not read yet");
    drop(release);
    until(|| ends.all() == [(1, Some(Cancelled::DeviceDestroyed))]);
}

#[test]
fn a_task_that_is_received_later_waits_for_its_time_and_is_cancelled_with_its_owner() {
    let pool = pool(2);
    let (ends, owner, other) = (Ends::default(), pool.new_owner(), pool.new_owner());
    let began = Instant::now();
    let delay = Duration::from_millis(1_300);
    pool.queue_after(owner, delay, ends.task(1, || {}));
    pool.queue_after(owner, Duration::from_secs(1_000), ends.task(2, || {}));
    pool.queue_after(other, Duration::from_secs(1_000), ends.task(3, || {}));
    assert!(pool.commit(Some(Box::new(|| {})), false).is_some(), "no commit waits for them");
    until(|| !ends.all().is_empty());
    assert_eq!(ends.all(), [(1, None)]);
    assert!(began.elapsed() >= delay);
    assert!(pool.leave(owner));
    assert_eq!(ends.all(), [(1, None), (2, Some(Cancelled::DeviceDestroyed))]);
    assert!(pool.leave(other));
    assert_eq!(ends.all().len(), 3);
    assert_eq!(pool.workers(), 0);
}

fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is on this stack; the clock exists on every system.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}

/// A piece of work.
fn compute() {
    let mut value = 1_u64;
    for _ in 0..1_000 {
        value = std::hint::black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

/// What a thread of a program has done in one stretch of time.
#[derive(Clone, Copy, Default)]
struct Stretch {
    pieces: f64,
    wall: f64,
    processor: f64,
}

/// Computes until the number of the stretch is `end`. Gives each stretch.
fn compute_in_stretches(stretch: &AtomicUsize, end: usize) -> Vec<Stretch> {
    let mut all = vec![Stretch::default(); end];
    let (mut now, mut began, mut before) = (0, Instant::now(), processor_time());
    while now < end {
        compute();
        all[now].pieces += 1.0;
        let next = stretch.load(Ordering::Relaxed);
        if next != now {
            let (ended, after) = (Instant::now(), processor_time());
            all[now].wall = (ended - began).as_secs_f64();
            all[now].processor = (after - before).as_secs_f64();
            (now, began, before) = (next, ended, after);
        }
    }
    all
}

/// Workers are busy, idle, idle, busy: a disturbance that lasts longer than a stretch meets both halves.
const ROUND: [bool; 4] = [true, false, false, true];
/// Long enough for every thread to have its turn.
const STRETCH: Duration = Duration::from_millis(300);

/// What the program loses in each round: of its work, and of its work in a unit of processor time.
#[derive(Default)]
struct Lost {
    work: Vec<f64>,
    speed: Vec<f64>,
}

/// Runs threads of a program beside workers, which compute in half of the stretches.
fn lost_to_workers(workers: usize, threads: usize, rounds: usize) -> Lost {
    let pool =
        Pool::new(&Background { workers: Some(workers), ..Background::default() }, Arc::default(), times());
    let (ends, owner) = (Ends::default(), pool.new_owner());
    let end = ROUND.len() * rounds;
    let stretch = Arc::new(AtomicUsize::new(0));
    for task in 0..2 {
        let stretch = stretch.clone();
        let work = move || loop {
            match stretch.load(Ordering::Relaxed) {
                now if now >= end => break,
                now if ROUND[now % ROUND.len()] => match pauses::pause() {
                    None => compute(),
                    Some(pause) => std::thread::sleep(pause),
                },
                _ => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        pool.queue(owner, ends.task(task, work));
    }
    let all: Vec<_> = std::thread::scope(|scope| {
        let program = || compute_in_stretches(&stretch, end);
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(program)).collect();
        for next in 1..=end {
            std::thread::sleep(STRETCH);
            stretch.store(next, Ordering::Relaxed);
        }
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(pool.leave(owner));
    let mut lost = Lost::default();
    for round in 0..rounds {
        // Pieces in a second, and in a second of processor time.
        let rate = |busy: bool, time: fn(&Stretch) -> f64| {
            let of_round = |thread: &Vec<Stretch>| {
                let stretches = thread.iter().copied().skip(round * ROUND.len());
                let half = stretches.zip(ROUND).filter(move |(_, is_busy)| *is_busy == busy);
                half.map(|(stretch, _)| stretch).collect::<Vec<_>>()
            };
            let half: Vec<_> = all.iter().flat_map(of_round).collect();
            half.iter().map(|s| s.pieces).sum::<f64>() / half.iter().map(time).sum::<f64>()
        };
        lost.work.push(1.0 - rate(true, |s| s.wall) / rate(false, |s| s.wall));
        lost.speed.push(1.0 - rate(true, |s| s.processor) / rate(false, |s| s.processor));
    }
    lost
}

/// Median and quartiles in percent.
fn percent(mut shares: Vec<f64>) -> String {
    shares.sort_by(f64::total_cmp);
    let at = |quarter: usize| 100.0 * shares[(shares.len() - 1) * quarter / 4];
    format!("{:5.2} % ({:.2} to {:.2})", at(2), at(1), at(3))
}

/// Prints a table: what threads of a program lose to workers that compute all the time. Without workers the figures
/// are the error of the method.
#[test]
#[ignore = "prints figures"]
fn what_busy_workers_get_beside_threads_that_compute() {
    let processors = std::thread::available_parallelism().unwrap().get();
    for (threads, workers) in [(1, 0), (1, 1), (1, 2), (processors, 0), (processors, 1), (processors, 2)] {
        let Lost { work, speed } = lost_to_workers(workers, threads, 40);
        println!(
            "{threads} threads of the program, {workers} workers, {processors} processors: loses {} of its work, \
             {} of its work in a unit of processor time",
            percent(work),
            percent(speed)
        );
    }
}
