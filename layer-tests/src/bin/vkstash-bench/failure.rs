//! The benchmark's error type.

/// Why the benchmark stopped.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;
