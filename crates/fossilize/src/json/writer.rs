//! Builds a document's text.

use std::ffi::c_void;
use std::fmt::{Display, Write};

use super::error::WriteError;

/// Writes a chain as an array.
pub type WriteChain = unsafe fn(*const c_void, &mut Writer) -> Result<(), WriteError>;

/// The text so far. A comma is written before the next value unless an object or array was just opened.
pub struct Writer {
    text: String,
    chain: WriteChain,
}

impl Writer {
    /// Writes chains with `chain`.
    pub fn new(chain: WriteChain) -> Self {
        Writer { text: String::new(), chain }
    }

    /// Begins an object or array, whose first character is `bracket`.
    pub fn open(&mut self, bracket: char) {
        self.text.push(bracket);
    }

    /// Ends an object or array, whose last character is `bracket`.
    pub fn close(&mut self, bracket: char) {
        self.text.push(bracket);
    }

    /// Separates an element of an array from the one before it.
    pub fn element(&mut self) {
        if !self.text.ends_with(['{', '[']) {
            self.text.push(',');
        }
    }

    /// Begins a member of an object. `name` needs no escapes.
    pub fn name(&mut self, name: &str) {
        self.element();
        self.text.push('"');
        self.text.push_str(name);
        self.text.push_str("\":");
    }

    /// A number, or other text that is JSON as it stands.
    pub fn raw(&mut self, value: impl Display) {
        // Writing to a String does not fail.
        let _ = write!(self.text, "{value}");
    }

    /// A string, with the escapes that it needs.
    pub fn string(&mut self, value: &str) {
        self.raw(serde_json::Value::from(value));
    }

    /// A hash, which is how Fossilize names objects.
    pub fn hash(&mut self, hash: u64) {
        self.raw(format_args!("\"{hash:016x}\""));
    }

    /// A pNext chain.
    ///
    /// # Safety
    /// `first` is NULL or points to the first structure of a valid chain.
    pub unsafe fn chain(&mut self, first: *const c_void) -> Result<(), WriteError> {
        // SAFETY: `first` is NULL or a valid chain (this function's # Safety section).
        unsafe { (self.chain)(first, self) }
    }

    /// The text.
    pub fn finish(self) -> String {
        self.text
    }
}
