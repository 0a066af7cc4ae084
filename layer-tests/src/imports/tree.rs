//! The modules of a crate, and the target of a path in one of them.

use std::collections::BTreeMap;
use std::path::{Path as FilePath, PathBuf};

use super::source::{self, Contents, Declared, Import, Path};

/// More levels of re-exports than there are.
const DEEPEST: usize = 16;

/// A module.
#[derive(Debug)]
pub struct Module {
    /// Its file.
    pub file: PathBuf,
    /// Its content.
    pub contents: Contents,
}

/// The modules of a crate by their paths; the path of the root is empty.
#[derive(Debug)]
pub struct Tree {
    /// The modules.
    pub modules: BTreeMap<Path, Module>,
    /// The file of the root.
    pub root: PathBuf,
}

/// The target of a path: a module, or an item in it.
#[derive(Debug, PartialEq, Eq)]
pub struct Target {
    /// The module.
    pub module: Path,
    /// The item, if it is not the module itself.
    pub item: Option<String>,
}

impl Tree {
    /// Reads a crate from its root; `read` gives a file's text.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn read(root: &FilePath, read: &dyn Fn(&FilePath) -> Option<String>) -> Result<Tree, String> {
        let mut tree = Tree { modules: BTreeMap::new(), root: root.to_owned() };
        let folder = root.parent().unwrap_or(FilePath::new("")).to_owned();
        tree.add(Vec::new(), root.to_owned(), &folder, read)?;
        Ok(tree)
    }

    fn add(
        &mut self,
        path: Path,
        file: PathBuf,
        folder: &FilePath,
        read: &dyn Fn(&FilePath) -> Option<String>,
    ) -> Result<(), String> {
        let text = read(&file).ok_or_else(|| format!("{} cannot be read", file.display()))?;
        let contents = source::read(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        self.insert(path, file, folder, contents, read)
    }

    /// Adds a module and those below it, whose files are in `folder`.
    fn insert(
        &mut self,
        path: Path,
        file: PathBuf,
        folder: &FilePath,
        mut contents: Contents,
        read: &dyn Fn(&FilePath) -> Option<String>,
    ) -> Result<(), String> {
        for Declared { name, file: own, inline } in &mut contents.modules {
            let child = [&path[..], std::slice::from_ref(name)].concat();
            let below = folder.join(&*name);
            if let Some(contents) = inline.take() {
                self.insert(child, file.clone(), &below, contents, read)?;
                continue;
            }
            let (flat, nested) = (folder.join(format!("{name}.rs")), below.join("mod.rs"));
            let file = match own {
                Some(own) => file.parent().unwrap_or(FilePath::new("")).join(own),
                None if read(&flat).is_some() => flat,
                None => nested,
            };
            self.add(child, file, &below, read)?;
        }
        self.modules.insert(path, Module { file, contents });
        Ok(())
    }

    /// The target of a path that is written in `module`; none if it leads out of the crate.
    pub fn resolve(&self, module: &[String], path: &[String]) -> Option<Target> {
        self.follow(module, path, 0)
    }

    fn follow(&self, module: &[String], path: &[String], depth: usize) -> Option<Target> {
        if depth > DEEPEST {
            return None;
        }
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Vec::new(),
            "self" => module.to_vec(),
            "super" => module.split_last()?.1.to_vec(),
            _ => {
                let child = [module, std::slice::from_ref(first)].concat();
                if !self.modules.contains_key(&child) {
                    let import = self.import(module, first).filter(|import| import.path != path)?;
                    return self.follow(module, &[&import.path[..], rest].concat(), depth + 1);
                }
                child
            }
        };
        while let Some((name, after)) = rest.split_first() {
            if name == "super" {
                at.pop()?;
                rest = after;
                continue;
            }
            let child = [&at[..], std::slice::from_ref(name)].concat();
            if self.modules.contains_key(&child) {
                (at, rest) = (child, after);
                continue;
            }
            let elsewhere =
                || self.follow(&at, &[&self.import(&at, name)?.path[..], after].concat(), depth + 1);
            let target = elsewhere().or_else(|| self.behind_a_star(&at, name, depth));
            return Some(target.unwrap_or_else(|| Target { module: at.clone(), item: Some(name.clone()) }));
        }
        Some(Target { module: at, item: None })
    }

    /// The import by which a name came into a module that does not define it.
    fn import(&self, module: &[String], name: &str) -> Option<&Import> {
        let contents = &self.modules.get(module)?.contents;
        let named = |import: &&Import| import.in_module && import.name == name;
        contents.imports.iter().find(named).filter(|_| !contents.defined.contains(name))
    }

    /// The target of a name that a module has by `use ...::*`.
    fn behind_a_star(&self, module: &[String], name: &str, depth: usize) -> Option<Target> {
        let contents = &self.modules.get(module)?.contents;
        if contents.defined.contains(name) {
            return None;
        }
        let stars = contents.imports.iter().filter(|import| import.in_module && import.name == "*");
        stars.filter_map(|star| self.follow(module, &star.path, depth + 1)).find_map(|from| {
            let inside = &self.modules.get(&from.module)?.contents;
            let has = from.item.is_none()
                && (inside.defined.contains(name) || self.import(&from.module, name).is_some());
            if !has {
                return None;
            }
            self.follow(&from.module, &["self".to_owned(), name.to_owned()], depth + 1)
        })
    }
}
