//! The registry of Vulkan (vk.xml), and the table of structures that is generated from it
//! (`crates/model/src/registry/structures.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use roxmltree::{Document, Node};

/// What capture reads the chains of. A structure that may extend one of these, or one that extends one, has a row.
const PIPELINES: [&str; 18] = [
    "VkGraphicsPipelineCreateInfo",
    "VkComputePipelineCreateInfo",
    "VkRayTracingPipelineCreateInfoKHR",
    "VkRayTracingShaderGroupCreateInfoKHR",
    "VkRayTracingPipelineInterfaceCreateInfoKHR",
    "VkPipelineLibraryCreateInfoKHR",
    "VkPipelineShaderStageCreateInfo",
    "VkPipelineLayoutCreateInfo",
    "VkDescriptorSetLayoutCreateInfo",
    "VkRenderPassCreateInfo",
    "VkRenderPassCreateInfo2",
    "VkAttachmentDescription2",
    "VkAttachmentReference2",
    "VkSubpassDescription2",
    "VkSubpassDependency2",
    "VkShaderModuleCreateInfo",
    "VkSamplerCreateInfo",
    "VkSamplerYcbcrConversionCreateInfo",
];

/// A member of a structure or a union.
struct Member {
    type_name: String,
    is_pointer: bool,
    /// The lengths of its array's dimensions.
    lengths: Vec<u64>,
}

struct Structure {
    members: Vec<Member>,
    is_union: bool,
    extends: Vec<String>,
    /// The value of its sType.
    s_type: Option<i32>,
}

/// What the table needs of a registry.
pub struct Registry {
    version: String,
    structures: BTreeMap<String, Structure>,
    /// The code of each type that is no structure (`crates/model/src/registry.rs`).
    codes: BTreeMap<String, &'static str>,
    aliases: BTreeMap<String, String>,
    /// What Vulkan has; the file has Vulkan SC, too.
    required: BTreeSet<String>,
}

fn is_vulkan(apis: Option<&str>) -> bool {
    apis.is_none_or(|apis| apis.split(',').any(|api| api == "vulkan"))
}

/// All text of an element but its comments.
fn text_of(node: Node<'_, '_>) -> String {
    let is_comment = |text: &Node<'_, '_>| text.ancestors().any(|above| above.has_tag_name("comment"));
    node.descendants().filter(|n| n.is_text() && !is_comment(n)).filter_map(|n| n.text()).collect()
}

fn child_text<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    node.children().find(|child| child.has_tag_name(name))?.text()
}

/// A type's name is an attribute, a child, or in its prototype.
fn name_of<'a>(node: Node<'a, '_>) -> Option<&'a str> {
    let prototype = || node.children().find(|child| child.has_tag_name("proto"));
    node.attribute("name").or_else(|| child_text(node, "name")).or_else(|| child_text(prototype()?, "name"))
}

/// The values of all sTypes.
fn s_types(document: &Document<'_>) -> BTreeMap<String, i32> {
    let mut numbers = BTreeMap::new();
    for node in document.descendants().filter(|node| node.has_tag_name("enum")) {
        let Some(name) = node.attribute("name").filter(|name| name.starts_with("VK_STRUCTURE_TYPE_")) else {
            continue;
        };
        let number = |name| node.attribute(name).and_then(|text| text.parse::<i32>().ok());
        let own = || node.ancestors().find_map(|above| above.attribute("number")?.parse().ok());
        let offset =
            || Some(1_000_000_000 + 1000 * (number("extnumber").or_else(own)? - 1) + number("offset")?);
        numbers.extend(number("value").or_else(offset).map(|value| (name.to_owned(), value)));
    }
    numbers
}

/// The commands of a registry that take a parameter of this type.
///
/// # Errors
/// The text is no registry.
pub fn commands_that_take(text: &str, type_name: &str) -> Result<BTreeSet<String>, String> {
    let document = Document::parse(text).map_err(|error| error.to_string())?;
    let commands = document.descendants().filter(|node| node.has_tag_name("command"));
    let takes = |command: &Node<'_, '_>| {
        let mut parameters = command.children().filter(|child| child.has_tag_name("param"));
        parameters.any(|parameter| child_text(parameter, "type") == Some(type_name))
    };
    Ok(commands.filter(takes).filter_map(name_of).map(str::to_owned).collect())
}

