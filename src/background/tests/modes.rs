//! The modes, the actions, and completion events.

use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, mpsc};

use super::{Counter, Ends, pool, times, until};
use crate::background::gate::Gate;
use crate::background::mode::{Action, Event, Mode, ModeError, set_in};
use crate::background::pool::{Cancelled, Owner, Pool, Producer};
use vkstash_model::variables::Background;

const DISABLED: Option<Cancelled> = Some(Cancelled::Disabled);

fn set(pool: &Pool, mode: Mode, action: Action) -> Result<(), ModeError> {
    set_in(pool, mode, action, None, || true)
}

/// A task that ends when the sender is dropped.
fn blocked(ends: &Ends, pool: &Pool, owner: Owner, number: usize) -> mpsc::Sender<()> {
    let (release, released) = mpsc::channel::<()>();
    pool.queue(owner, ends.task(number, move || _ = released.recv()));
    until(|| ends.all().iter().any(|(of, _)| *of == number));
    release
}

#[test]
fn where_work_is_disabled_new_tasks_are_cancelled_at_once_and_queued_ones_are_run() {
    for mode in [Mode::Disabled, Mode::Profiling] {
        let (pool, ends) = (pool(1), Ends::default());
        let owner = pool.new_owner();
        let release = blocked(&ends, &pool, owner, 0);
        pool.queue(owner, ends.task(1, || ()));
        set(&pool, mode, Action::KeepAll).unwrap();
        assert!(!pool.is_allowed());
        pool.queue(owner, ends.task(2, || ()));
        assert_eq!(ends.all(), [(0, None), (2, DISABLED)]);
        drop(release);
        until(|| ends.all().len() == 3);
        assert_eq!(ends.all()[2], (1, None));
        set(&pool, Mode::Intrusive, Action::KeepAll).unwrap();
        pool.queue(owner, ends.task(3, || ()));
        until(|| ends.all().len() == 4);
        assert_eq!((ends.all()[3], pool.mode(owner)), ((3, None), Mode::Intrusive));
        assert!(pool.leave(owner));
    }
}

#[test]
fn combinations_that_the_seed_forbids_are_typed_errors_and_change_nothing() {
    let (pool, ends) = (pool(1), Ends::default());
    let owner = pool.new_owner();
    let event = || Some(Event::Callback(Box::new(|| panic!("nobody waits"))));
    for action in [Action::KeepAll, Action::DiscardPrevious] {
        let answer = set_in(&pool, Mode::Allowed, action, event(), || true);
        assert_eq!(answer, Err(ModeError::EventWithoutCommit));
    }
    for (mode, action) in [
        (Mode::Disabled, Action::KeepAll),
        (Mode::Profiling, Action::CommitResults),
        (Mode::Allowed, Action::CommitResultsHighPriority),
    ] {
        let answer = set_in(&pool, mode, action, None, || false);
        assert!(matches!(answer, Err(ModeError::DeveloperModeNeeded(_))), "{answer:?}");
        set_in(&pool, mode, action, None, || true).unwrap();
        set(&pool, Mode::Allowed, Action::KeepAll).unwrap();
    }
    for action in [Action::KeepAll, Action::CommitResults, Action::DiscardPrevious] {
        for mode in [Mode::Allowed, Mode::Intrusive] {
            let never = || panic!("nobody needs to know");
            set_in(&pool, mode, action, None, never).unwrap();
        }
    }
    pool.queue(owner, ends.task(0, || ()));
    until(|| ends.all() == [(0, None)]);
    assert!(pool.leave(owner));
}

#[test]
fn an_event_comes_once_all_tasks_of_the_commit_are_run_or_cancelled() {
    for cancelled in [false, true] {
        let (pool, ends, told) = (pool(1), Ends::default(), Counter::default());
        let (owner, other) = (pool.new_owner(), pool.new_owner());
        let release = blocked(&ends, &pool, other, 0);
        pool.queue(owner, ends.task(1, || ()));
        let (count, seen) = (told.clone(), ends.clone());
        let callback = Box::new(move || {
            let ended: Vec<_> = seen.all().iter().map(|(number, _)| *number).collect();
            assert!(ended.contains(&0) && ended.contains(&1) && !ended.contains(&2), "{ended:?}");
            count.add();
        });
        set_in(&pool, Mode::Allowed, Action::CommitResults, Some(Event::Callback(callback)), || false)
            .unwrap();
        if cancelled {
            assert!(pool.leave(owner));
        }
        assert_eq!(told.get(), 0);
        let later = blocked_behind(&ends, &pool, other, 2);
        drop(release);
        until(|| told.get() == 1);
        drop(later);
        assert!(pool.leave(other) && (cancelled || pool.leave(owner)));
        assert_eq!((told.get(), ends.all().len()), (1, 3));
    }
}

