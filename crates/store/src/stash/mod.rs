//! One application's stash, and the threads that work for it.
//!
//! | file | what it knows |
//! |---|---|
//! | `open` | the stash as the layer and the tool hold it |
//! | `writer` | the thread that writes records and reports |
//! | `duplicates` | artifacts whose data was written before |
//! | `waiting` | records that wait until their part is read |
//! | `own_report` | the report of this process |
//! | `background_mode` | what the settings say of background work |
//! | `helper` | the thread for work that takes long |
//! | `schedule` | when limits are enforced, and whether there is room to write |
//! | `uses` | the uses that runs have noted |
//! | `siblings` | other device parts whose artifacts the driver may take |
//! | `inspect` | a list of everything that is stored |
//! | `behind` | versions of a driver, compared by what they have compiled |
//! | `one_file` | one segment file, wherever it is |
//! | `browse` | a part's records, for commands that only read them |
//! | `transfer` | segment files that are exported and imported |
//! | `deaths` | pipelines at which processes ended |
//! | `stopped` | processes that were killed on purpose |
//! | `strict` | segment files that somebody else has made, and that are used as they are |

pub(crate) mod background_mode;
pub mod behind;
pub mod browse;
pub mod deaths;
pub(crate) mod duplicates;
pub(crate) mod helper;
pub mod inspect;
pub mod one_file;
pub mod open;
pub(crate) mod own_report;
pub(crate) mod schedule;
pub mod siblings;
pub mod stopped;
pub mod strict;
pub mod transfer;
pub mod uses;
pub(crate) mod waiting;
pub(crate) mod writer;
