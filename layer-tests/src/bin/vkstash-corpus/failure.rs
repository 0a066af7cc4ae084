//! The client's error type.

/// Why the client stopped.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;
