//! A Vulkan driver for tests, which the Vulkan loader loads like any other. It executes nothing; it makes
//! pipelines, caches and identifiers the way a picky driver would, by a JSON script, and writes down what it
//! was called with. README.md says what the script and the record hold.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod binaries;
mod cache;
mod caches;
mod chain;
mod compute;
mod config;
mod content;
mod control;
mod deferred;
mod device;
mod executables;
mod features;
mod graphics;
mod graphics_state;
mod handles;
mod hash;
mod identifiers;
mod instance;
mod libraries;
mod objects;
mod physical;
mod pipelines;
mod proc_addr;
mod ray_tracing;
mod record;
mod render_pass;
mod simple;
mod stage;
