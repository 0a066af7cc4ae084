//! SQLite, through rusqlite.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::store::{Fresh, Store};
use crate::failure::Failure;
use crate::workload::Key;

const INSERT: &str = "INSERT INTO entries (key, value) VALUES (?1, ?2)";
const SELECT: &str = "SELECT value FROM entries WHERE key = ?1";
const EXISTS: &str = "SELECT 1 FROM entries WHERE key = ?1";

/// Longest wait for another process's write.
const BUSY: Duration = Duration::from_secs(30);

/// An open connection.
pub struct Opened(Connection);

/// Opens the database in `folder`.
pub fn open(folder: &Path) -> Result<Opened, Failure> {
    let connection = Connection::open(folder.join("entries.sqlite"))?;
    connection.busy_timeout(BUSY)?;
    connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;")?;
    connection
        .execute_batch("CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, value BLOB NOT NULL)")?;
    Ok(Opened(connection))
}

impl Store for Opened {
    fn put_many(&mut self, entries: &mut [Fresh]) -> Result<(), Failure> {
        let writer = self.0.transaction()?;
        {
            let mut insert = writer.prepare_cached(INSERT)?;
            for (key, value) in entries.iter() {
                insert.execute(params![&key[..], &value[..]])?;
            }
        }
        Ok(writer.commit()?)
    }

    fn put(&mut self, (key, value): &mut Fresh) -> Result<(), Failure> {
        self.0.prepare_cached(INSERT)?.execute(params![&key[..], &value[..]])?;
        Ok(())
    }

    fn get(&mut self, key: &Key, buffer: &mut Vec<u8>) -> Result<bool, Failure> {
        buffer.clear();
        let mut select = self.0.prepare_cached(SELECT)?;
        let mut rows = select.query(params![&key[..]])?;
        let Some(row) = rows.next()? else { return Ok(false) };
        buffer.extend_from_slice(row.get_ref(0)?.as_blob()?);
        Ok(true)
    }

    fn contains(&mut self, key: &Key) -> Result<bool, Failure> {
        let mut exists = self.0.prepare_cached(EXISTS)?;
        Ok(exists.query_row(params![&key[..]], |_| Ok(())).optional()?.is_some())
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        self.0.close().map_err(|(_, error)| error.into())
    }
}
