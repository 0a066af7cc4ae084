//! The stash on disk: one folder an application, a portable part and one part a device header.
//! docs/format.md describes every byte of it.
//!
//! | file | what it knows |
//! |---|---|
//! | `stash` | one application's stash, open: what the rest of the program holds |
//! | `part` | one part of it: reading and queueing records |
//! | `index` | records that are queued, being written, or appended by others |
//! | `view` | the segments of a part as this process sees them |
//! | `segment`, `scan` | what is in one segment file, with its index or without |
//! | `table` | the index of a sealed segment |
//! | `buckets` | the rows of a segment without one |
//! | `guard` | artifacts that a driver is looking at for the first time |
//! | `append` | how a segment file is written |
//! | `codec` | how payloads are made small |
//! | `sweep` | what killed processes have left half made |
//! | `format`, `header` | the bytes of a segment file, and what a device part is bound to |
//! | `shared`, `writer` | the queues between the program's threads and the one that writes |
//! | `helper` | the thread for whatever takes long |
//! | `keeper` | when bounds are kept, and whether there is room to write |
//! | `thread` | how threads of our own are started |
//! | `timer` | how long a thread of the program may be held up |
//! | `runs`, `totals` | reports of runs, and what they add up to |
//! | `disk` | every file operation, and how tests make it fail |
//! | `folder`, `refusal` | opening folders and files safely, and why not |
//! | `name` | an application's folder name |
//! | `bounds` | what is kept, and which segments are merged |
//! | `upkeep` | carrying that out |
//! | `settings` | limits that the user sets |
//! | `inspect` | what is stored, for people |
//! | `transfer` | segment files on their way out of a stash, and into one |

mod append;
pub mod bounds;
mod buckets;
pub mod codec;
mod disk;
mod folder;
mod format;
mod guard;
pub mod header;
mod helper;
mod index;
pub mod inspect;
mod keeper;
pub mod name;
pub mod part;
pub mod refusal;
pub mod runs;
mod scan;
mod segment;
pub mod settings;
mod shared;
pub mod stash;
mod sweep;
mod table;
mod thread;
mod timer;
pub mod totals;
pub mod transfer;
pub mod upkeep;
mod view;
mod writer;

pub(crate) use shared::unix_ms;

#[cfg(test)]
pub(crate) mod tests;
