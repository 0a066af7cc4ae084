//! Record of what a program sees in each step of each test, so that two builds can be compared
//! (scripts/observed.py).

use std::fs::{OpenOptions, create_dir_all};
use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use crate::report::Reports;

/// The variable that names the folder; nothing is kept without it.
const FOLDER: &str = "VKSTASH_TEST_OBSERVED";

/// Adds a step's answer and the layer's counters, but for those of time, to the file of its test.
pub fn note(test: &str, step: &str, value: &Value, reports: &Reports) {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let program = std::env::current_exe().expect("the test program knows its own path");
    let program = program.file_stem().expect("a file's path").to_string_lossy().into_owned();
    // The name of a test program ends in a hash of how it was built.
    let program = program.rsplit_once('-').map_or(&*program, |(name, _)| name);
    let folder = Path::new(&folder).join(program);
    create_dir_all(&folder).expect("a folder to write to");
    let file = folder.join(test.replace("::", "."));
    let mut file = OpenOptions::new().create(true).append(true).open(file).expect("a file to write to");
    let line = json!({ "step": step, "answer": value, "counters": reports.counters() });
    writeln!(file, "{line}").expect("a file to write to");
}
