//! Files and folders.
//!
//! | file | what it knows |
//! |---|---|
//! | `op`, `ops` | every file operation |
//! | `faults` | how tests make one fail |
//! | `folder` | opening folders and files safely |
//! | `home` | the folders of an application, opened when they are needed |

#[cfg(test)]
pub(crate) mod faults;
pub(crate) mod folder;
pub(crate) mod home;
pub(crate) mod op;
pub(crate) mod ops;