impl Registry {
    /// Reads a registry.
    ///
    /// # Errors
    /// What is not as it is expected to be.
    pub fn parse(text: &str) -> Result<Registry, String> {
        let document = Document::parse(text).map_err(|error| error.to_string())?;
        let numbers = s_types(&document);
        let constants: BTreeMap<&str, u64> = document
            .descendants()
            .filter(|node| node.has_tag_name("enum"))
            .filter_map(|node| Some((node.attribute("name")?, node.attribute("value")?.parse().ok()?)))
            .collect();
        let mut registry = Registry {
            version: String::new(),
            structures: BTreeMap::new(),
            codes: BTreeMap::new(),
            aliases: BTreeMap::new(),
            required: BTreeSet::new(),
        };
        for node in document.descendants().filter(|node| node.has_tag_name("type")) {
            let Some(name) = name_of(node) else { continue };
            if let (Some(alias), Some(_)) = (node.attribute("alias"), node.attribute("category")) {
                registry.aliases.insert(name.to_owned(), alias.to_owned());
            } else if matches!(node.attribute("category"), Some("struct" | "union")) {
                let structure =
                    structure(node, &constants, &numbers).map_err(|why| format!("{name}: {why}"))?;
                registry.structures.insert(name.to_owned(), structure);
            } else if node.attribute("category") == Some("define") {
                if name == "VK_HEADER_VERSION" && is_vulkan(node.attribute("api")) {
                    registry.version = text_of(node).split_whitespace().last().unwrap_or_default().to_owned();
                }
            } else if let Some(code) = code(node, name) {
                registry.codes.insert(name.to_owned(), code);
            }
        }
        registry.require(&document);
        Ok(registry)
    }

    fn require(&mut self, document: &Document<'_>) {
        let blocks = document.descendants().filter(|node| node.has_tag_name("require"));
        for block in blocks.filter(|block| is_vulkan(block.attribute("api"))) {
            let Some(owner) = block.parent() else { continue };
            if is_vulkan(owner.attribute("supported").or(owner.attribute("api"))) {
                let types = block.children().filter(|child| child.has_tag_name("type"));
                self.required.extend(types.filter_map(|child| child.attribute("name")).map(str::to_owned));
            }
        }
    }

    /// The names of all structures that may stand in the chain of one of these, also behind another one that may.
    fn below(&self, roots: &BTreeSet<&str>) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        loop {
            let known = found.len();
            for (name, structure) in &self.structures {
                let may = |extended: &String| {
                    roots.contains(extended.as_str()) || found.contains(extended.as_str())
                };
                let belongs = structure.s_type.is_some() && self.required.contains(name);
                if belongs && structure.extends.iter().any(may) {
                    found.insert(name.as_str());
                }
            }
            if found.len() == known {
                return found;
            }
        }
    }

    /// The text of the table.
    ///
    /// # Errors
    /// The name of a type that the registry does not explain.
    pub fn table(&self) -> Result<String, String> {
        let state = |name: &&String| name.starts_with("VkPipeline") && name.ends_with("StateCreateInfo");
        let pipelines = self.structures.keys().filter(state).map(String::as_str).chain(PIPELINES).collect();
        let mut text = format!(
            "//! The structures of Vulkan that may stand in chains that the layer reads, copies or hashes. Generated from\n\
             //! version 1.4.{} of the registry: scripts/registry.sh writes this file.\n\n\
             use super::layout::Part::{{self, *}};\nuse super::layout::Structure;\n\n\
             const fn row(name: &'static str, s_type: i32, parts: &[Part]) -> Structure {{\n    \
             Structure::new(name, s_type, parts)\n}}\n",
            self.version
        );
        let device = BTreeSet::from(["VkDeviceCreateInfo"]);
        for (what, constant, roots) in [
            ("pipelines, and of what they are made of", "PIPELINES", &pipelines),
            ("VkDeviceCreateInfo", "DEVICES", &device),
        ] {
            let _ = write!(
                text,
                "\n/// What may stand in chains of {what}.\n#[rustfmt::skip]\npub static {constant}: &[Structure] = &[\n"
            );
            for name in self.below(roots) {
                let structure = &self.structures[name];
                let (short, s_type) = (&name[2..], structure.s_type.unwrap_or_default());
                let parts = self.parts(&structure.members[structure.members.len().min(2)..])?;
                let _ = writeln!(text, "    row(\"{short}\", {s_type}, &[{parts}]),");
            }
            text += "];\n";
        }
        Ok(text)
    }

    /// The codes of members.
    fn parts(&self, members: &[Member]) -> Result<String, String> {
        let parts: Result<Vec<String>, String> = members.iter().map(|member| self.part(member)).collect();
        Ok(parts?.join(", "))
    }

    fn part(&self, member: &Member) -> Result<String, String> {
        let mut part =
            if member.is_pointer { "Pointer".to_owned() } else { self.part_of(&member.type_name)? };
        for length in &member.lengths {
            part = format!("Many({length}, &{part})");
        }
        Ok(part)
    }

    fn part_of(&self, type_name: &str) -> Result<String, String> {
        if let Some(code) = self.codes.get(type_name) {
            return Ok((*code).to_owned());
        }
        if let Some(alias) = self.aliases.get(type_name) {
            return self.part_of(alias);
        }
        let structure = self.structures.get(type_name).ok_or_else(|| format!("what is {type_name}?"))?;
        let kind = if structure.is_union { "OneOf" } else { "All" };
        Ok(format!("{kind}(&[{}])", self.parts(&structure.members)?))
    }
}

