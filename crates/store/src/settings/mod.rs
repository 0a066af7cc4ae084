//! The user's settings. docs/configuration.md says what may be set, and where; docs/process.md what limits mean.
//!
//! - [`excluded`] programs that the layer leaves alone
//! - `names` the settings: their names, and what each means
//! - `values` their values, and how they are written
//! - [`mod@file`] a configuration file: from TOML to settings, and what is wrong with it
//! - [`places`] the files: where they are, and which one counts

pub mod excluded;
pub mod file;
mod names;
pub mod places;
mod values;

pub use names::*;
pub use places::{disabled_caches, disabled_caches_unless, excluded_programs, read, read_in};
pub use values::*;