/// As [`blocked`], behind tasks that are still blocked.
fn blocked_behind(ends: &Ends, pool: &Pool, owner: Owner, number: usize) -> mpsc::Sender<()> {
    let (release, released) = mpsc::channel::<()>();
    let ends = ends.clone();
    // Noted when it ends, so that an event in between finds nothing.
    struct Blocked(Ends, usize, mpsc::Receiver<()>);
    impl crate::background::pool::Task for Blocked {
        fn name(&self) -> &'static str {
            "late"
        }
        fn run(self: Box<Self>) {
            let _ = self.2.recv();
            self.0.push(self.1, None);
        }
        fn cancel(self: Box<Self>, why: Cancelled) {
            self.0.push(self.1, Some(why));
        }
    }
    pool.queue(owner, Box::new(Blocked(ends, number, released)));
    release
}

#[test]
fn a_task_that_was_queued_after_a_commit_does_not_complete_it() {
    let (pool, ends, told) = (pool(2), Ends::default(), Counter::default());
    let owner = pool.new_owner();
    let release = blocked(&ends, &pool, owner, 0);
    let count = told.clone();
    let event = Event::Callback(Box::new(move || count.add()));
    set_in(&pool, Mode::Allowed, Action::CommitResults, Some(event), || false).unwrap();
    // The second has ended when the third starts, on the same worker.
    (1..3).for_each(|number| pool.queue(owner, ends.task(number, || ())));
    until(|| ends.all().len() == 3);
    assert_eq!(told.get(), 0);
    drop(release);
    until(|| told.get() == 1);
    assert!(pool.leave(owner));
}

/// Tasks that each queue the next one, and note the name of the thread that runs them. The first waits for the sender.
fn chain(pool: &Arc<Pool>, owner: Owner, ends: &Ends, number: usize, first: mpsc::Receiver<()>) -> Names {
    let names = Names::default();
    link(pool, owner, ends, (number, number + 3), Some(first), &names);
    names
}

type Names = Arc<Mutex<Vec<String>>>;

fn link(
    pool: &Arc<Pool>,
    owner: Owner,
    ends: &Ends,
    (number, last): (usize, usize),
    first: Option<mpsc::Receiver<()>>,
    names: &Names,
) {
    let (weak, more, noted) = (Arc::downgrade(pool), ends.clone(), names.clone());
    let body = move || {
        if let Some(first) = first {
            let _ = first.recv();
        } else {
            noted.lock().unwrap().push(std::thread::current().name().unwrap().to_owned());
        }
        if number < last {
            let pool = weak.upgrade().unwrap();
            link(&pool, owner, &more, (number + 1, last), None, &noted);
        }
    };
    pool.queue(owner, ends.task(number, body));
}

#[test]
fn a_commit_waits_for_what_its_tasks_queue_also_where_work_is_disabled_then() {
    for (mode, action) in [
        (Mode::Allowed, Action::CommitResults),
        (Mode::Disabled, Action::CommitResults),
        (Mode::Profiling, Action::CommitResultsHighPriority),
    ] {
        let (pool, ends, told) = (Arc::new(pool(2)), Ends::default(), Counter::default());
        let owner = pool.new_owner();
        let [(first, waits), (second, also)] = [(); 2].map(|()| mpsc::channel());
        let (_, _) = (chain(&pool, owner, &ends, 0, waits), chain(&pool, owner, &ends, 10, also));
        until(|| ends.all().len() == 2);
        let (count, seen) = (told.clone(), ends.clone());
        let event = Event::Callback(Box::new(move || {
            assert_eq!(seen.all().iter().filter(|(number, _)| *number < 20).count(), 8, "{:?}", seen.all());
            count.add();
        }));
        set_in(&pool, mode, action, Some(event), || true).unwrap();
        drop(first);
        until(|| ends.all().len() == 5);
        assert_eq!(told.get(), 0);
        let (third, later) = mpsc::channel();
        chain(&pool, owner, &ends, 20, later);
        drop(second);
        until(|| told.get() == 1);
        drop(third);
        // What comes after the commit is no part of it.
        let allowed = mode.allows_work();
        until(|| ends.all().len() == if allowed { 12 } else { 9 });
        let cancelled: Vec<_> = ends.all().into_iter().filter(|(_, end)| end.is_some()).collect();
        assert_eq!(cancelled, if allowed { vec![] } else { vec![(20, DISABLED)] });
        assert!(pool.leave(owner));
    }
}

