//! The worker of `vkstash prewarm`: an ordinary Vulkan program that makes recorded pipelines again, one by one, in a
//! process that its parent may kill.
//!
//! It calls the Vulkan loader like any other program, with this layer enabled. So the pipelines are captured, compiled
//! and recorded by the layer in this very process, as in the program that asked for them first, and an artifact lands
//! under the key that this program will ask for (docs/prewarm.md).
//!
//! - [`worker`] what the parent asks, and what it is answered
//! - `program` the loader, an instance and a device like those of the program
//! - `configuration` what the driver still has of a recorded device
//! - `pipelines` pipelines of recipes
//! - [`update`] after a driver update: starts the tool beside the program
//! - [`finish`] what a program leaves at its end: starts the tool after it
//! - `tool` where the tool is, what it gets, and where it is not started; `spawn` a process that the program never
//!   sees; `trust` which file may be executed

mod configuration;
pub mod finish;
mod pipelines;
mod program;
mod spawn;
mod tool;
mod trust;
pub mod update;
pub mod worker;
