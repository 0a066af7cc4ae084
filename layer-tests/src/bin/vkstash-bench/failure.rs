//! How the benchmark fails.

/// Why the benchmark gave up.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;