#[test]
fn without_a_commit_a_successor_is_a_new_task() {
    let (pool, ends) = (Arc::new(pool(1)), Ends::default());
    let owner = pool.new_owner();
    let (first, waits) = mpsc::channel();
    chain(&pool, owner, &ends, 0, waits);
    until(|| ends.all().len() == 1);
    set(&pool, Mode::Disabled, Action::KeepAll).unwrap();
    drop(first);
    until(|| ends.all().len() == 2);
    assert_eq!(ends.all(), [(0, None), (1, DISABLED)]);
    assert!(pool.leave(owner));
}

#[test]
fn a_commit_without_tasks_is_complete_at_once() {
    let (pool, told) = (pool(1), Counter::default());
    let count = told.clone();
    let event = Event::Callback(Box::new(move || count.add()));
    set_in(&pool, Mode::Allowed, Action::CommitResults, Some(event), || false).unwrap();
    assert_eq!((told.get(), pool.workers()), (1, 0));
}

fn eventfd() -> OwnedFd {
    // SAFETY: a new descriptor, which this test owns.
    unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)) }
}

fn read(descriptor: &OwnedFd) -> Option<u64> {
    let mut value = [0; 8];
    (rustix::io::read(descriptor, &mut value) == Ok(8)).then(|| u64::from_ne_bytes(value))
}

#[test]
fn a_descriptor_gets_one_event_although_the_program_has_closed_its_own() {
    let (pool, ends, kept) = (pool(1), Ends::default(), eventfd());
    let owner = pool.new_owner();
    let programs = kept.try_clone().unwrap();
    let release = blocked(&ends, &pool, owner, 0);
    let event = Event::descriptor(programs.as_fd()).unwrap();
    drop(programs);
    set_in(&pool, Mode::Allowed, Action::CommitResults, Some(event), || false).unwrap();
    assert_eq!(read(&kept), None);
    drop(release);
    let value = OnceLock::new();
    until(|| read(&kept).is_some_and(|found| value.set(found).is_ok()));
    assert_eq!(value.get(), Some(&1));
    assert!(pool.leave(owner));
    assert_eq!(read(&kept), None);
}

#[test]
fn a_descriptor_that_takes_nothing_delays_nobody() {
    let mut ends = [0; 2];
    // SAFETY: the array has room for two descriptors, which this test owns.
    let [reader, writer] = unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        ends.map(|fd| OwnedFd::from_raw_fd(fd))
    };
    // A full pipe, and then one without a reader.
    // SAFETY: sets the flags of this test's descriptor.
    unsafe { libc::fcntl(ends[1], libc::F_SETFL, libc::O_NONBLOCK) };
    while rustix::io::write(&writer, &[0; 4096]).is_ok() {}
    // SAFETY: sets the flags of this test's descriptor, which `writer` keeps open.
    unsafe { libc::fcntl(ends[1], libc::F_SETFL, 0) };
    let (pool, event) = (pool(1), || Event::descriptor(writer.as_fd()).unwrap());
    set_in(&pool, Mode::Allowed, Action::CommitResults, Some(event()), || false).unwrap();
    drop(reader);
    set_in(&pool, Mode::Allowed, Action::CommitResults, Some(event()), || false).unwrap();
}

/// Queues a task when it is told to commit.
struct Eager {
    pool: Pool,
    owner: OnceLock<Owner>,
    ends: Ends,
    told: Counter,
    forgotten: Counter,
}

impl Producer for Eager {
    fn commit(&self) {
        let number = self.told.0.fetch_add(1, Ordering::SeqCst);
        self.pool.queue(*self.owner.get().unwrap(), self.ends.task(number, || ()));
    }

    fn discard(&self) {
        self.forgotten.add();
    }
}

fn eager() -> (Arc<Eager>, Owner) {
    let (ends, told, forgotten) = (Ends::default(), Counter::default(), Counter::default());
    let eager = Arc::new(Eager { pool: pool(1), owner: OnceLock::new(), ends, told, forgotten });
    let owner = eager.pool.new_owner();
    eager.owner.set(owner).unwrap();
    eager.pool.register(owner, eager.clone());
    (eager, owner)
}

#[test]
fn what_a_commit_causes_is_run_before_work_is_disabled() {
    let (eager, owner) = eager();
    let told = Counter::default();
    // The second time work is disabled already.
    for number in 0..2 {
        let count = told.clone();
        let event = Event::Callback(Box::new(move || count.add()));
        let action = Action::CommitResultsHighPriority;
        set_in(&eager.pool, Mode::Disabled, action, Some(event), || true).unwrap();
        eager.pool.queue(owner, eager.ends.task(10 + number, || ()));
        until(|| told.get() == number + 1);
        let end = |of: usize| eager.ends.all().iter().find(|(number, _)| *number == of).unwrap().1;
        assert_eq!((end(number), end(10 + number)), (None, DISABLED));
    }
    assert!(eager.pool.leave(owner));
}

