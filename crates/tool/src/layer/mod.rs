//! Parts that programs need to run with the layer: its library, its manifests, and what the loader is told.
//!
//! - [`environment`] the environment of a process that the loader gives the layer to
//! - [`loader_folder`] the folder in which the loader finds the manifests
//! - [`folder`] the private folder of one run
//! - [`manifest`] the text, names and places of the manifests
//! - [`library`] the library that belongs to this tool

pub(crate) mod environment;
pub(crate) mod folder;
pub(crate) mod library;
pub(crate) mod loader_folder;
pub(crate) mod manifest;
