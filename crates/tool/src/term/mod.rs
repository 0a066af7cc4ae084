//! What people see on a terminal.
//!
//! - [`progress`] how far work is
//! - [`screen`] the terminal: its width, and whether it shows colours
//! - [`since`] moments as users write them
//! - [`style`] the few styles of text
//! - [`table`] tables that fit the terminal
//! - [`time`] spans of time, moments and ages
//! - [`wrap`] lines of text that fit the terminal
pub(crate) mod progress;
pub(crate) mod screen;
pub(crate) mod since;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod time;
pub(crate) mod wrap;