#[test]
fn measurements_are_forgotten_on_request() {
    let (eager, owner) = eager();
    let told_after = |action| {
        set(&eager.pool, Mode::Intrusive, action).unwrap();
        (eager.told.get(), eager.forgotten.get())
    };
    assert_eq!(told_after(Action::KeepAll), (0, 0));
    assert_eq!(told_after(Action::DiscardPrevious), (0, 1));
    assert_eq!(told_after(Action::CommitResults), (1, 1));
    assert!(eager.pool.leave(owner));
    assert_eq!(told_after(Action::CommitResults), (1, 1), "nobody is left");
}

/// The only worker is blocked, so others must have run the rest.
#[test]
fn a_commit_at_high_priority_gets_more_workers_at_normal_priority_until_it_is_done() {
    let (pool, ends, told) = (pool(1), Ends::default(), Counter::default());
    let owner = pool.new_owner();
    let release = blocked(&ends, &pool, owner, 0);
    let (send, found) = mpsc::channel();
    for number in 1..4 {
        let send = send.clone();
        let look = move || send.send(rustix::process::getpriority_process(None).unwrap()).unwrap();
        pool.queue(owner, ends.task(number, look));
    }
    let count = told.clone();
    let event = Event::Callback(Box::new(move || count.add()));
    let action = Action::CommitResultsHighPriority;
    set_in(&pool, Mode::Allowed, action, Some(event), || true).unwrap();
    until(|| ends.all().len() == 4);
    let own = rustix::process::getpriority_process(None).unwrap();
    assert!((0..3).all(|_| found.recv().unwrap() == own));
    assert_eq!(told.get(), 0, "the blocked task belongs to it");
    drop(release);
    until(|| told.get() == 1);
    until(|| pool.workers() <= 1);
    assert!(pool.leave(owner));
}

struct Stored(Mode, Counter);

impl Producer for Stored {
    fn stored_mode(&self) -> Option<Mode> {
        self.1.add();
        Some(self.0)
    }
}

#[test]
fn the_users_mode_is_read_once_and_a_program_cannot_lift_it() {
    for (mode, runs) in [(Mode::Allowed, true), (Mode::Disabled, false), (Mode::Profiling, false)] {
        let (pool, ends, asked) = (pool(1), Ends::default(), Counter::default());
        let (owner, other) = (pool.new_owner(), pool.new_owner());
        pool.register(owner, Arc::new(Stored(mode, asked.clone())));
        assert_eq!(asked.get(), 0, "a worker asks");
        (0..5).for_each(|number| pool.queue(owner, ends.task(number, || ())));
        until(|| ends.all().len() == 5);
        assert!(ends.all().iter().all(|(_, end)| end.is_none() == runs), "{:?}", ends.all());
        set(&pool, Mode::Intrusive, Action::KeepAll).unwrap();
        pool.queue(owner, ends.task(5, || ()));
        until(|| ends.all().len() == 6);
        assert_eq!(ends.all()[5].1.is_none(), runs);
        assert_eq!(pool.mode(owner), if runs { Mode::Intrusive } else { mode });
        pool.queue(other, ends.task(6, || ()));
        until(|| ends.all().len() == 7);
        assert_eq!((ends.all()[6], asked.get()), ((6, None), 1), "the other application allows it");
        assert!(pool.leave(owner) && pool.leave(other));
    }
}

#[test]
fn the_environment_comes_before_the_settings() {
    for (chosen, stored) in [(Mode::Disabled, Mode::Allowed), (Mode::Allowed, Mode::Disabled)] {
        let environment = Background { mode: Some(chosen), workers: Some(1), developer_mode: false };
        let pool = Pool::new(&environment, Arc::new(Gate::default()), times());
        let (ends, owner) = (Ends::default(), pool.new_owner());
        pool.register(owner, Arc::new(Stored(stored, Counter::default())));
        set(&pool, Mode::Allowed, Action::KeepAll).unwrap();
        pool.queue(owner, ends.task(0, || ()));
        until(|| ends.all().len() == 1);
        assert_eq!(ends.all()[0].1.is_none(), chosen.allows_work());
        assert_eq!((pool.mode(owner), pool.is_allowed()), (chosen, chosen.allows_work()));
        assert!(pool.leave(owner));
    }
}

#[test]
fn no_workers_means_no_work() {
    let (pool, ends) = (pool(0), Ends::default());
    let owner = pool.new_owner();
    set(&pool, Mode::Allowed, Action::KeepAll).unwrap();
    pool.queue(owner, ends.task(0, || ()));
    assert_eq!((ends.all(), pool.is_allowed()), (vec![(0, DISABLED)], false));
    assert!(pool.leave(owner));
}
