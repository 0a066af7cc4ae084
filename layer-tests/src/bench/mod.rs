//! The format in which the corpus client reports to the benchmark that runs it.

pub mod numbers;
pub mod report;
