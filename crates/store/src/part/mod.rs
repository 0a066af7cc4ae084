//! One part of a stash: the portable one, or the one of a device header.
//!
//! | file | what it knows |
//! |---|---|
//! | `admission` | whether a driver may have an artifact |
//! | `records` | reading and queueing records |
//! | `read_only` | a part that this process never writes to |
//! | `merged` | the keys of its segments, together |
//! | `read_only_parts` | several of them, opened when they are needed |
//! | `bases` | the same part in stashes that are only read |
//! | `open` | the state of a part, and how it is opened |
//! | `recent_records` | records that are in no table of a segment: queued, or appended since the table was read |
//! | `view` | the segments of a part as this process knows them |
//! | `digests` | data that was hashed in this process |
//! | `crash_guard` | the file that marks what the driver is at |
//! | `compiles` | which pipelines a driver compiles, and which ones processes ended at |
//! | `worker_calls` | what the ends of processes say about workers of background work |
//! | `queue` | what the program's threads and the writer share |
//! | `threads` | the writer and the helper, as other threads see them |
//! | `tallies` | counters for the report |

pub mod admission;
pub(crate) mod bases;
mod compiles;
pub(crate) mod crash_guard;
pub(crate) mod digests;
pub(crate) mod merged;
pub mod open;
pub(crate) mod queue;
pub(crate) mod read_only;
pub(crate) mod read_only_parts;
pub(crate) mod recent_records;
pub mod records;
pub mod tallies;
pub(crate) mod threads;
pub(crate) mod view;
mod worker_calls;
