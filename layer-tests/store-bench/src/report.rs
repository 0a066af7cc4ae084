//! All values of a run.

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

/// What was measured with stores of one size.
#[derive(Serialize, Deserialize)]
pub struct Size {
    pub entries: u64,
    /// Bytes of all values.
    pub payload: u64,
    pub rounds: usize,
    /// Whether the engines took turns job by job; otherwise round by round, for want of room.
    pub together: bool,
    /// By the name of the value, then by engine: in the order of measuring, so that the values of the same place
    /// belong together.
    values: BTreeMap<String, BTreeMap<Engine, Vec<f64>>>,
}

impl Size {
    /// Of stores with that many entries, before anything is measured.
    pub fn new(entries: u64, payload: u64, rounds: usize, together: bool) -> Size {
        Size { entries, payload, rounds, together, values: BTreeMap::new() }
    }

    /// One more value.
    pub fn add(&mut self, name: &str, engine: Engine, value: f64) {
        self.values.entry(name.to_owned()).or_default().entry(engine).or_default().push(value);
    }

    /// Empty where nothing was measured.
    pub fn values(&self, name: &str, engine: Engine) -> &[f64] {
        self.values.get(name).and_then(|engines| engines.get(&engine)).map_or(&[], Vec::as_slice)
    }

    /// Engines that were measured.
    pub fn engines(&self) -> impl Iterator<Item = Engine> + '_ {
        Engine::ALL.into_iter().filter(|&engine| !self.values("bulk", engine).is_empty())
    }
}

impl Report {
    /// The JSON of an earlier run.
    pub fn read(path: &Path) -> Result<Report, Failure> {
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    }
}
