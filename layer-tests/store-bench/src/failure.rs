//! The error type.

/// An error, which ends the benchmark and is printed.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
