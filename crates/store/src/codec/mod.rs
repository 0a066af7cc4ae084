//! Compression of payloads: pure functions from bytes to bytes. docs/format.md describes them under "Compression".
//!
//! | file | what it knows |
//! |---|---|
//! | `kinds` | which kinds of records are compressed, and how |
//! | `module` | the codec of a module's payload |
//! | `plain` | uncompressed payloads |
//! | `recipe` | the codec of recipes, layouts, render passes and device configurations |
//! | `dictionary` | the dictionary of recipes (`recipes.dict`) and its frame headers |
//! | `decode` | decoding |
//! | `spirv` | the filter that rearranges SPIR-V for zstd |
//! | `walk` | the predictions of both directions of the filter |
//! | `shape` | the operands of each instruction |
//! | `stream` | the filter's streams of bytes |
//! | `zstd` | zstd's contexts, one of each for a thread |

mod decode;
mod dictionary;
mod kinds;
mod module;
mod plain;
mod recipe;
mod shape;
mod spirv;
mod stream;
mod walk;
mod zstd;

#[cfg(test)]
mod recipe_tests;
#[cfg(test)]
mod tests;

pub use decode::decode_into;
pub use kinds::encode;
pub use module::encode_module;
pub use recipe::encode_recipe;
