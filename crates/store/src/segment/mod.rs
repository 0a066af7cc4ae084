//! Segment files.
//!
//! | file | what it knows |
//! |---|---|
//! | `file` | one of them, open for positioned reads |
//! | `load` | what is in it, with its index or without |
//! | `scan` | finding records without an index |
//! | `buckets` | the rows of a segment without an index |
//! | `append` | writing one |
//! | `name` | names of files |
//! | `cleanup` | what killed processes have left half made |

pub(crate) mod append;
pub(crate) mod buckets;
pub(crate) mod cleanup;
pub(crate) mod file;
pub(crate) mod load;
pub(crate) mod name;
pub(crate) mod scan;
