//! What is known of live instances, devices and their objects.
//!
//! - [`device_stats`] what is reported of a device
//! - [`dispatch`] the next layer's commands
//! - [`instance`] live instances, [`live_devices`] live devices, found by dispatch key; [`device`] one of them
//! - [`identifiers`] the identities of a device's modules; [`known_objects`] what capture is told of its objects
//! - [`background_work`] what a device tells its background work; [`frames`] what the program presents;
//!   [`waits`] the calls in which it waits for pipelines
//! - [`parked`] pipelines that were finished before the program asks for them; [`plan`] which ones, in which order
//! - [`objects`] live objects by handle; [`described`] modules, layouts, render passes and samplers, described when
//!   they were created
//! - [`lending`] the program's layouts in the hands of workers
//! - [`caches`] the pipeline caches of a device; [`program_cache`] the one that a call passes
//! - [`cache_state`] what is known of each pipeline cache of the program; [`cache_answer`] what was made beside one
//! - [`pending`] what was made beside them, or beside VK_NULL_HANDLE; [`blob_digests`] tells which of it is equal
//! - [`estimates`] what asking the sources of pipelines has brought; [`driver_hits`] pipelines that the driver had,
//!   which wait to be recorded
//! - [`shader_code`] what live shader objects were made of
//! - [`private_cache`] pipeline caches of the layer's; [`sized_data`] how drivers are asked for data
//! - [`deferred`] creation calls that the driver has not finished; [`compiling`] marks what it compiles
//! - [`pipeline_class`] the classes of pipelines that a driver's caches may hold or not; [`cache_data_probe`] which of
//!   them this driver's hold
//! - [`policy`] what is known about drivers, in one table
//! - [`excluded`] programs that the layer leaves alone
//! - [`switches`] kinds of caches that are disabled; [`support`] which caches there are for a driver
//! - [`width`] how many threads at a time enter a driver with served calls
//! - [`stored`] the parts of the stash that a device works with
//! - [`process`] the stash that the devices of a process share; [`run_report`] the report of its run

pub mod background_work;
pub mod blob_digests;
pub mod cache_answer;
pub mod cache_data_probe;
pub mod cache_state;
pub mod caches;
pub mod companion;
pub mod compiling;
pub mod deferred;
pub mod described;
pub mod device;
pub mod device_stats;
pub mod pending;

pub mod dispatch;
pub mod driver_hits;
pub mod estimates;
pub mod excluded;
pub mod frames;
pub mod held;
mod identifiers;
pub mod instance;
mod known_objects;
pub mod lending;
pub mod live_devices;
pub mod objects;
pub mod parked;
pub mod pipeline_class;
pub mod plan;
pub mod policy;
pub mod private_cache;
pub mod process;
pub mod program_cache;
mod run_report;
pub mod shader_code;
pub mod sized_data;
pub mod stored;
pub mod support;
pub mod switches;
pub mod waits;
pub mod width;
