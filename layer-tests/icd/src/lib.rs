//! A Vulkan driver for tests, which the Vulkan loader loads like any other. It executes nothing. It creates
//! pipelines, caches and identifiers as a strict driver would, by a JSON script, and records the calls. README.md
//! describes the script and the record.
//!
//! The floors, from the top down; nothing imports upwards:
//!
//! - `control` functions that tests call beside Vulkan
//! - `proc_addr` commands by name, for the loader
//! - `binaries` the commands of pipeline binaries, which read every kind of create info
//! - `compute`, `graphics`, `ray_tracing` the commands that create pipelines
//! - `pipelines` creating and destroying them
//! - `caches`, `deferred`, `executables`, `identifiers`, `shader_objects` the commands of single extensions and of
//!   caches
//! - `device`, `instance`, `messengers`, `physical`, `simple` the commands of the objects that all of these need
//! - `graphics_state`, `libraries`, `stage` the content of a pipeline's key
//! - `heaps` descriptors of stages, and pipelines without a layout (VK_EXT_descriptor_heap)
//! - `element`, `flags`, `shape` the driver's reading of create infos
//! - `binary_info` binaries in the chains of create infos
//! - `lifecycle`, `render_pass` creating and destroying one object; the content of render passes
//! - `content` the content of simple objects
//! - `handles` instances, devices, queues
//! - `objects` everything else that has a handle
//! - `binary`, `cache`, `disk`, `operation`, `shader`, `turn` objects with behaviour; the driver's disk cache; one
//!   thread at a time
//! - `chain`, `command`, `features`, `lists`, `marked` pNext chains; running a command; the driver's features; output
//!   of lists; modules that faults name
//! - `config` the script
//! - `callbacks` the program's callbacks, and what they are told
//! - `overlap` calls that must not overlap; `held` what the layer may not hold; `forks` what a fork waits for; `record`
//!   recorded calls
//! - `hash` keys and identifiers

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod binaries;
mod binary;
mod binary_info;
mod cache;
mod caches;
mod callbacks;
mod chain;
mod command;
mod compute;
mod config;
mod content;
mod control;
mod deferred;
mod device;
mod disk;
mod element;
mod executables;
mod features;
mod flags;
mod forks;
mod graphics;
mod graphics_state;
mod handles;
mod hash;
mod heaps;
mod held;
mod identifiers;
mod instance;
mod libraries;
mod lifecycle;
mod lists;
mod marked;
mod messengers;
mod objects;
mod operation;
mod overlap;
mod physical;
mod pipelines;
mod proc_addr;
mod ray_tracing;
mod record;
mod render_pass;
mod shader;
mod shader_objects;
mod shape;
mod simple;
mod stage;
mod turn;
