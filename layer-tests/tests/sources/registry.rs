//! The table of structures is that of the registry, and no command that takes a pipeline cache is missed.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

use vkstash_layer_tests::skip;
use vkstash_registry::{Registry, commands_that_take};

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The registry; None, and a line that says why, where it is not here.
fn registry() -> Option<String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| repository().join("target"));
    let text = read_to_string(target.join("registry/vk.xml")).ok();
    if text.is_none() {
        skip::not_here(&skip::this_test(), "the registry that scripts/setup.sh fetches is not here");
    }
    text
}

#[test]
fn the_table_of_structures_is_that_of_the_registry() {
    let Some(text) = registry() else { return };
    let written = repository().join("crates/model/src/registry/structures.rs");
    let is_same = read_to_string(written).unwrap() == Registry::parse(&text).unwrap().table().unwrap();
    assert!(is_same, "the table is not what the registry says: run scripts/registry.sh");
}

/// What the driver may have put into the program's cache is known for every command.
#[test]
fn every_command_that_takes_a_pipeline_cache_is_hooked() {
    let Some(text) = registry() else { return };
    let hooks = read_to_string(repository().join("src/hooks/commands.rs")).unwrap();
    let commands = commands_that_take(&text, "VkPipelineCache").unwrap();
    assert!(commands.len() >= 10, "{commands:?}");
    for command in commands {
        assert!(hooks.contains(&format!("b\"{command}\"")), "no hook of {command}");
    }
}
