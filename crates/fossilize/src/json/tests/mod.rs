//! Tests of reading and writing together.

mod golden;
mod hostile;
mod members;
mod round_trips;

use serde_json::Value;

/// The text of a document that was written, without what is packed behind it.
fn text(document: &[u8]) -> Value {
    let end = document.iter().position(|&byte| byte == 0).unwrap_or(document.len());
    serde_json::from_slice(&document[..end]).unwrap()
}
