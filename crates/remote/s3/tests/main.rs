//! Pulls and pushes over an S3 server.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

#[path = "../../../store/src/tests/header.rs"]
mod header;
mod s3;
mod server;
#[path = "../../tests/support.rs"]
#[allow(dead_code, reason = "the tests of other stores need more")]
mod support;
