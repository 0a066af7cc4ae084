//! File operations and folders.
//!
//! | file | what it knows |
//! |---|---|
//! | `op`, `ops` | every file operation |
//! | `faults` | making operations fail in tests |
//! | `folder` | opening folders and files safely |
//! | `home` | the folders of an application |
//! | `locks` | whether a process writes a file |
//! | `power` | what a power cut would leave, in tests |

#[cfg(test)]
pub(crate) mod faults;
pub mod folder;
pub mod home;
pub(crate) mod locks;
pub(crate) mod op;
pub mod ops;
#[cfg(test)]
pub(crate) mod power;
