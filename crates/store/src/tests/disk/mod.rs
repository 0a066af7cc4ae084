//! A disk that fails as it is told.
//!
//! - `faults` which operations fail, and how
//! - `power` what a power cut leaves

pub(crate) mod faults;
pub(crate) mod power;
