//! All values that a run measured.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::engines::Engine;
use crate::failure::Failure;
use crate::machine::Machine;

/// A run.
#[derive(Serialize, Deserialize)]
pub struct Report {
    pub machine: Machine,
    pub sizes: Vec<Size>,
}

/// The measurements with stores of one size.
#[derive(Serialize, Deserialize)]
pub struct Size {
    pub entries: u64,
    /// Bytes of all values.
    pub payload: u64,
    pub rounds: usize,
    /// Whether the engines alternated job by job; otherwise round by round, for lack of space.
    pub together: bool,
    /// By the name of the value, then by engine, in the order of measurement, so that values at the same index belong
    /// together.
    values: BTreeMap<String, BTreeMap<Engine, Vec<f64>>>,
}

impl Size {
    /// Without any values.
    pub fn new(entries: u64, payload: u64, rounds: usize, together: bool) -> Size {
        Size { entries, payload, rounds, together, values: BTreeMap::new() }
    }

    /// Adds a value.
    pub fn add(&mut self, name: &str, engine: Engine, value: f64) {
        self.values.entry(name.to_owned()).or_default().entry(engine).or_default().push(value);
    }

    /// The values; empty if nothing was measured.
    pub fn values(&self, name: &str, engine: Engine) -> &[f64] {
        self.values.get(name).and_then(|engines| engines.get(&engine)).map_or(&[], Vec::as_slice)
    }

    /// The engines that were measured.
    pub fn engines(&self) -> impl Iterator<Item = Engine> + '_ {
        Engine::ALL.into_iter().filter(|&engine| !self.values("bulk", engine).is_empty())
    }
}

impl Report {
    /// Reads the JSON of an earlier run.
    pub fn read(path: &Path) -> Result<Report, Failure> {
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    }
}
