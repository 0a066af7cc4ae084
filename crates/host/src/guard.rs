//! The one place where panics end: nothing unwinds into the loader, the driver or the program.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use crate::once::{Once, OnceLock};
use crate::{signals, unwinding};

/// Runs `body`; if it panics, `fallback` decides what the program gets. State behind the panic is either
/// atomic, behind a lock that tolerates poisoning, or local, so going on is safe.
pub fn guard<R>(command: &'static str, body: impl FnOnce() -> R, fallback: impl FnOnce() -> R) -> R {
    guard_within(&signals::Uncancelled::begin(), command, body, fallback)
}

/// [`guard`] on a thread that cannot be cancelled anyway: it could end at a system call of the layer's, with what the
/// layer holds. Hooks that run for each pipeline switch cancellation off once.
pub fn guard_within<R>(
    _: &signals::Uncancelled,
    command: &'static str,
    body: impl FnOnce() -> R,
    fallback: impl FnOnce() -> R,
) -> R {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        say(|| tracing::error!("internal failure in {command}; the driver gets the call"));
        fallback()
    })
}

/// Runs work that no thread waits for. False: it panicked.
pub fn contained(work: &'static str, body: impl FnOnce()) -> bool {
    // The thread may be one of the program's, as in `guard`.
    let _uncancelled = signals::Uncancelled::begin();
    let ended = catch_unwind(AssertUnwindSafe(body)).is_ok();
    if !ended {
        say(|| tracing::error!("internal failure in {work}"));
    }
    ended
}

/// What begins the log, where that has not happened yet.
static LOG: OnceLock<fn()> = OnceLock::new();

/// Logging is code too; a panic in here would abort the program.
fn say(line: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        LOG.get().into_iter().for_each(|begin| begin());
        line();
    }));
}

/// What must be so before anything else of this library runs in the program. The message of a panic goes to standard
/// error, past the log, and raises no signal there: this library's copy of the standard library has a hook of its own,
/// which the program does not share. And a thread that ends inside the library, as one of Wine's does, ends alone.
/// `begin_log` is called before a failure is logged.
pub fn prepare(begin_log: fn()) {
    static ONCE: Once = Once::new();
    ONCE.run(|| {
        let _ = LOG.set(begin_log);
        unwinding::let_forced_unwinds_pass();
        let before = take_hook();
        set_hook(Box::new(move |panic| signals::silenced(|| before(panic))));
    });
}

/// Keeps an object that the driver has created: tries `keep`, then `pass_through` if there is one, then `undo`. Returns
/// whether the object survives.
pub fn keep_or_undo(
    command: &'static str,
    keep: impl FnOnce(),
    pass_through: Option<impl FnOnce()>,
    undo: impl FnOnce(),
) -> bool {
    let kept = guard(command, || (keep(), true).1, || false)
        || pass_through.is_some_and(|pass| guard(command, || (pass(), true).1, || false));
    if !kept {
        guard(command, undo, || ());
    }
    kept
}

/// Whether this thread's local storage is gone: exit handlers of programs that keep their device in a global
/// object run after it. What needs thread-local storage must not be touched any more; calls are passed
/// through.
pub fn tls_destroyed() -> bool {
    struct Alive;
    impl Drop for Alive {
        fn drop(&mut self) {}
    }
    thread_local!(static ALIVE: Alive = const { Alive });
    ALIVE.try_with(|_| ()).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_is_kept_or_passed_by_or_unmade() {
        for (fails, may_pass, expected) in [
            (0, true, (true, "keep")),
            (1, true, (true, "keep pass")),
            (2, true, (false, "keep pass undo")),
            (1, false, (false, "keep undo")),
            (3, true, (false, "keep pass undo")),
        ] {
            let steps = std::cell::RefCell::new(Vec::new());
            let step = |name: &'static str| {
                let number = steps.borrow().len();
                steps.borrow_mut().push(name);
                assert!(number >= fails, "on purpose");
            };
            let pass = may_pass.then_some(|| step("pass"));
            let kept = keep_or_undo("test", || step("keep"), pass, || step("undo"));
            assert_eq!((kept, steps.borrow().join(" ").as_str()), expected);
        }
    }

    #[test]
    fn a_panic_ends_in_the_fallback() {
        assert_eq!(guard("test", || 1, || 2), 1);
        assert_eq!(guard("test", || panic!("on purpose"), || 2), 2);
    }

    #[allow(unsafe_code, reason = "a descriptor and a signal of a process of the test's own")]
    /// In a process of its own, whose standard error is no longer read when it panics.
    #[test]
    fn a_panic_without_a_reader_is_no_end() {
        const CHILD: &str = "VKSTASH_TEST_PANICS";
        if std::env::var_os(CHILD).is_some() {
            let (reader, pipe) = std::os::unix::net::UnixStream::pair().unwrap();
            drop(reader);
            // SAFETY: descriptor 2 becomes one end of the pair; the signal kills as in a C program.
            unsafe {
                libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&pipe), 2);
                libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            }
            prepare(|| ());
            assert_eq!(guard("test", || panic!("on purpose"), || 2), 2);
            std::process::exit(7);
        }
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["a_panic_without_a_reader_is_no_end", "--nocapture"]).env(CHILD, "1");
        assert_eq!(child.output().unwrap().status.code(), Some(7));
    }
}
