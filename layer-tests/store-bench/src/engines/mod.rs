//! The engines, behind one interface.

mod files;
mod lmdb;
mod redb;
mod sqlite;
mod stash;
mod store;

use std::path::Path;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

pub use store::{Fresh, Store};

use crate::failure::Failure;

/// An engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lowercase")]
pub enum Engine {
    Stash,
    Lmdb,
    Redb,
    Sqlite,
    Files,
}

impl Engine {
    pub const ALL: [Engine; 5] = [Engine::Stash, Engine::Lmdb, Engine::Redb, Engine::Sqlite, Engine::Files];

    /// Its name in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Stash => "vkstash",
            Engine::Lmdb => "LMDB",
            Engine::Redb => "redb",
            Engine::Sqlite => "SQLite",
            Engine::Files => "files",
        }
    }

    /// Its configuration, for the notes below the tables.
    pub fn describe(self) -> &'static str {
        match self {
            Engine::Stash => {
                "`store::Stash`, a device part, kind Artifact; every get verifies the record's checksum; bulk: put, \
                 flush after every 32 MiB; single put: put + flush, so that the record is with the kernel, and, as a \
                 row of its own, put alone, after which this process can read it and the writer thread has it"
            }
            Engine::Lmdb => {
                "heed 0.22, NO_SYNC, one read transaction a get, one write transaction a put and every 32 MiB of the \
                 bulk insert; values are not verified"
            }
            Engine::Redb => {
                "redb 4, Durability::None, over a file whose sync does nothing; transactions as for LMDB, the \
                 last one of a fill with Durability::Immediate, without which nothing outlives a kill"
            }
            Engine::Sqlite => {
                "rusqlite 0.41 with its own SQLite, `entries(key BLOB PRIMARY KEY, value BLOB)`, WAL, \
                 synchronous=NORMAL (it syncs at checkpoints, and only there), cached statements, transactions as for \
                 LMDB"
            }
            Engine::Files => {
                "one file an entry, 256 folders, written under another name and renamed; values are not verified"
            }
        }
    }

    /// Whether several processes may write in parallel.
    pub fn many_processes(self) -> bool {
        self != Engine::Redb
    }

    /// Opens the store in `folder`; creates it if it is missing.
    pub fn open(self, folder: &Path) -> Result<Box<dyn Store>, Failure> {
        Ok(match self {
            Engine::Stash => Box::new(stash::open(folder)?),
            Engine::Lmdb => Box::new(lmdb::open(folder)?),
            Engine::Redb => Box::new(redb::open(folder)?),
            Engine::Sqlite => Box::new(sqlite::open(folder)?),
            Engine::Files => Box::new(files::open(folder)?),
        })
    }
}
