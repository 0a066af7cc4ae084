//! One application's stash, and the thread that writes it.
//!
//! | file | what it knows |
//! |---|---|
//! | `open` | what the rest of the program holds |
//! | `writer` | the thread that writes |
//! | `duplicates` | artifacts whose data has been written already |
//! | `held` | records that wait until everything is read |
//! | `own_report` | the report of this process |
//! | `helper` | the thread for whatever takes long |
//! | `maintenance` | when bounds are kept, and whether there is room to write |
//! | `inspect` | what is stored, for people |
//! | `transfer` | segment files on their way out of a stash, and into one |

pub(crate) mod duplicates;
pub(crate) mod held;
pub(crate) mod helper;
pub mod inspect;
pub(crate) mod maintenance;
pub mod open;
pub(crate) mod own_report;
pub mod transfer;
pub(crate) mod writer;
