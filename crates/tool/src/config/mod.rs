//! The settings: what is in force, and changing the configuration file. `vkstash config` itself is a command of `care`.
//!
//! - [`edit`] changing a file so that the rest of it stays
//! - [`problems`] mistakes in a file, and what was meant
//! - [`slips`] values that are more often a slip than a wish
//! - [`in_force`] the settings in force, and their sources
//! - [`meanings`] what each setting and each variable means, for the help and the man page

pub(crate) mod edit;
pub(crate) mod in_force;
pub(crate) mod meanings;
pub(crate) mod problems;
pub(crate) mod slips;
