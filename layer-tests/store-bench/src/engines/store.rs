//! The interface of an engine.

use crate::failure::Failure;
use crate::workload::Key;

/// An entry to insert. The store may take its value.
pub type Fresh = (Key, Box<[u8]>);

/// An open store.
pub trait Store {
    /// Inserts many entries, in as few transactions as the engine prefers, and passes them to the kernel.
    fn put_many(&mut self, entries: &mut [Fresh]) -> Result<(), Failure>;

    /// Inserts one entry; afterwards this process can read it.
    fn put(&mut self, entry: &mut Fresh) -> Result<(), Failure>;

    /// Passes inserted entries to the kernel, if [`Store::put`] does not.
    fn flush(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// Copies a value into `buffer`, which is cleared first. False: the key is absent.
    fn get(&mut self, key: &Key, buffer: &mut Vec<u8>) -> Result<bool, Failure>;

    /// Whether a key is present, by the index alone if the engine can.
    fn contains(&mut self, key: &Key) -> Result<bool, Failure>;

    /// Reads a word of every cache line of a value in place; `None` if the engine only copies.
    fn look(&mut self, _key: &Key) -> Result<Option<u64>, Failure> {
        Ok(None)
    }

    /// Makes the last entries survive a crash of the process. Only called before one.
    fn before_kill(&mut self) -> Result<(), Failure> {
        self.flush()
    }

    /// Closes the store normally.
    fn close(self: Box<Self>) -> Result<(), Failure>;
}
