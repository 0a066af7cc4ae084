//! Modules, imports and paths in a file.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, Item, Lit, Meta, UseTree, Visibility};

/// The segments of a path, as written.
pub type Path = Vec<String>;

/// One imported name: a leaf of a `use` tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The imported path; for `*`, the path before it.
    pub path: Path,
    /// The name it has here; `*` for everything.
    pub name: String,
    /// The import is a re-export (`pub use`).
    pub public: bool,
    /// The import stands in the module, not in a function's body.
    pub in_module: bool,
}

/// A declared module.
#[derive(Clone, Debug)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// Its file, if the declaration names one.
    pub file: Option<String>,
    /// Its content between braces, if it has no file.
    pub inline: Option<Contents>,
}

/// The content of a module.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// Modules below it.
    pub modules: Vec<Declared>,
    /// The leaves of `use` declarations.
    pub imports: Vec<Import>,
    /// Other paths of two segments or more.
    pub paths: BTreeSet<Path>,
    /// Items that it defines.
    pub defined: BTreeSet<String>,
}

/// Reads a file. Code under `#[cfg(test)]` is left out.
///
/// # Errors
/// The text is not Rust.
pub fn read(text: &str) -> Result<Contents, String> {
    let file = syn::parse_file(text).map_err(|error| error.to_string())?;
    let mut contents = Contents::default();
    let is_for_tests = file.attrs.iter().any(|attribute| {
        matches!(&attribute.meta, Meta::List(list) if list.path.is_ident("cfg") && list.tokens.to_string() == "test")
    });
    if !is_for_tests {
        contents.read(&file.items);
    }
    Ok(contents)
}

impl Contents {
    /// Reads the items of a module.
    fn read(&mut self, items: &[Item]) {
        for item in items.iter().filter(|item| !is_for_tests(item)) {
            let defined = match item {
                Item::Use(tree) => {
                    self.import(
                        &tree.tree,
                        &mut Vec::new(),
                        !matches!(tree.vis, Visibility::Inherited),
                        true,
                    );
                    continue;
                }
                Item::Mod(module) => {
                    let inline = module.content.as_ref().map(|(_, items)| {
                        let mut contents = Contents::default();
                        contents.read(items);
                        contents
                    });
                    let file = module.attrs.iter().find_map(file_of);
                    self.modules.push(Declared { name: name(&module.ident), file, inline });
                    continue;
                }
                Item::Fn(item) => Some(&item.sig.ident),
                Item::Struct(item) => Some(&item.ident),
                Item::Enum(item) => Some(&item.ident),
                Item::Trait(item) => Some(&item.ident),
                Item::Type(item) => Some(&item.ident),
                Item::Const(item) => Some(&item.ident),
                Item::Static(item) => Some(&item.ident),
                Item::Union(item) => Some(&item.ident),
                Item::Macro(item) => item.ident.as_ref(),
                _ => None,
            };
            self.defined.extend(defined.map(name));
            self.visit_item(item);
        }
    }

    /// Adds the leaves of a `use` tree.
    fn import(&mut self, tree: &UseTree, path: &mut Path, public: bool, in_module: bool) {
        let (last, name) = match tree {
            UseTree::Path(step) => {
                path.push(name(&step.ident));
                self.import(&step.tree, path, public, in_module);
                path.pop();
                return;
            }
            UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| self.import(tree, path, public, in_module));
            }
            UseTree::Glob(_) => (None, "*".to_owned()),
            UseTree::Name(leaf) => (Some(name(&leaf.ident)), name(&leaf.ident)),
            UseTree::Rename(leaf) => (Some(name(&leaf.ident)), name(&leaf.rename)),
        };
        let itself = last.as_deref() == Some("self") && !path.is_empty();
        let path: Path = path.iter().cloned().chain(last.filter(|_| !itself)).collect();
        let name = if itself && name == "self" { path.last().cloned().unwrap_or_default() } else { name };
        self.imports.push(Import { path, name, public, in_module });
    }

    /// Adds the paths in the arguments of a macro.
    fn scan(&mut self, tokens: TokenStream) {
        let mut path = Path::new();
        let mut colons = 0;
        for token in tokens {
            match &token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.add(std::mem::take(&mut path));
                    }
                    path.push(name(ident));
                    colons = 0;
                }
                _ => {
                    self.add(std::mem::take(&mut path));
                    colons = 0;
                    if let TokenTree::Group(group) = token {
                        self.scan(group.stream());
                    }
                }
            }
        }
        self.add(path);
    }

    fn add(&mut self, path: Path) {
        if path.len() > 1 {
            self.paths.insert(path);
        }
    }
}

/// What is visited unless only tests compile it.
macro_rules! unless_test {
    ($($visit:ident: $node:ident,)*) => {
        $(fn $visit(&mut self, node: &'ast syn::$node) {
            if !is_for_tests(node) {
                visit::$visit(self, node);
            }
        })*
    };
}

impl<'ast> Visit<'ast> for Contents {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            _ if is_for_tests(item) => {}
            // In a function's body.
            Item::Use(tree) => self.import(&tree.tree, &mut Vec::new(), false, false),
            _ => visit::visit_item(self, item),
        }
    }

    unless_test! {
        visit_arm: Arm, visit_field: Field, visit_field_value: FieldValue, visit_impl_item: ImplItem,
        visit_stmt: Stmt, visit_trait_item: TraitItem, visit_variant: Variant,
    }

    /// The path in a visibility is not an import.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        // A path with a leading `::` belongs to another crate.
        if path.leading_colon.is_none() {
            self.add(path.segments.iter().map(|segment| name(&segment.ident)).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.scan(call.tokens.clone());
        visit::visit_macro(self, call);
    }
}

fn name(ident: &proc_macro2::Ident) -> String {
    ident.to_string().trim_start_matches("r#").to_owned()
}

/// Whether code begins with `#[cfg(test)]` or `#[cfg(all(test, ...))]`, among other attributes.
fn is_for_tests(code: &impl ToTokens) -> bool {
    let tokens: Vec<TokenTree> = code.to_token_stream().into_iter().collect();
    let attributes = tokens.chunks(2).take_while(|pair| pair[0].to_string() == "#");
    attributes.filter_map(|pair| pair.get(1)).any(|attribute| {
        let text: String = attribute.to_string().split_whitespace().collect();
        text == "[cfg(test)]" || text.starts_with("[cfg(all(test,")
    })
}

/// The value of `#[path = "..."]`.
fn file_of(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}
