//! LMDB, through heed.

use std::path::Path;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions};

use super::store::{Fresh, Store};
use crate::failure::Failure;
use crate::workload::Key;

/// Address space, not memory.
const MAP_BYTES: usize = 64 << 30;

/// An open environment with its only database.
pub struct Opened {
    environment: Env,
    entries: Database<Bytes, Bytes>,
}

/// Opens the environment in `folder`.
pub fn open(folder: &Path) -> Result<Opened, Failure> {
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES);
    // SAFETY: NO_SYNC endangers the file only if the machine crashes, and only LMDB changes the file.
    let environment = unsafe { options.flags(EnvFlags::NO_SYNC).open(folder)? };
    let reader = environment.read_txn()?;
    let entries = match environment.open_database(&reader, None)? {
        Some(entries) => {
            reader.commit()?;
            entries
        }
        None => {
            drop(reader);
            let mut writer = environment.write_txn()?;
            let entries = environment.create_database(&mut writer, None)?;
            writer.commit()?;
            entries
        }
    };
    Ok(Opened { environment, entries })
}

impl Store for Opened {
    fn put_many(&mut self, entries: &mut [Fresh]) -> Result<(), Failure> {
        let mut writer = self.environment.write_txn()?;
        for (key, value) in entries.iter() {
            self.entries.put(&mut writer, key, value)?;
        }
        Ok(writer.commit()?)
    }

    fn put(&mut self, (key, value): &mut Fresh) -> Result<(), Failure> {
        let mut writer = self.environment.write_txn()?;
        self.entries.put(&mut writer, key, value)?;
        Ok(writer.commit()?)
    }

    fn get(&mut self, key: &Key, buffer: &mut Vec<u8>) -> Result<bool, Failure> {
        buffer.clear();
        let reader = self.environment.read_txn()?;
        let Some(value) = self.entries.get(&reader, key)? else { return Ok(false) };
        buffer.extend_from_slice(value);
        Ok(true)
    }

    fn contains(&mut self, key: &Key) -> Result<bool, Failure> {
        let reader = self.environment.read_txn()?;
        Ok(self.entries.get(&reader, key)?.is_some())
    }

    fn look(&mut self, key: &Key) -> Result<Option<u64>, Failure> {
        let reader = self.environment.read_txn()?;
        let value = self.entries.get(&reader, key)?.ok_or("an entry is missing")?;
        Ok(Some(value.iter().step_by(64).map(|&byte| u64::from(byte)).sum()))
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(())
    }
}
