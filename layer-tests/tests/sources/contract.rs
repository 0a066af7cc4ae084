//! Tests that each "contract 5.5" that comments and documents cite is an entry of docs/contract.md.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::words::{files, repository};

/// The number that a line begins with, if it is the heading of a section (`## 5 ...`) or an entry (`- **5.5** ...`).
fn number(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("## ").or_else(|| line.strip_prefix("- **"))?;
    rest.split([' ', '*']).next().filter(|found| found.starts_with(|first: char| first.is_ascii_digit()))
}

/// The numbers of the sections and entries of the document, in order.
fn entries(document: &str) -> Vec<&str> {
    document.lines().filter_map(number).collect()
}

/// The numbers that a text cites, with their lines. A citation may go on behind the next line's comment marker.
fn cited(text: &str) -> Vec<(usize, String)> {
    let words = (1..).zip(text.lines()).flat_map(|(number, line)| {
        let markers = ["///", "//!", "//", "*", "#"];
        let bare = line.trim_start();
        let bare = markers.iter().find_map(|marker| bare.strip_prefix(marker)).unwrap_or(bare);
        bare.split_whitespace().map(move |word| (number, word))
    });
    let words: Vec<(usize, &str)> = words.collect();
    let citation = |pair: &[(usize, &str)]| {
        let name = pair[0].1.trim_start_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        let ends = pair[1].1.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(pair[1].1.len());
        let number = pair[1].1[..ends].trim_end_matches('.');
        let is_cited = ["contract", "contracts"].contains(&name.as_str()) && !number.is_empty();
        is_cited.then(|| (pair[1].0, number.to_owned()))
    };
    words.windows(2).filter_map(citation).collect()
}

/// The sources and documents of the repository.
fn texts() -> impl Iterator<Item = PathBuf> {
    files().into_iter().filter(|file| {
        let extension = file.extension().unwrap_or_default();
        ["rs", "md", "h", "c", "cpp", "sh", "toml"].iter().any(|known| extension == *known)
    })
}

#[test]
fn every_cited_fact_is_in_the_document() {
    let document = fs::read_to_string(repository().join("docs/contract.md")).unwrap();
    let entries: BTreeSet<&str> = entries(&document).into_iter().collect();
    let (mut used, mut missing) = (BTreeSet::new(), Vec::new());
    for file in texts() {
        let text = fs::read_to_string(repository().join(&file)).unwrap();
        let cited = cited(&text);
        used.extend(cited.iter().map(|(_, number)| number.clone()));
        let unknown = cited.iter().filter(|(_, number)| !entries.contains(number.as_str()));
        missing.extend(unknown.map(|(line, number)| format!("{}:{line}: {number}", file.display())));
    }
    assert!(missing.is_empty(), "docs/contract.md has no such entry:\n{}", missing.join("\n"));
    let is_cited = |entry: &&str| {
        let section = entry.split('.').next().unwrap_or_default();
        used.contains(*entry) || used.contains(section) || section == *entry
    };
    let uncited: Vec<&str> = entries.into_iter().filter(|entry| !is_cited(entry)).collect();
    assert!(uncited.is_empty(), "nothing cites {uncited:?}");
}

#[test]
fn each_entry_has_a_number_of_its_own_in_its_section() {
    let document = fs::read_to_string(repository().join("docs/contract.md")).unwrap();
    let (mut section, mut seen) = ("", BTreeSet::new());
    for number in entries(&document) {
        match number.split_once('.') {
            Some((of, _)) => assert_eq!(of, section, "{number} is in another section"),
            None => section = number,
        }
        assert!(seen.insert(number), "{number} is there twice");
    }
    assert!(seen.len() > 40, "{seen:?}");
}

#[test]
fn entries_are_found_by_their_numbers() {
    let document =
        "# 1\n\n## 2 Title\n\n- **2.1** A fact,\n  see **2.3**.\n- **2.2** b\n- **c** d\n\n## Other\n";
    assert_eq!(entries(document), ["2", "2.1", "2.2"]);
}

#[test]
fn citations_are_found_across_lines() {
    let text = "// (contract 3.4). The contract of 2; contract\n    /// 4.2: a `contract 6`\n([contract 3.8](a.md))\n";
    let found =
        [(1, "3.4"), (2, "4.2"), (2, "6"), (3, "3.8")].map(|(line, number)| (line, number.to_owned()));
    assert_eq!(cited(text), found);
}
