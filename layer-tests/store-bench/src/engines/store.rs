//! What the benchmark wants of an engine.

use crate::failure::Failure;
use crate::workload::Key;

/// An entry on its way in. Its value may be taken by the store.
pub type Fresh = (Key, Box<[u8]>);

/// A store, open.
pub trait Store {
    /// Inserts many, in as few transactions as the engine likes, and hands them to the kernel.
    fn put_many(&mut self, entries: &mut [Fresh]) -> Result<(), Failure>;

    /// Inserts one: afterwards this process can read it.
    fn put(&mut self, entry: &mut Fresh) -> Result<(), Failure>;

    /// Hands what was put to the kernel, where [`Store::put`] alone does not.
    fn flush(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// Copies a value into `buffer` (cleared first). False: not there.
    fn get(&mut self, key: &Key, buffer: &mut Vec<u8>) -> Result<bool, Failure>;

    /// Whether a key is there, by the index alone where the engine can tell from it.
    fn contains(&mut self, key: &Key) -> Result<bool, Failure>;

    /// Reads a word of every cache line of a value where it lies; `None` where the engine only copies.
    fn look(&mut self, _key: &Key) -> Result<Option<u64>, Failure> {
        Ok(None)
    }

    /// What makes what was put last a crash of the process. Only called before one.
    fn before_kill(&mut self) -> Result<(), Failure> {
        self.flush()
    }

    /// Closes it in good order.
    fn close(self: Box<Self>) -> Result<(), Failure>;
}
