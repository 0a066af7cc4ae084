//! The files of a cache.
//!
//! | file | what it knows |
//! |---|---|
//! | `files` | the cache on disk: finding, storing, closing, clearing |
//! | `open` | opening, wiping and repairing it |
//! | `rewrite` | writing the index again |
//! | `state` | the two files that are in use |
//! | `index` | the slots |
//! | `values` | the records |
//! | `ours` | which damaged files are the cache's |
//! | `write` | the two writes of a store |
//! | `names` | the files' names, and which files are trusted |

pub(crate) mod files;
mod index;
pub(crate) mod names;
pub(crate) mod open;
mod ours;
mod rewrite;
mod state;
pub(crate) mod values;
mod write;
