//! Tests of the sources themselves. A program of its own: it needs neither the layer nor the loader, so it is linked in
//! a moment after any change.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

mod contract;
mod filters;
mod imports;
mod line_lengths;
mod locks;
mod measurements;
mod pages;
mod registry;
mod sized_data;
mod variables;
mod words;
