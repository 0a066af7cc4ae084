//! Commands that start programs: with the layer, to measure them, or to compile ahead of them.
//!
//! - [`run`] `vkstash run`: one command with the layer
//! - [`bench`](mod@bench) `vkstash bench`: a program with and without the stash
//! - [`prewarm`] `vkstash prewarm`: compiling ahead of programs

pub(crate) mod bench;
pub(crate) mod prewarm;
pub(crate) mod run;
