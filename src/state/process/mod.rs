//! The process and its instances: its stash, its reports, its drivers.
//!
//! - [`session`] the stash that the devices of a process share; [`run_report`] the report of its run
//! - [`device_stats`] what is reported of a device; [`frames`] what the program presents; [`waits`] the calls in which
//!   it waits for pipelines
//! - [`stored`] the parts of the stash that a device works with
//! - [`support`] which caches there are for a driver; [`switches`] kinds of caches that are disabled
//! - [`instance`] live instances; [`dispatch`] the next layer's commands
//! - [`policy`] what is known about drivers, in one table
//! - [`excluded`] programs that the layer leaves alone
//! - [`held`] what threads wait for although its holder is in a driver

pub mod device_stats;
pub mod dispatch;
pub mod excluded;
pub mod frames;
pub mod held;
pub mod instance;
pub mod policy;
mod run_report;
pub mod session;
pub mod stored;
pub mod support;
pub mod switches;
pub mod waits;
