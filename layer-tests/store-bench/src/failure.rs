//! How anything here fails.

/// What goes wrong is told to whoever started the benchmark, and ends it.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
