//! The worker pool with tasks that do what a test says. Drivers are only pretended to be called.

mod exactly_one;
mod modes;
mod processes;
mod workers;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::gate::Gate;
use super::pool::{Cancelled, Pool, Task, Times};
use vkstash_model::variables::Background;

/// A task's number, and why it was cancelled if it was not run.
type End = (usize, Option<Cancelled>);

/// What became of tasks, in the order in which it happened.
#[derive(Clone, Default)]
pub(super) struct Ends(Arc<Mutex<Vec<End>>>);

impl Ends {
    /// A task that runs `body`.
    fn task(&self, number: usize, body: impl FnOnce() + Send + 'static) -> Box<dyn Task> {
        Box::new(Told { number, ends: self.clone(), body })
    }

    fn push(&self, number: usize, end: Option<Cancelled>) {
        self.0.lock().unwrap().push((number, end));
    }

    fn all(&self) -> Vec<End> {
        self.0.lock().unwrap().clone()
    }
}

struct Told<F> {
    number: usize,
    ends: Ends,
    body: F,
}

impl<F: FnOnce() + Send> Task for Told<F> {
    fn name(&self) -> &'static str {
        "test"
    }

    fn run(self: Box<Self>) {
        // Noted first: the body may panic.
        self.ends.push(self.number, None);
        (self.body)();
    }

    fn cancel(self: Box<Self>, why: Cancelled) {
        self.ends.push(self.number, Some(why));
    }
}

/// The times of a process, except for a task that runs: however slow it is, it has ended when its owner has left.
fn times() -> Times {
    Times { outside: PATIENCE, ..Times::usual() }
}

/// A pool of its own, without the process's handlers.
fn pool(workers: usize) -> Pool {
    pool_at(&Arc::new(Gate::default()), workers)
}

/// A pool whose idle workers stay, however late the test looks.
fn patient_pool(workers: usize) -> Pool {
    let environment = Background { workers: Some(workers), ..Background::default() };
    Pool::new(&environment, Arc::default(), Times { idle: PATIENCE, ..times() })
}

fn pool_at(gate: &Arc<Gate>, workers: usize) -> Pool {
    Pool::new(&Background { workers: Some(workers), ..Background::default() }, gate.clone(), times())
}

/// A limit for waiting; no test measures with it.
const PATIENCE: Duration = Duration::from_secs(500);

/// Waits for something that another thread does.
fn until(condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "it does not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A counter that the threads of a test share.
#[derive(Clone, Default)]
struct Counter(Arc<AtomicUsize>);

impl Counter {
    fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}
