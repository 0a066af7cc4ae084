//! The table of structures is that of the registry.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

use vkstash_layer_tests::skip;
use vkstash_registry::Registry;

#[test]
fn the_table_of_structures_is_that_of_the_registry() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| repository.join("target"));
    let Ok(text) = read_to_string(target.join("registry/vk.xml")) else {
        return skip::not_here(&skip::this_test(), "the registry that scripts/setup.sh fetches is not here");
    };
    let written = repository.join("crates/model/src/registry/structures.rs");
    let is_same = read_to_string(written).unwrap() == Registry::parse(&text).unwrap().table().unwrap();
    assert!(is_same, "the table is not what the registry says: run scripts/registry.sh");
}
