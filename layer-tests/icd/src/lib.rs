//! A Vulkan driver for tests, which the Vulkan loader loads like any other. It executes nothing; it makes
//! pipelines, caches and identifiers the way a picky driver would, by a JSON script, and writes down what it
//! was called with. README.md says what the script and the record hold.
//!
//! The floors, from the top down; nothing imports upwards:
//!
//! - `control` what tests call beside Vulkan
//! - `proc_addr` commands by name, for the loader
//! - `binaries` the commands of pipeline binaries, which read every kind of create info
//! - `compute`, `graphics`, `ray_tracing` the commands that create pipelines
//! - `pipelines` making them, and their end
//! - `caches`, `deferred`, `executables`, `identifiers` the commands of single extensions and of caches
//! - `device`, `instance`, `physical`, `simple` the commands of the objects that all of these need
//! - `graphics_state`, `libraries`, `stage` what goes into a pipeline's key
//! - `element`, `flags`, `shape` what the driver understands of create infos
//! - `binary_info` binaries in the chains of create infos
//! - `lifecycle`, `render_pass` creating and destroying one object; what tells one render pass from another
//! - `content` what tells one simple object from another
//! - `handles` instances, devices, queues
//! - `objects` everything else that has a handle
//! - `binary`, `cache`, `operation` the objects that do something
//! - `chain`, `command`, `features`, `lists` pNext chains; how every command runs; what the driver supports; how lists
//!   are given out
//! - `config` the script
//! - `record` what the driver saw
//! - `hash` keys and identifiers

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod binaries;
mod binary;
mod binary_info;
mod cache;
mod caches;
mod chain;
mod command;
mod compute;
mod config;
mod content;
mod control;
mod deferred;
mod device;
mod element;
mod executables;
mod features;
mod flags;
mod graphics;
mod graphics_state;
mod handles;
mod hash;
mod identifiers;
mod instance;
mod libraries;
mod lifecycle;
mod lists;
mod objects;
mod operation;
mod physical;
mod pipelines;
mod proc_addr;
mod ray_tracing;
mod record;
mod render_pass;
mod shape;
mod simple;
mod stage;
