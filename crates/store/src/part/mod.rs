//! One part of a stash: the portable one, or the one of a device header.
//!
//! | file | what it knows |
//! |---|---|
//! | `open` | reading and queueing records |
//! | `opening` | waiting for a part to be opened, and for how long |
//! | `index` | records that are queued, being written, or appended by others |
//! | `digests` | which data was hashed in this process |
//! | `view` | the segments of a part as this process sees them |
//! | `crash_guard` | artifacts that a driver is looking at for the first time |
//! | `queue` | what the threads of the program and the writer share |
//! | `threads` | the two threads of a stash, as others see them |
//! | `tallies` | what the store met so far |

pub(crate) mod crash_guard;
pub(crate) mod digests;
pub(crate) mod index;
pub mod open;
pub(crate) mod opening;
pub(crate) mod queue;
pub(crate) mod tallies;
pub(crate) mod threads;
pub(crate) mod view;
