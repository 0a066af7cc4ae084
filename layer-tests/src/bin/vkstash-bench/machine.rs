//! The properties of the machine that a reader of a figure must know.

use std::fs;

use serde::Serialize;
use vkstash_layer_tests::bench::data;

/// The machine and the command.
#[derive(Serialize)]
pub(crate) struct Machine {
    /// The command line without the data file, with the program's name without its folder.
    pub(crate) command: String,
    /// Processor model.
    pub(crate) cpu: String,
    /// Hardware threads.
    pub(crate) cores: usize,
}

impl Machine {
    /// This machine and this process.
    pub(crate) fn here() -> Self {
        let mut words: Vec<String> = std::env::args().collect();
        if let Some(first) = words.first_mut() {
            *first = first.rsplit('/').next().unwrap_or_default().to_owned();
        }
        let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("model name"));
        let cpu = line.and_then(|line| line.split_once(':')).map_or("unknown processor", |(_, name)| name);
        Self {
            command: data::command(words),
            cpu: cpu.trim().to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// This machine in words, after what was measured on it.
    pub(crate) fn words(&self, measured: &str) -> String {
        format!("{measured}; {}, {} cores", self.cpu, self.cores)
    }
}
