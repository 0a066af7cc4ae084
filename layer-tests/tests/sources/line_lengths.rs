//! No line is longer than 120 columns, tables and blocks of code in documents excepted.

use std::fs;
use std::path::{Path, PathBuf};

const MOST: usize = 120;
/// What follows the rule. Add to this list what is brought into line.
const CHECKED: [&str; 13] = [
    "src/background",
    "src/config.rs",
    "src/prewarm",
    "src/recipe/capture",
    "src/recipe/rebuild",
    "src/state/parked.rs",
    "src/state/plan.rs",
    "src/trace",
    "crates/store",
    "docs/background.md",
    "docs/bounds.md",
    "docs/format.md",
    "docs/stats.md",
];

fn files(path: &Path, into: &mut Vec<PathBuf>) {
    if !path.is_dir() {
        return into.push(path.to_owned());
    }
    for entry in fs::read_dir(path).unwrap() {
        files(&entry.unwrap().path(), into);
    }
}

/// The long lines of one file, with their numbers.
fn long_lines(path: &Path, text: &str) -> Vec<String> {
    let is_document = path.extension().is_some_and(|extension| extension == "md");
    let (mut found, mut in_code) = (Vec::new(), false);
    for (number, line) in (1..).zip(text.lines()) {
        in_code ^= is_document && line.trim_start().starts_with("```");
        let excepted = in_code || is_document && line.starts_with('|');
        if line.chars().count() > MOST && !excepted {
            found.push(format!("{}:{number}: {} columns", path.display(), line.chars().count()));
        }
    }
    found
}

#[test]
fn no_line_is_too_long() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut all = Vec::new();
    CHECKED.iter().for_each(|path| files(&repository.join(path), &mut all));
    let is_text = |path: &&PathBuf| {
        path.extension().is_some_and(|extension| ["rs", "md", "toml"].iter().any(|known| extension == *known))
    };
    let texts: Vec<_> =
        all.iter().filter(is_text).map(|path| (path, fs::read_to_string(path).unwrap())).collect();
    assert!(texts.len() > 100, "{} files", texts.len());
    let found: Vec<_> = texts.iter().flat_map(|(path, text)| long_lines(path, text)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_long_line_is_found_outside_tables_and_code() {
    let long = "x".repeat(MOST + 1);
    assert_eq!(long_lines(Path::new("a.rs"), &format!("short\n{long}\n")), ["a.rs:2: 121 columns"]);
    let document = format!("| {long} |\n```\n{long}\n```\n{long}\n");
    assert_eq!(long_lines(Path::new("a.md"), &document), ["a.md:5: 121 columns"]);
}
