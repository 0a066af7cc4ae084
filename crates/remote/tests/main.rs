//! Pulls and pushes over real stores and real files.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

mod accepted;
mod emulators;
mod folder;
mod formats;
#[path = "../../store/src/tests/header.rs"]
mod header;
mod hostile;
mod inbox;
mod pairs;
mod program;
#[path = "../../../layer-tests/src/skip.rs"]
mod skip;
mod support;
mod wire;
