//! The intercepted commands, one file per group of commands; thin: translate, call down, translate back.
//!
//! - [`commands`] which commands are hooked, and the three look-ups of commands
//! - [`instance`] vkCreateInstance, vkDestroyInstance
//! - [`physical`] what the layer adds to a physical device's lists, features and properties
//! - [`device`] vkCreateDevice, vkDestroyDevice
//! - [`inert`] calls on a device on which the layer does nothing
//! - [`queues`] a program's first command on a device
//! - [`messengers`] debug messengers, which hear nothing of workers; [`names`] those of the device
//! - [`modules`], [`layouts`], [`render_passes`] objects that recipes describe, with the hooks of `object_hooks`
//! - [`caches`] the program's pipeline caches
//! - [`pipelines`] the creation calls; [`ray_tracing`] those of ray tracing, and deferred operations
//! - [`shaders`] shader objects
//! - [`passed_by`] kinds of pipelines that are counted, and of which nothing is recorded
//! - [`identifiers`] the two queries, where the layer answers them; [`binaries`] pipeline binaries of programs that
//!   use such identifiers

mod binaries;
mod caches;
pub mod commands;
mod device;
mod identifiers;
mod inert;
mod instance;
mod layouts;
mod messengers;
mod modules;
mod names;
mod object_hooks;
mod passed_by;
mod physical;
mod pipelines;
mod queues;
mod ray_tracing;
mod render_passes;
mod shaders;