/// The code of a type that is no structure.
fn code(node: Node<'_, '_>, name: &str) -> Option<&'static str> {
    let inner = child_text(node, "type");
    Some(match (node.attribute("category"), name) {
        (_, "VkBool32") => "Switch",
        (Some("enum"), _) => "Word",
        (Some("bitmask"), _) => {
            if inner == Some("VkFlags64") {
                "Long"
            } else {
                "Word"
            }
        }
        (Some("handle"), _) => {
            if inner == Some("VK_DEFINE_HANDLE") {
                "Pointer"
            } else {
                "Handle"
            }
        }
        (Some("funcpointer"), _) => "Pointer",
        (Some("basetype"), _) => match inner {
            Some("uint32_t") => "Word",
            Some("uint64_t") => "Long",
            _ => return None,
        },
        (None, "uint32_t" | "int32_t" | "float") => "Word",
        (None, "uint64_t" | "int64_t" | "double") => "Long",
        (None, "uint16_t" | "int16_t") => "Half",
        (None, "uint8_t" | "int8_t" | "char") => "Byte",
        (None, "size_t") => "Size",
        (None, "int") => "Word",
        // Windows.
        (None, "HANDLE" | "HINSTANCE" | "HWND" | "HMONITOR" | "LPCWSTR") => "Pointer",
        (None, "DWORD") => "Word",
        _ => return None,
    })
}

fn structure(
    node: Node<'_, '_>,
    constants: &BTreeMap<&str, u64>,
    numbers: &BTreeMap<String, i32>,
) -> Result<Structure, String> {
    let mut members = Vec::new();
    let mut s_type = None;
    for member in node.children().filter(|child| child.has_tag_name("member")) {
        if !is_vulkan(member.attribute("api")) {
            continue;
        }
        if child_text(member, "name") == Some("sType") {
            s_type = member.attribute("values").and_then(|value| numbers.get(value)).copied();
        }
        let text = text_of(member);
        let mut lengths = Vec::new();
        for length in text.split('[').skip(1) {
            let length = length.split(']').next().unwrap_or_default();
            let known = length.parse().ok().or_else(|| constants.get(length).copied());
            lengths.push(known.ok_or_else(|| format!("an array of {length}"))?);
        }
        members.push(Member {
            type_name: child_text(member, "type").ok_or("a member without a type")?.to_owned(),
            is_pointer: text.contains('*'),
            lengths,
        });
    }
    let extends = node.attribute("structextends").unwrap_or_default();
    Ok(Structure {
        members,
        is_union: node.attribute("category") == Some("union"),
        extends: extends.split(',').map(str::to_owned).collect(),
        s_type,
    })
}
