//! Check that the tests that docs/architecture.md and docs/COMPAT.md name exist.

use std::fs;
use std::path::Path;

/// The files and functions that a document names in its tables as `file.rs::function`.
fn named(document: &str) -> Vec<(&str, &str)> {
    let rows = document.lines().filter(|line| line.starts_with('|'));
    rows.flat_map(|row| row.split('`').skip(1).step_by(2))
        .filter_map(|code| code.split_once(".rs::"))
        .collect()
}

/// The rows of the table whose head begins with this cell.
fn table<'a>(document: &'a str, head: &str) -> Vec<&'a str> {
    let head = format!("| {head} |");
    let lines = document.lines().skip_while(|line| !line.starts_with(&head)).skip(2);
    lines.take_while(|line| line.starts_with("| ")).collect()
}

#[test]
fn each_filter_names_tests_that_exist() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let document = fs::read_to_string(tests.join("../../docs/architecture.md")).unwrap();
    let rows = table(&document, "rule");
    assert!(rows.len() > 20, "{}", rows.len());
    for row in rows {
        let named = named(row);
        assert!(!named.is_empty(), "no test: {row}");
        for (file, function) in named {
            let text = fs::read_to_string(tests.join(file).with_extension("rs")).unwrap_or_default();
            assert!(text.contains(&format!("fn {function}(")), "{file}.rs has no {function}");
        }
    }
}

/// Whether a row names neither a test nor a script, and gives no reason.
fn is_unshown(line: &str) -> bool {
    let is_row = line.starts_with("| ") && !line.ends_with("| shown by |");
    let last = line.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
    let shown = last.contains(".rs::") || last.contains("`scripts/") || last.starts_with("no test: ");
    is_row && !shown && line.ends_with('|')
}

#[test]
fn a_row_without_a_test_or_a_reason_is_found() {
    let rows =
        ["| a | `b.rs::c` |", "| a | `scripts/d.sh` |", "| a | no test: e |", "| a | no test |", "|---|---|"];
    assert_eq!(rows.map(is_unshown), [false, false, false, true, false]);
}

#[test]
fn the_tests_that_show_a_difference_exist() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let repository = tests.join("../..");
    let document = fs::read_to_string(repository.join("docs/COMPAT.md")).unwrap();
    let named = named(&document);
    assert!(named.len() > 80, "{}", named.len());
    let unshown: Vec<&str> = document.lines().filter(|line| is_unshown(line)).collect();
    assert!(unshown.is_empty(), "{}", unshown.join("\n"));
    for (file, function) in named {
        let file = Path::new(file).with_extension("rs");
        let text = [tests.join(&file), repository.join(&file)]
            .into_iter()
            .find_map(|path| fs::read_to_string(path).ok());
        let text = text.unwrap_or_else(|| panic!("there is no {}", file.display()));
        assert!(text.contains(&format!("fn {function}(")), "{} has no {function}", file.display());
    }
}

#[test]
fn a_table_ends_with_its_rows() {
    assert_eq!(
        table("| x |\n\n| rule | a |\n|---|---|\n| b |\n| c |\n\n| d |\n", "rule"),
        ["| b |", "| c |"]
    );
}

#[test]
fn names_are_found_in_tables_alone() {
    assert_eq!(named("| a | `b`, `c/d.rs::e` | `f.rs::g` |\n`h.rs::i`\n"), [("c/d", "e"), ("f", "g")]);
}
