//! The C API: what a program or a translator calls by name, from this library in its process. docs/sessions.md has it
//! beside the calls of D3D12.
//!
//! | file | what it knows |
//! |---|---|
//! | `sessions` | the exported functions for sessions |
//! | `control` | the exported functions for control over caches |
//! | `background`, `identifiers` | the exported functions for background work, and for identifiers of modules |
//! | `functions` | the exported function that finds the others by name |
//! | `live` | the live sessions, by number |
//! | `types` | structures, constants and results of the header |
//! | `tests` | `include/vkstash.h`, made of these files |

mod background;
mod control;
pub mod functions;
mod identifiers;
mod live;
mod sessions;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests;
mod types;
