//! Segment files.
//!
//! | file | what it knows |
//! |---|---|
//! | `file` | an open segment, and positioned reads |
//! | `load` | opening a segment, with its index or without |
//! | `scan` | finding records without an index |
//! | `buckets` | the rows of a segment without an index |
//! | `append` | writing a segment |
//! | `name` | names of segment files |
//! | `cleanup` | removing unfinished files |

pub(crate) mod append;
pub(crate) mod buckets;
pub(crate) mod cleanup;
pub(crate) mod file;
pub(crate) mod load;
pub(crate) mod name;
pub(crate) mod scan;
