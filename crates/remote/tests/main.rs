//! Pulls and pushes over real stores and real files.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

mod folder;
mod formats;
#[path = "../../store/src/tests/header.rs"]
mod header;
mod hostile;
mod inbox;
mod program;
mod s3;
mod server;
mod support;
