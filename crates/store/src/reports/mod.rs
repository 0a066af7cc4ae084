//! The reports of processes.
//!
//! | file | what it knows |
//! |---|---|
//! | `model` | the report of one process |
//! | `names` | what the names of those files say |
//! | `runs` | the files of reports |
//! | `timeline` | how each pipeline of a run was created, and the files of that |
//! | `totals` | the sums of many reports |
//! | `waiting` | what a program has waited for: creation calls, and frames |

pub mod model;
pub(crate) mod names;
pub mod runs;
pub mod timeline;
pub mod totals;
pub mod waiting;
