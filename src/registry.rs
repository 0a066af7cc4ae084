//! The registry of Vulkan (vk.xml) as far as tests hold tables of structures against it.
//!
//! scripts/setup.sh fetches the newest that a package has; the distribution's own, with the headers of its loader, is
//! older. Read without a parser for XML: the file is written by one program, in one form.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A structure with an sType.
#[derive(Debug)]
pub struct Structure {
    /// Its name, "Vk" and all.
    pub name: String,
    /// The value of its sType.
    pub s_type: i32,
    /// The structures that it may extend.
    pub extends: Vec<String>,
    /// The types of its members behind sType and pNext.
    pub members: Vec<String>,
}

impl Structure {
    /// Whether the structure may extend one of these.
    pub fn extends_any(&self, others: &BTreeSet<&str>) -> bool {
        self.extends.iter().any(|extended| others.contains(extended.as_str()))
    }
}

/// What the tests know of a registry.
pub struct Registry {
    /// The structures of Vulkan; not those of Vulkan SC alone.
    pub structures: Vec<Structure>,
    /// The registry was fetched, so that it may be newer than the one that the bindings were made of.
    pub newer_than_bindings: bool,
    aliases: BTreeMap<String, String>,
}

/// A tag: its name and attributes, and the text behind it.
struct Tag<'a> {
    name: &'a str,
    inside: &'a str,
    text: &'a str,
}

impl<'a> Tag<'a> {
    fn attribute(&self, name: &str) -> Option<&'a str> {
        let at = self.inside.find(&format!(" {name}=\""))?;
        self.inside[at + name.len() + 3..].split('"').next()
    }
}

fn tags(text: &str) -> impl Iterator<Item = Tag<'_>> {
    text.split('<').skip(1).filter_map(|piece| {
        let (inside, text) = piece.split_once('>')?;
        let name = inside.split([' ', '/']).find(|word| !word.is_empty())?;
        Some(Tag { name: if inside.starts_with('/') { "/" } else { name }, inside, text })
    })
}

impl Registry {
    /// The newest registry on this machine. None, and a line, where there is none; a failure where the test command
    /// has installed what it needs.
    pub fn newest() -> Option<Registry> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let target = target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target"));
        let fetched = target.join("registry/vk.xml");
        let installed = Path::new("/usr/share/vulkan/registry/vk.xml");
        for (path, newer_than_bindings) in [(fetched.as_path(), true), (installed, false)] {
            if let Ok(text) = std::fs::read_to_string(path) {
                return Some(Registry { newer_than_bindings, ..Registry::parse(&text) });
            }
        }
        crate::skip::missing(&crate::skip::this_test(), "no vk.xml");
        None
    }

    fn parse(text: &str) -> Registry {
        let mut numbers = BTreeMap::new();
        let mut required = BTreeSet::new();
        let (mut extension, mut ours, mut wanted) = (0, false, false);
        for tag in tags(text) {
            let vulkan = |list: &str| list.split(',').any(|api| api == "vulkan");
            match tag.name {
                "feature" | "extension" if tag.attribute("struct").is_none() => {
                    let apis = tag.attribute("supported").or(tag.attribute("api")).unwrap_or_default();
                    ours = vulkan(apis);
                    extension = tag.attribute("number").and_then(|n| n.parse().ok()).unwrap_or(0);
                }
                "require" => wanted = ours && tag.attribute("api").is_none_or(vulkan),
                "type" if wanted => required.extend(tag.attribute("name")),
                "enum" => {
                    let Some(name) = tag.attribute("name").filter(|n| n.starts_with("VK_STRUCTURE_TYPE_"))
                    else {
                        continue;
                    };
                    let number = |name| tag.attribute(name).and_then(|text| text.parse::<i32>().ok());
                    let value = number("value").or_else(|| {
                        let block = number("extnumber").unwrap_or(extension);
                        Some(1_000_000_000 + 1000 * (block - 1) + number("offset")?)
                    });
                    numbers.extend(value.map(|value| (name, value)));
                }
                _ => {}
            }
        }
        let mut registry =
            Registry { structures: Vec::new(), newer_than_bindings: false, aliases: BTreeMap::new() };
        for body in text.split("<type ").skip(1) {
            let inside = format!(" {}", body.split('>').next().unwrap());
            let open = Tag { name: "type", inside: &inside, text: "" };
            let Some(name) = open.attribute("name").filter(|_| open.attribute("category") == Some("struct"))
            else {
                continue;
            };
            if let Some(alias) = open.attribute("alias") {
                registry.aliases.insert(name.to_owned(), alias.to_owned());
                continue;
            }
            let Some(s_type) = body.split("values=\"").nth(1).and_then(|rest| rest.split('"').next()) else {
                continue;
            };
            let (Some(&s_type), true) = (numbers.get(s_type), required.contains(name)) else { continue };
            let mut members = Vec::new();
            let mut counts = false;
            for tag in tags(body) {
                match tag.name {
                    "member" => counts = tag.attribute("api").is_none_or(|api| api == "vulkan"),
                    "type" if std::mem::take(&mut counts) => members.push(tag.text.to_owned()),
                    _ => {}
                }
            }
            let extends = open.attribute("structextends").unwrap_or_default();
            registry.structures.push(Structure {
                name: name.to_owned(),
                s_type,
                extends: extends.split(',').map(str::to_owned).collect(),
                members: members.split_off(members.len().min(2)),
            });
        }
        registry
    }

    /// Whether the registry has a structure of this name.
    pub fn knows(&self, name: &str) -> bool {
        self.aliases.contains_key(name) || self.structures.iter().any(|structure| structure.name == name)
    }

    /// What a name is another name of.
    pub fn aliased(&self, name: &str) -> Option<&String> {
        self.aliases.get(name)
    }
}
