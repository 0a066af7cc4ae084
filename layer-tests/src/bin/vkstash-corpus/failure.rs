//! How the client fails.

/// Why the client gave up.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;
