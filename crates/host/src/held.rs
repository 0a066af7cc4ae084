//! Notes of the locks and other things that a thread holds while another thread may wait for them.
//!
//! A driver may call the program (allocators, debug messengers, device memory reports), which may hold a lock of its
//! own there, and wait for a thread that is in a call of the layer's. So nobody may be in a driver while another thread
//! can wait for it. Builds with debug assertions know what each thread has, and the test driver asks for it ([`held`])
//! in every command. What may be held there all the same is [`Listed`].

use std::marker::PhantomData;

pub(super) use self::names::{Note, Process};

/// What other threads wait for although its holder is in a driver. A library that has such things lists them, and says
/// of each why that cannot meet the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// What it is called.
    pub name: &'static str,
    /// Whether it is harmless in a callback of the program's, too, and not only where the driver does not call back.
    pub in_callbacks: bool,
}

/// Held while other threads may wait for this one, which is in a driver.
#[must_use]
#[derive(Debug)]
pub struct HeldInDriver {
    _held: Note,
    /// It belongs to one thread, so it is not Send.
    _thread: PhantomData<*const ()>,
}

impl Listed {
    /// Notes that this thread has it.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn hold(self) -> HeldInDriver {
        HeldInDriver { _held: Note::listed(self), _thread: PhantomData }
    }
}

/// What this thread has that another one can wait for, and that it may not have in a driver, or in a callback of the
/// program's. None in a build without debug assertions.
pub fn held(in_callback: bool) -> Option<&'static str> {
    names::held(in_callback)
}

/// A callback of the program's comes next.
///
/// # Panics
/// In a build with debug assertions, if another thread can wait for this one.
pub fn assert_free(callback: &str) {
    let held = held(true);
    debug_assert!(held.is_none(), "{callback} while {held:?} is held");
}

/// Called for each thing that a thread has from now on, with what it is and where it was taken.
#[cfg(debug_assertions)]
pub fn observe(observer: fn(&str)) {
    names::observe(observer);
}

#[cfg(debug_assertions)]
mod names {
    use std::any::type_name;
    use std::cell::Cell;
    use std::panic::Location;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::Listed;
    use crate::forks;
    use crate::signals;

    /// More are not noted.
    const MOST: usize = 16;

    /// What a thread has; where it is listed, as what.
    type Place = Cell<Option<(&'static str, Option<Listed>)>>;

    thread_local! {
        // It needs no destructor: exit handlers take locks, too.
        static HELD: [Place; MOST] = const { [const { Cell::new(None) }; MOST] };
    }

    #[allow(clippy::disallowed_types, reason = "it is set by a test, and nobody waits for it")]
    static OBSERVER: std::sync::OnceLock<fn(&str)> = std::sync::OnceLock::new();

    pub fn observe(observer: fn(&str)) {
        // An error: there is one.
        let _ = OBSERVER.set(observer);
    }

    /// The place of a name on the thread that has it.
    #[derive(Debug)]
    pub struct Note(usize);

    impl Note {
        #[track_caller]
        pub fn of<T>() -> Note {
            Note::noted(type_name::<T>(), None)
        }

        #[track_caller]
        pub fn listed(what: Listed) -> Note {
            Note::noted(what.name, Some(what))
        }

        #[track_caller]
        fn noted(name: &'static str, listed: Option<Listed>) -> Note {
            let note = HELD.with(|held| {
                let free = held.iter().position(|place| place.get().is_none());
                free.into_iter().for_each(|at| held[at].set(Some((name, listed))));
                Note(free.unwrap_or(MOST))
            });
            if let Some(observer) = OBSERVER.get() {
                observer(&format!("{name} at {}", Location::caller()));
            }
            note
        }
    }

    impl Drop for Note {
        fn drop(&mut self) {
            HELD.with(|held| held.get(self.0).into_iter().for_each(|place| place.set(None)));
        }
    }

    /// The process whose threads lock a mutex.
    #[derive(Debug, Default)]
    pub struct Process(AtomicU32);

    impl Process {
        pub const fn unknown() -> Process {
            Process(AtomicU32::new(0))
        }

        /// A thread of a parent may have had it when this process was forked, and nobody would ever give it up. So a
        /// child that waits is at fault, whether it would get it this time or not.
        pub fn check<T>(&self) {
            let here = forks::here();
            let first = self.0.compare_exchange(0, here, Ordering::Relaxed, Ordering::Relaxed);
            if first.is_err_and(|first| first != here) {
                let waits = format!("a forked child waits for {}, its parent's\n", type_name::<T>());
                let _ = signals::write_if_ready(rustix::stdio::stderr(), waits.as_bytes());
                std::process::abort();
            }
        }
    }

    pub fn held(in_callback: bool) -> Option<&'static str> {
        let is_harmless = |listed: Option<Listed>| match listed {
            None => false,
            Some(Listed { in_callbacks, .. }) => in_callbacks || !in_callback,
        };
        HELD.with(|held| {
            let mut all = held.iter().filter_map(Place::get);
            all.find(|&(_, listed)| !is_harmless(listed)).map(|(name, _)| name)
        })
    }
}

#[cfg(not(debug_assertions))]
mod names {
    use super::Listed;

    #[derive(Debug)]
    pub struct Note;

    impl Note {
        #[inline(always)]
        pub fn of<T>() -> Note {
            Note
        }

        #[inline(always)]
        pub fn listed(_: Listed) -> Note {
            Note
        }
    }

    #[derive(Debug, Default)]
    pub struct Process;

    impl Process {
        pub const fn unknown() -> Process {
            Process
        }

        #[inline(always)]
        pub fn check<T>(&self) {}
    }

    #[inline(always)]
    pub fn held(_: bool) -> Option<&'static str> {
        None
    }
}
