//! State of the reader of a document: the memory of the structures that it has read, and the function that reads their
//! pNext chains.

use std::ffi::c_void;

use super::arena::Arena;
use super::document::Value;
use super::error::ParseError;

/// Reads the value of `pNext`, and gives the first structure of the chain.
pub type ReadChain = fn(&Value, &mut Reader) -> Result<*mut c_void, ParseError>;

/// Owns what was read so far.
pub struct Reader {
    /// Holds what the structures point to.
    pub arena: Arena,
    chain: ReadChain,
}

impl Reader {
    /// Reads chains with `chain`.
    pub fn new(chain: ReadChain) -> Self {
        Reader { arena: Arena::default(), chain }
    }

    /// The chain that the value of `pNext` describes.
    pub fn chain(&mut self, value: &Value) -> Result<*mut c_void, ParseError> {
        (self.chain)(value, self)
    }
}
