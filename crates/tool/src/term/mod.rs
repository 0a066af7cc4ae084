//! The terminal: printing, asking, and numbers and tables for people.
//!
//! - [`progress`] the progress of work
//! - [`output`] printing: the filter that all output passes
//! - [`confirm`] asking before something is lost
//! - [`table`] tables that fit the terminal
//! - [`wrap`] lines of text that fit the terminal
//! - [`style`] the few styles of text
//! - [`screen`] the terminal: its width, and whether it shows colours
//! - [`since`] moments as users write them
//! - [`time`] spans of time, moments and ages
//! - [`units`] numbers and text

pub(crate) mod confirm;
pub(crate) mod output;
pub(crate) mod progress;
pub(crate) mod screen;
pub(crate) mod since;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod time;
pub(crate) mod units;
pub(crate) mod wrap;
