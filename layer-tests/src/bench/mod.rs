//! What the corpus client and the benchmark that runs it agree upon.

pub mod numbers;
pub mod report;
