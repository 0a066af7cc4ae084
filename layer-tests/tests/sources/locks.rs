//! What threads wait for each other with is known to the builds that check it, and docs/process.md says what a thread
//! may have in a driver.

use vkstash_store::base::held::Listed;

use super::words::repository;

#[test]
fn what_is_held_in_a_driver_is_listed() {
    let text = std::fs::read_to_string(repository().join("docs/process.md")).unwrap();
    let (_, section) = text.split_once("## What is held in a driver").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let names: Vec<&str> = rows.map(|(name, _)| name).collect();
    assert_eq!(names, Listed::ALL.map(Listed::name));
}

#[test]
fn the_library_has_no_other_locks() {
    for file in ["src/lib.rs", "crates/store/src/lib.rs", "crates/sessions/src/lib.rs"] {
        let text = std::fs::read_to_string(repository().join(file)).unwrap();
        assert!(text.contains("deny(clippy::disallowed_types)"), "{file}");
    }
}
