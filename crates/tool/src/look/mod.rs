//! Commands that show what is in the stash, and what programs do. They change nothing.
//!
//! - [`report`] `vkstash report`: a page about an application
//! - [`stats`] `vkstash stats`: what the stash did
//! - [`list`] `vkstash list`: the applications
//! - [`show`] `vkstash show`: the pipelines of an application, and what one of them is made of
//! - [`inspect`] `vkstash inspect`: a segment file
//! - [`watch`] `vkstash watch`: what running programs do now

pub(crate) mod inspect;
pub(crate) mod list;
pub(crate) mod report;
pub(crate) mod show;
pub(crate) mod stats;
pub(crate) mod watch;
