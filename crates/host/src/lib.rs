//! Ground floor of a library that lives inside a process of somebody else's, which may fork, send signals, close
//! descriptors, end its threads, and hold locks of its own while it is called.
//!
//! None of it knows of Vulkan or of the stash. What is exported to C runs behind [`guard::guard`], after
//! [`guard::prepare`]; what belongs to a process is in a [`forks::PerProcess`]; locks, threads, descriptors, files and
//! memory of a size that others decide are those of the modules below, which say what a host may do to them
//! (`examples/guest.rs`). From the top down; no module imports a higher one:
//!
//! - [`disk`] file operations, and folders that no other user can write to
//! - [`guard`] the one place where panics end
//! - [`parallel`] the same work on many things, for tools
//! - [`program`] which file a process runs
//! - [`owner`] files that root creates in a user's folder; [`thread`](mod@thread) starting threads
//! - [`descriptor`] descriptors that the program may close
//! - [`sync`] the only locks
//! - [`once`] what is made once, also where a process forks meanwhile
//! - [`held`] what a thread has while others may wait for it
//! - [`forks`] forked children; [`signals`] writes that raise no signal; [`unwinding`] threads that end inside the
//!   library
//! - [`keyed`] the hasher of maps whose keys come from files
//! - [`memory`] allocations that may fail, and their budgets; [`sharded`] counters that threads add to without
//!   queueing; [`sort`] sorting that adds little code; [`timer`] how long a thread of the program may wait; [`text`]
//!   hexadecimal digits, and which characters are not printed; [`util`] random names, the time
#![cfg_attr(not(test), deny(clippy::disallowed_types))]
#![deny(unsafe_code)]

pub mod descriptor;
pub mod disk;
pub mod forks;
pub mod guard;
pub mod held;
pub mod keyed;
pub mod memory;
pub mod once;
pub mod owner;
pub mod parallel;
pub mod program;
pub mod sharded;
pub mod signals;
pub mod sort;
pub mod sync;
pub mod text;
pub mod thread;
pub mod timer;
pub mod unwinding;
pub mod util;

#[cfg(test)]
#[path = "../../../layer-tests/src/skip.rs"]
mod skip;
