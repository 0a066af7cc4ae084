//! Deferred operations: the threads that join do the work.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ash::vk;

use crate::config::{self, Deferral};
use crate::record::Call;

/// Work that was deferred.
pub trait Work: Debug + Send + Sync {
    /// Number of threads that can work in parallel.
    fn tasks(&self) -> usize;

    /// Does one task, once.
    fn run(&self, call: &mut Call, task: usize) -> vk::Result;
}

#[derive(Debug)]
enum State {
    /// No work was deferred.
    Empty,
    /// Numbers of tasks that were started and done, and their results in the order of tasks.
    Running {
        work: Arc<dyn Work>,
        started: usize,
        done: usize,
        results: Vec<vk::Result>,
    },
    Done(vk::Result),
}

/// A VkDeferredOperationKHR.
#[derive(Debug)]
pub struct Operation(Mutex<State>);

impl Operation {
    /// An operation without work.
    pub fn empty() -> Operation {
        Operation(Mutex::new(State::Empty))
    }

    /// Takes work for the threads that join. False: it still had some, which is dropped.
    pub fn begin(&self, work: Arc<dyn Work>) -> bool {
        let results = vec![vk::Result::SUCCESS; work.tasks()];
        let mut state = self.state();
        let idle = !matches!(*state, State::Running { .. });
        *state = State::Running { work, started: 0, done: 0, results };
        idle
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until every task has been started.
    pub fn join(&self, call: &mut Call) -> vk::Result {
        loop {
            let (work, task) = match &mut *self.state() {
                State::Running { work, started, .. } if *started < work.tasks() => {
                    *started += 1;
                    (work.clone(), *started - 1)
                }
                State::Running { .. } => return vk::Result::THREAD_DONE_KHR,
                State::Empty | State::Done(_) => return vk::Result::SUCCESS,
            };
            let result = match config::current().deferral {
                Deferral::Fails => vk::Result::from_raw(config::current().deferral_error),
                _ => work.run(call, task),
            };
            let mut state = self.state();
            if let State::Running { work, done, results, .. } = &mut *state {
                results[task] = result;
                *done += 1;
                if *done == work.tasks() {
                    let not_success = |result: &&vk::Result| **result != vk::Result::SUCCESS;
                    let worst = results.iter().min().copied().filter(|result| result.as_raw() < 0);
                    let first = results.iter().find(not_success).copied();
                    *state = State::Done(worst.or(first).unwrap_or(vk::Result::SUCCESS));
                    drop(state);
                    // Other threads can see the result before this call returns.
                    std::thread::sleep(Duration::from_millis(config::current().join_lingers_ms));
                    return vk::Result::SUCCESS;
                }
            }
        }
    }

    /// The result of the work.
    pub fn result(&self) -> vk::Result {
        match &*self.state() {
            State::Empty => vk::Result::SUCCESS,
            State::Running { .. } => vk::Result::NOT_READY,
            State::Done(result) => *result,
        }
    }

    /// Number of threads that could still join.
    pub fn concurrency(&self) -> u32 {
        match &*self.state() {
            State::Running { work, started, .. } => (work.tasks() - started) as u32,
            State::Empty | State::Done(_) => 0,
        }
    }
}
