//! File operations in folders that are opened safely.
//!
//! | file | what it knows |
//! |---|---|
//! | `errors` | why a folder or a file is not used |
//! | `folder` | opening and replacing files in folders that no other user can write to |
//! | `locks` | whether a process writes a file |
//! | `ops` | every file operation, one function each |
//! | `faults` | making operations fail in tests |

pub mod errors;
pub mod faults;
pub mod folder;
pub mod locks;
pub mod ops;
