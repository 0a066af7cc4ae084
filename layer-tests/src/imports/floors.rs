//! The order of a crate's modules, read from the map in the documentation of its root: each list item is a floor, the
//! first item the highest. The names at the start of an item, and after each semicolon in it, are the modules on that
//! floor.

use super::tree::Tree;

/// The modules of each floor, from the top down.
#[derive(Debug, PartialEq, Eq)]
pub struct Floors(Vec<Vec<String>>);

impl Floors {
    /// Reads the map from the text of a crate's root.
    pub fn read(text: &str) -> Floors {
        let mut items: Vec<String> = Vec::new();
        let mut open = false;
        for line in text.lines().map_while(|line| line.strip_prefix("//!")) {
            match (line.trim_start().strip_prefix("- "), items.last_mut()) {
                (Some(item), _) => {
                    items.push(item.to_owned());
                    open = true;
                }
                (None, Some(item)) if open && line.starts_with("   ") => item.push_str(line),
                _ => open = false,
            }
        }
        Floors(items.iter().map(|item| names(item)).filter(|names| !names.is_empty()).collect())
    }

    /// The number of floors above a module's floor.
    pub fn of(&self, module: &str) -> Option<usize> {
        self.0.iter().position(|floor| floor.iter().any(|name| name == module))
    }

    /// The modules that the map names and a room does not have.
    pub fn strangers(&self, room: &[String], tree: &Tree) -> Vec<&String> {
        let is_there =
            |name: &String| tree.modules.contains_key(&[room, std::slice::from_ref(name)].concat());
        self.0.iter().flatten().filter(|name| !is_there(name)).collect()
    }

    /// The differences between the map and the crate.
    pub fn disagreements(&self, tree: &Tree) -> Vec<String> {
        let modules: Vec<&String> =
            tree.modules.keys().filter(|path| path.len() == 1).map(|path| &path[0]).collect();
        let root = tree.root.display();
        let count = |module: &str| self.0.iter().flatten().filter(|name| *name == module).count();
        let missing = modules.iter().filter(|module| count(module) != 1);
        let missing = missing.map(|module| format!("{root}: the map lists {module} {} times", count(module)));
        let strange = self.0.iter().flatten().filter(|name| !modules.contains(name));
        missing.chain(strange.map(|name| format!("{root}: there is no module {name}"))).collect()
    }
}

/// The modules that a list item names.
fn names(item: &str) -> Vec<String> {
    let mut names = Vec::new();
    for part in item.split(';') {
        let mut rest = part.trim_start();
        while let Some((name, after)) = name(rest) {
            names.push(name.to_owned());
            match after.strip_prefix(',').or_else(|| after.strip_prefix(" and ")) {
                Some(next) => rest = next.trim_start(),
                None => break,
            }
        }
    }
    names
}

/// A name in backticks or in the brackets of a link, and the text after it.
fn name(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = match text.strip_prefix('[') {
        Some(link) => link.split_once(']')?,
        None => text.strip_prefix('`')?.split_once('`')?,
    };
    let name = name.trim_matches('`');
    Some((name.strip_prefix("mod@").unwrap_or(name), rest))
}
