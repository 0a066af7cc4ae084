//! File operations and folders.
//!
//! | file | what it knows |
//! |---|---|
//! | `op`, `ops` | every file operation |
//! | `faults` | making operations fail in tests |
//! | `folder` | opening folders and files safely |
//! | `home` | the folders of an application |

#[cfg(test)]
pub(crate) mod faults;
pub mod folder;
pub mod home;
pub(crate) mod op;
pub mod ops;
