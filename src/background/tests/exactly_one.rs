//! Each task ends in exactly one of run and cancel, whatever happens in which order.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;

use super::{Counter, Ends, until};
use crate::background::gate;
use crate::background::pool::{Event, Owner, Pool, Task, Times};
use vkstash_model::background_mode::BackgroundMode;
use vkstash_model::variables::Background;

/// What a task does.
#[derive(Clone, Copy, Debug)]
enum Body {
    Nothing,
    Calls(u8),
    Panics,
    Queues,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Enter,
    Queue(usize, Body),
    Later(usize, u8, Body),
    Leave(usize),
    Mode(bool),
    Commit(bool),
    Pause,
}

fn step() -> impl Strategy<Value = Step> {
    let body = prop_oneof![
        4 => Just(Body::Nothing),
        4 => (1..4_u8).prop_map(Body::Calls),
        1 => Just(Body::Panics),
        1 => Just(Body::Queues),
    ];
    prop_oneof![
        2 => Just(Step::Enter),
        16 => (0..8_usize, body.clone()).prop_map(|(owner, body)| Step::Queue(owner, body)),
        4 => (0..8_usize, 0..4_u8, body).prop_map(|(owner, ms, body)| Step::Later(owner, ms, body)),
        2 => (0..8_usize).prop_map(Step::Leave),
        1 => any::<bool>().prop_map(Step::Mode),
        2 => any::<bool>().prop_map(Step::Commit),
        2 => Just(Step::Pause),
    ]
}

/// What the threads of one case share.
struct Case {
    pool: Pool,
    ends: Ends,
    queued: Counter,
    committed: Counter,
    signalled: Counter,
    left: Mutex<HashSet<Owner>>,
    used_after_end: Counter,
}

impl Case {
    fn queue(self: &Arc<Case>, owner: Owner, body: Body) {
        self.pool.queue(owner, self.task(owner, body));
    }

    fn task(self: &Arc<Case>, owner: Owner, body: Body) -> Box<dyn Task> {
        let (case, number) = (self.clone(), self.queued.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst));
        let run = move || match body {
            Body::Nothing => {}
            Body::Calls(calls) => {
                for _ in 0..calls {
                    let Some(_inside) = gate::enter_driver() else { return };
                    case.check_alive(owner);
                    std::thread::sleep(Duration::from_micros(50));
                    case.check_alive(owner);
                }
            }
            Body::Panics => panic!("on purpose"),
            Body::Queues => case.queue(owner, Body::Nothing),
        };
        self.ends.task(number, run)
    }

    fn leave(&self, owner: Owner) {
        assert!(self.pool.leave(owner));
        self.left.lock().unwrap().insert(owner);
    }

    /// For a task that is in a driver: its device is not destroyed.
    fn check_alive(&self, owner: Owner) {
        if self.left.lock().unwrap().contains(&owner) {
            self.used_after_end.add();
        }
    }

    fn take(self: &Arc<Case>, steps: &[Step]) {
        let mut owners = vec![self.pool.new_owner()];
        for step in steps {
            match *step {
                Step::Enter => owners.push(self.pool.new_owner()),
                // Also for an owner that has left.
                Step::Queue(owner, body) => self.queue(owners[owner % owners.len()], body),
                Step::Later(owner, ms, body) => {
                    let owner = owners[owner % owners.len()];
                    self.pool.queue_after(owner, Duration::from_millis(ms.into()), self.task(owner, body));
                }
                Step::Leave(owner) => self.leave(owners[owner % owners.len()]),
                Step::Mode(true) => self.pool.set_mode(BackgroundMode::Allowed, false),
                Step::Mode(false) => self.pool.set_mode(BackgroundMode::Disabled, false),
                Step::Commit(is_urgent) => {
                    self.committed.add();
                    let signalled = self.signalled.clone();
                    let event: Event = Box::new(move || signalled.add());
                    if let Some(reached) = self.pool.commit(Some(event), is_urgent) {
                        reached();
                    }
                }
                Step::Pause => std::thread::sleep(Duration::from_micros(100)),
            }
        }
        owners.into_iter().for_each(|owner| self.leave(owner));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn whatever_happens_in_which_order(
        threads in prop::collection::vec(prop::collection::vec(step(), 0..60), 1..4),
        workers in 0..4_usize,
    ) {
        let (ends, counter) = (Ends::default(), Counter::default);
        let (queued, committed, signalled) = (counter(), counter(), counter());
        // Workers end all the time.
        let environment = Background { workers: Some(workers), ..Background::default() };
        let times = Times { idle: Duration::from_micros(100), ..Times::usual() };
        let pool = Pool::new(&environment, Arc::default(), times);
        let (left, used_after_end) = (Mutex::default(), counter());
        let case = Arc::new(Case { pool, ends, queued, committed, signalled, left, used_after_end });
        std::thread::scope(|scope| {
            for steps in &threads {
                scope.spawn(|| case.take(steps));
            }
        });
        // No one waits for a worker that is in no driver: it ends its task, and signals events, after the
        // last owner has left.
        case.pool.join();
        until(|| {
            let is_over = case.ends.all().len() >= case.queued.get() && case.pool.workers() == 0;
            is_over && case.signalled.get() >= case.committed.get()
        });
        let mut times = BTreeMap::<usize, usize>::new();
        case.ends.all().into_iter().for_each(|(number, _)| *times.entry(number).or_default() += 1);
        prop_assert_eq!(times.len(), case.queued.get(), "each task has ended");
        prop_assert!(times.values().all(|times| *times == 1), "{:?}", times);
        prop_assert_eq!(case.signalled.get(), case.committed.get());
        prop_assert_eq!(case.pool.workers(), 0);
        prop_assert_eq!(case.used_after_end.get(), 0, "in a driver after its device was destroyed");
    }
}
