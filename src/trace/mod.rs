//! `VKSTASH_TRACE=file.json`: background tasks and slow creation calls, for Perfetto and chrome://tracing.
//!
//! - [`spans`] what is traced
//! - `file` the file

pub mod file;
pub mod spans;
