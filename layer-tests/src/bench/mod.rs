//! The format in which the corpus client reports to the benchmark that runs it, and the one of data files.

pub mod data;
pub mod numbers;
pub mod predict;
pub mod report;
