//! The imports of every crate of this repository: no files that import each other in a circle, and no import from a
//! higher floor. The map in the documentation of each crate's root gives the floors.

use std::fs;
use std::path::{Path, PathBuf};

use vkstash_layer_tests::imports::floors::Floors;
use vkstash_layer_tests::imports::graph::Graph;
use vkstash_layer_tests::imports::tree::Tree;

/// The words of a map that lists the highest floor first.
const DOWN: &str = "from the top down";
/// A workspace of its own.
const BESIDE: &str = "layer-tests/store-bench";

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn read(file: &Path) -> Option<String> {
    fs::read_to_string(repository().join(file)).ok()
}

fn tree(root: &Path) -> Tree {
    Tree::read(root, &read).unwrap_or_else(|error| panic!("{error}"))
}

/// The roots of all crates with floors.
fn crates() -> Vec<PathBuf> {
    let manifest = read(Path::new("Cargo.toml")).unwrap();
    let members = manifest.lines().find_map(|line| line.strip_prefix("members = ")).unwrap();
    // A package of tests alone has none.
    let has_source = |member: &&str| repository().join(member).join("src").is_dir();
    let members = members.split('"').skip(1).step_by(2).chain([BESIDE]).filter(has_source);
    let root = |member: &str| {
        let files = ["lib.rs", "main.rs"].map(|file| Path::new(member).join("src").join(file));
        let root = files.into_iter().find(|file| read(file).is_some());
        let root = root.unwrap_or_else(|| panic!("{member} has no root"));
        root.strip_prefix(".").map(Path::to_owned).unwrap_or(root)
    };
    members.map(root).collect()
}

/// The roots of the programs in the test crate, which are small and have no floors.
fn programs() -> Vec<PathBuf> {
    let folder = Path::new("layer-tests/src/bin");
    let entries = fs::read_dir(repository().join(folder)).unwrap();
    entries.map(|entry| folder.join(entry.unwrap().file_name()).join("main.rs")).collect()
}

#[test]
fn no_files_name_each_other_in_a_circle() {
    let mut found = String::new();
    for root in crates().into_iter().chain(programs()) {
        let graph = Graph::draw(&tree(&root));
        for circle in graph.circles() {
            found +=
                &format!("{}: a circle of {} files\n{}", root.display(), circle.len(), graph.ties(&circle));
        }
    }
    assert!(found.is_empty(), "{found}");
}

#[test]
fn nothing_imports_upwards() {
    let mut found = Vec::new();
    for root in crates() {
        let tree = tree(&root);
        let floors = Floors::read(&read(&root).unwrap());
        found.extend(floors.disagreements(&tree));
        let graph = Graph::draw(&tree);
        found.extend(graph.upwards(&tree, &[], &floors));
        // Rooms whose map has floors, too.
        for (room, module) in tree.modules.iter().filter(|(room, _)| !room.is_empty()) {
            let text = read(&module.file).unwrap();
            if text.lines().take_while(|line| line.starts_with("//!")).any(|line| line.contains(DOWN)) {
                found.extend(graph.upwards(&tree, room, &Floors::read(&text)));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The map of a room names no module that it does not have.
#[test]
fn maps_of_rooms_are_true() {
    let mut found = Vec::new();
    for root in crates() {
        let tree = tree(&root);
        for (room, module) in tree.modules.iter().filter(|(room, _)| !room.is_empty()) {
            if module.file.ends_with("mod.rs") {
                let map = Floors::read(&read(&module.file).unwrap());
                let strangers = map.strangers(room, &tree);
                found.extend(strangers.iter().map(|name| format!("{}: no {name}", module.file.display())));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_file_of_the_suites_is_compiled() {
    let folder = repository().join("layer-tests/tests");
    let root = fs::read_to_string(folder.join("main.rs")).unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        // Headers of the C API, the root itself, and programs of their own.
        if ["api", "main", "modules", "sources"].contains(&name) {
            continue;
        }
        assert!(root.contains(&format!("\nmod {name};\n")), "{} is in no program", path.display());
    }
}
