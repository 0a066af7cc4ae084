//! Recipes: owned, driver-independent descriptions of everything that decides one pipeline.
//!
//! - [`model`] what a recipe holds
//! - [`structures`] the one table of pNext structures: hashed, ignored, or a reason to bypass
//! - [`newer`] structures that the bindings do not have yet
//! - [`chain`] walking and copying pNext chains by that table
//! - [`capture`] from Vulkan create infos to the model, reading only what the contract allows
//! - [`rebuild`] from the model back to Vulkan create infos
//! - [`key`] encoding and hashing; `list` lists whose length is not believed
//! - [`payload`] the bytes of modules and artifacts
//! - [`check`] whether a record is what its key says
//! - [`identifier`] module identities, and drivers' own identifiers
//! - [`shader_set`] which shaders a pipeline is made of, as one number

pub mod capture;
pub mod chain;
pub mod check;
pub mod identifier;
pub mod key;
mod list;
pub mod model;
pub mod newer;
pub mod payload;
pub mod rebuild;
pub mod shader_set;
pub mod structures;

use model::{Code, Recipe};
use vkstash_store::format::record::Key;

/// Calls `each` with the identity of every module that an encoded recipe names. Of what is no recipe of this schema
/// there are none.
pub fn modules_of(recipe: &[u8], each: &mut dyn FnMut(&Key)) {
    let Ok(recipe) = key::decode::<Recipe<'_>>(recipe) else { return };
    for stage in recipe.pipeline.stages() {
        if let Code::Module(identity) = &stage.code {
            each(identity);
        }
    }
}
