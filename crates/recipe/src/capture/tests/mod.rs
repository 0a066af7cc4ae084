//! Tests of capture: differences that change the key, differences that do not, and pointers that are not read.
//!
//! - [`guard_page`] memory that may not be read, and structures that end where it begins; [`unread`] garbage where
//!   contract 6 lets it be
//! - [`helpers`] objects by handle, and captures as bytes; [`full`] a graphics pipeline whose parts can be
//!   changed; [`changes`] every part of one, and when it matters
//! - [`compute`], [`graphics`], [`libraries`], [`ray_tracing`] pipelines
//! - [`objects`], [`render_pass`] what pipelines are made with
//! - [`hosts`], [`plain`], [`special`] every row of the table of structures
//! - [`random`] properties of random pipelines; [`golden`] the bytes that never change

#![allow(
    clippy::field_reassign_with_default,
    clippy::type_complexity,
    reason = "create infos are filled in like in C; a type of one table is clearer in its place"
)]

mod changes;
mod compute;
pub(crate) mod full;
mod golden;
mod graphics;
mod guard_page;
pub(crate) mod helpers;
mod hosts;
mod libraries;
mod objects;
mod plain;
pub(crate) mod random;
pub(crate) mod ray_tracing;
mod render_pass;
mod special;
mod special_graphics;
mod unread;
