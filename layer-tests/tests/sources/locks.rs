//! Locks: what threads wait for each other with is known to the builds that check it.

use super::words::repository;

#[test]
fn the_library_has_no_other_locks() {
    for file in
        ["src/lib.rs", "crates/host/src/lib.rs", "crates/store/src/lib.rs", "crates/sessions/src/lib.rs"]
    {
        let text = std::fs::read_to_string(repository().join(file)).unwrap();
        assert!(text.contains("deny(clippy::disallowed_types)"), "{file}");
    }
}
