//! How payloads are made small: pure functions from bytes to bytes, described in docs/format.md, "Compression".
//!
//! | file | what it knows |
//! |---|---|
//! | `kinds` | which kinds of records are compressed, and how |
//! | `module` | which codec a module's payload is stored with |
//! | `plain` | payloads that are stored as they are |
//! | `recipe` | the same for recipes and what they name |
//! | `dictionary` | what recipes have in common (`recipes.dict`), and the heads of frames that lean on it |
//! | `decode` | the way back |
//! | `spirv` | the filter that lays SPIR-V out so that zstd finds more in it |
//! | `walk` | what both directions of the filter predict from the words before |
//! | `shape` | where an instruction has its type, its result and its text |
//! | `stream` | the filter's streams of bytes |
//! | `zstd` | zstd's contexts, one of each a thread |

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
