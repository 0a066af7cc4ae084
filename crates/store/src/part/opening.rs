//! A part is opened by a thread of its own, and the program's thread waits for that no longer than it may.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::base::thread;
use crate::base::util::lock;

/// Between two looks at a thread that has used up its time, and is not waiting for the disk.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// So many times the limit nobody waits for a thread, whatever it does.
const AT_MOST: u32 = 20;

enum State<T> {
    /// Somebody waits for the outcome.
    Awaited,
    /// Nobody does any more.
    Abandoned,
    Done(T),
}

struct Work<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    /// The number of the thread, as soon as it runs.
    thread: AtomicI32,
}

/// What came of waiting.
pub(crate) enum Waited<T> {
    /// The thread is done.
    Done(T),
    /// The time is over, and the thread goes on.
    GoesOn,
    /// The system refuses the thread.
    NoThread,
}

/// Has `work` done by a thread of ours and waits for it: for `limit`, or longer while that thread computes or waits for a
/// processor, as this one would have to. `late` gets the outcome if nobody waits any more.
pub(crate) fn beside<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
    late: impl FnOnce(T) + Send + 'static,
) -> Waited<T> {
    let shared = Arc::new(Work {
        state: Mutex::new(State::Awaited),
        changed: Condvar::new(),
        thread: AtomicI32::new(0),
    });
    let theirs = shared.clone();
    let body = move || {
        theirs.thread.store(thread::number(), Ordering::Relaxed);
        let outcome = work();
        let mut state = lock(&theirs.state);
        if matches!(*state, State::Awaited) {
            *state = State::Done(outcome);
            theirs.changed.notify_all();
        } else {
            drop(state);
            late(outcome);
        }
    };
    if thread::spawn("vkstash-open", body).is_none() {
        return Waited::NoThread;
    }
    let began = Instant::now();
    let mut wait = limit;
    let mut state = lock(&shared.state);
    loop {
        let is_awaited = |state: &mut State<T>| matches!(state, State::Awaited);
        let waited = shared.changed.wait_timeout_while(state, wait, is_awaited);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
        let number = shared.thread.load(Ordering::Relaxed);
        let over = || began.elapsed() >= limit * AT_MOST || number != 0 && thread::is_waiting(number);
        if matches!(*state, State::Awaited) && !over() {
            wait = LOOK_EVERY;
            continue;
        }
        return match std::mem::replace(&mut *state, State::Abandoned) {
            State::Done(outcome) => Waited::Done(outcome),
            State::Awaited | State::Abandoned => Waited::GoesOn,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const LIMIT: Duration = Duration::from_millis(10);

    #[test]
    fn who_is_done_in_time_is_waited_for_and_who_waits_for_the_disk_is_not() {
        let in_time = beside(Duration::from_secs(60), || 7, |_| ());
        assert!(matches!(in_time, Waited::Done(7)));
        let (go_on, ask) = mpsc::channel::<()>();
        let (send, receive) = mpsc::channel();
        let waits = move || {
            let _ = ask.recv();
            8
        };
        let outcome = beside(LIMIT, waits, move |late| assert!(send.send(late).is_ok()));
        assert!(matches!(outcome, Waited::GoesOn));
        drop(go_on);
        assert_eq!(receive.recv(), Ok(8), "what comes too late is not lost");
    }

    #[test]
    fn who_computes_is_waited_for() {
        let computes = || {
            let began = Instant::now();
            while began.elapsed() < 3 * LIMIT {
                std::hint::spin_loop();
            }
        };
        assert!(matches!(beside(LIMIT, computes, |()| ()), Waited::Done(())));
    }
}
