//! The graph of imports, its circles, and imports upwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use super::floors::Floors;
use super::source::Path;
use super::tree::{Target, Tree};

/// The imports of a crate: for each pair of files, the imported names.
#[derive(Debug, Default)]
pub struct Graph(BTreeMap<(PathBuf, PathBuf), BTreeSet<String>>);

impl Graph {
    /// Reads the imports of a crate. A re-export of an item below the re-exporting module is not an import: users of
    /// that name import from the file that defines it.
    pub fn draw(tree: &Tree) -> Graph {
        let mut graph = Graph::default();
        for (path, module) in &tree.modules {
            for import in &module.contents.imports {
                let Some(target) = tree.resolve(path, &import.path) else { continue };
                let star = import.name == "*";
                // The paths that begin with the module's name say which of its items are used.
                let names_module = target.item.is_none() && !star && import.in_module;
                let shows_below = import.public && target.module.starts_with(path);
                if !names_module && !shows_below {
                    graph.add(tree, path, &target, star);
                }
            }
            for used in &module.contents.paths {
                if let Some(target) = tree.resolve(path, used) {
                    graph.add(tree, path, &target, false);
                }
            }
        }
        graph
    }

    fn add(&mut self, tree: &Tree, from: &Path, target: &Target, star: bool) {
        let file = |module: &Path| tree.modules[module].file.clone();
        let arrow = (file(from), file(&target.module));
        if arrow.0 != arrow.1 {
            let name = target.item.as_deref().or(target.module.last().map(String::as_str));
            let name = if star { "*" } else { name.unwrap_or("crate") };
            self.0.entry(arrow).or_default().insert(name.to_owned());
        }
    }

    /// The sets of files that import each other in circles.
    pub fn circles(&self) -> Vec<BTreeSet<PathBuf>> {
        let files: BTreeSet<&PathBuf> = self.0.keys().map(|(from, _)| from).collect();
        let reached: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> =
            files.iter().map(|file| (*file, self.reached(file))).collect();
        let mut circles = BTreeSet::new();
        for file in &files {
            if reached[file].contains(*file) {
                let back = |other: &&&PathBuf| reached.get(**other).is_some_and(|set| set.contains(*file));
                circles.insert(reached[file].iter().filter(back).map(|file| (*file).clone()).collect());
            }
        }
        circles.into_iter().collect()
    }

    fn reached<'a>(&'a self, start: &'a PathBuf) -> BTreeSet<&'a PathBuf> {
        let mut reached = BTreeSet::new();
        let mut next = vec![start];
        while let Some(file) = next.pop() {
            let arrows = self.0.keys().filter(|(from, _)| from == file);
            next.extend(arrows.map(|(_, to)| to).filter(|to| reached.insert(*to)));
        }
        reached
    }

    /// The imports of a circle, one on each line.
    pub fn ties(&self, circle: &BTreeSet<PathBuf>) -> String {
        let mut text = String::new();
        for ((from, to), names) in &self.0 {
            if circle.contains(from) && circle.contains(to) {
                let _ = writeln!(text, "  {}", line(from, to, names));
            }
        }
        text
    }

    /// The imports from a higher floor of a room, one on each line. The room without a name is the crate.
    pub fn upwards(&self, tree: &Tree, room: &[String], floors: &Floors) -> Vec<String> {
        let inside = tree.modules.iter().filter_map(|(path, module)| {
            let path = path.strip_prefix(room)?;
            Some((&module.file, path.first().and_then(|module| floors.of(module))))
        });
        let floor_of: BTreeMap<&PathBuf, Option<usize>> = inside.collect();
        let up = |(from, to): &(PathBuf, PathBuf)| match (floor_of.get(from), floor_of.get(to)) {
            (Some(from), Some(to)) => to < from,
            _ => false,
        };
        self.0
            .iter()
            .filter(|(arrow, _)| up(arrow))
            .map(|((from, to), names)| line(from, to, names))
            .collect()
    }
}

fn line(from: &std::path::Path, to: &std::path::Path, names: &BTreeSet<String>) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    format!("{} takes {} from {}", from.display(), names.join(", "), to.display())
}
