//! Commands that change what is in the stash, and the settings.
//!
//! - [`background`] `vkstash background`: the mode of background work
//! - [`cache`] `vkstash cache`: kinds of caches
//! - [`keep`] `vkstash keep`: how much is kept of what
//! - [`config`] `vkstash config`: all settings
//! - `scope` a stash or one application in it, as the four above take it
//! - [`gc`] `vkstash gc`: bringing the stash within its limits
//! - [`prune`] `vkstash prune`, `vkstash clear`: removing what applications have stored
//! - [`quarantine`] `vkstash quarantine`: what is left out because a process died of it
//! - [`verify`] `vkstash verify`: reading everything

pub(crate) mod background;
pub(crate) mod cache;
pub(crate) mod config;
pub(crate) mod gc;
pub(crate) mod keep;
pub(crate) mod prune;
pub(crate) mod quarantine;
mod scope;
pub(crate) mod verify;
