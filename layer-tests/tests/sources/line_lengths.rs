//! No line is longer than 120 columns: but for tables and blocks of code in documents, and code with text in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MOST: usize = 120;

/// Written by programs.
const GENERATED: [&str; 2] = ["crates/model/src/registry/structures.rs", "docs/evidence/store-bench.md"];

/// The texts that the repository has, or is about to have.
fn texts(repository: &Path) -> Vec<PathBuf> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(repository)
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let is_text = |file: &PathBuf| {
        let extension = file.extension().unwrap_or_default();
        ["rs", "md", "toml", "sh", "yml"].iter().any(|known| extension == *known)
            && !GENERATED.iter().any(|generated| file == Path::new(generated))
            && repository.join(file).is_file()
    };
    listed.lines().map(PathBuf::from).filter(is_text).collect()
}

/// The long lines of one file, with their numbers.
fn long_lines(path: &Path, text: &str) -> Vec<String> {
    let is_document = path.extension().is_some_and(|extension| extension == "md");
    let (mut found, mut in_code) = (Vec::new(), false);
    for (number, line) in (1..).zip(text.lines()) {
        in_code ^= is_document && line.trim_start().starts_with("```");
        let excepted = match is_document {
            true => in_code || line.starts_with('|'),
            false => line.contains('"') && !line.trim_start().starts_with("//"),
        };
        if line.chars().count() > MOST && !excepted {
            found.push(format!("{}:{number}: {} columns", path.display(), line.chars().count()));
        }
    }
    found
}

#[test]
fn no_line_is_too_long() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let texts = texts(repository);
    assert!(texts.len() > 500, "{} files", texts.len());
    let read = |path: &PathBuf| long_lines(path, &fs::read_to_string(repository.join(path)).unwrap());
    let found: Vec<String> = texts.iter().flat_map(read).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_long_line_is_found_outside_tables_and_code() {
    let long = "x".repeat(MOST + 1);
    let code = format!("short\n{long}\n// {long}\"\nf(\"{long}\")\n");
    assert_eq!(long_lines(Path::new("a.rs"), &code), ["a.rs:2: 121 columns", "a.rs:3: 125 columns"]);
    let document = format!("| {long} |\n```\n{long}\n```\n{long}\n");
    assert_eq!(long_lines(Path::new("a.md"), &document), ["a.md:5: 121 columns"]);
}
