//! What people see on a terminal.
//!
//! - [`screen`] the terminal: its width, and whether it shows colours
//! - [`style`] the few styles of text
//! - [`table`] tables that fit the terminal
//! - [`time`] spans of time, moments and ages
pub(crate) mod screen;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod time;
