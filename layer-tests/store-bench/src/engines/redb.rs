//! redb.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use redb::backends::FileBackend;
use redb::{Database, Durability, ReadableDatabase as _, StorageBackend, TableDefinition};

use super::store::{Fresh, Store};
use crate::failure::Failure;
use crate::workload::Key;

const ENTRIES: TableDefinition<&[u8; 32], &[u8]> = TableDefinition::new("entries");

/// A file that is never synced, like those of the other engines.
#[derive(Debug)]
struct Unsynced(FileBackend);

impl StorageBackend for Unsynced {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }
}

/// An open database.
pub struct Opened(Database);

/// Opens the database in `folder`.
pub fn open(folder: &Path) -> Result<Opened, Failure> {
    let path = folder.join("entries.redb");
    let is_new = !path.exists();
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    let opened = Opened(Database::builder().create_with_backend(Unsynced(FileBackend::new(file)?))?);
    if is_new {
        // Readers need the table.
        opened.write(&[], Durability::Immediate)?;
    }
    Ok(opened)
}

impl Opened {
    fn write(&self, entries: &[Fresh], durability: Durability) -> Result<(), Failure> {
        let mut writer = self.0.begin_write()?;
        writer.set_durability(durability)?;
        {
            let mut table = writer.open_table(ENTRIES)?;
            for (key, value) in entries {
                table.insert(key, &value[..])?;
            }
        }
        Ok(writer.commit()?)
    }
}

impl Store for Opened {
    fn put_many(&mut self, entries: &mut [Fresh]) -> Result<(), Failure> {
        self.write(entries, Durability::None)
    }

    fn put(&mut self, entry: &mut Fresh) -> Result<(), Failure> {
        self.write(std::slice::from_ref(entry), Durability::None)
    }

    fn get(&mut self, key: &Key, buffer: &mut Vec<u8>) -> Result<bool, Failure> {
        buffer.clear();
        let table = self.0.begin_read()?.open_table(ENTRIES)?;
        let Some(value) = table.get(key)? else { return Ok(false) };
        buffer.extend_from_slice(value.value());
        Ok(true)
    }

    fn contains(&mut self, key: &Key) -> Result<bool, Failure> {
        let table = self.0.begin_read()?.open_table(ENTRIES)?;
        Ok(table.get(key)?.is_some())
    }

    fn before_kill(&mut self) -> Result<(), Failure> {
        self.write(&[], Durability::Immediate)
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        // Dropping the database commits what is not durable yet.
        Ok(())
    }
}
