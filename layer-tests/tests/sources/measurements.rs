//! Each data file of docs/evidence/data is complete, and docs/evidence/measurements.md is what
//! scripts/measurements.sh writes from them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use vkstash_layer_tests::bench::data::faults;

/// Lines of the summary.
const MOST: usize = 200;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn data_files() -> Vec<PathBuf> {
    let entries = fs::read_dir(repository().join("docs/evidence/data")).unwrap();
    let files = entries.map(|entry| entry.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|extension| extension == "tsv")).collect()
}

#[test]
fn each_data_file_has_its_header_and_a_table() {
    let files = data_files();
    assert!(files.len() > 40, "{} files", files.len());
    for file in files {
        let faults = faults(&fs::read_to_string(&file).unwrap());
        assert!(faults.is_empty(), "{}: {faults:#?}", file.display());
    }
}

#[test]
fn the_summary_is_that_of_the_data_files_and_short() {
    let script = repository().join("scripts/measurements.sh");
    let output = Command::new(script).arg("--check").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary = fs::read_to_string(repository().join("docs/evidence/measurements.md")).unwrap();
    let lines = summary.lines().count();
    assert!(lines <= MOST, "{lines} lines");
}
