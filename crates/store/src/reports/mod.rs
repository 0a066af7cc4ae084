//! The reports of processes.
//!
//! | file | what it knows |
//! |---|---|
//! | `model` | the report of one process |
//! | `runs` | the files of reports |
//! | `totals` | the sums of many reports |

pub mod model;
pub mod runs;
pub mod totals;
