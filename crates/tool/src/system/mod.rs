//! This process, its machine, and files.
//!
//! - [`new_file`] a file that appears when it is complete
//! - [`elf`] the architecture that a library is for
//! - [`regular`] reading regular files alone
//! - [`pending_signals`] signals held back while something is put in order
//! - [`signals`] signals that go on to a child
//! - [`start`] the state in which this process was started
//! - [`machine`] processors, memory and power

pub(crate) mod elf;
pub(crate) mod machine;
pub(crate) mod new_file;
pub(crate) mod pending_signals;
pub(crate) mod regular;
pub(crate) mod signals;
pub(crate) mod start;
