//! nothing yet
fn main() {}
