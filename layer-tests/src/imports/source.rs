//! Modules, imports and paths in a file, read from its tokens, so that the arguments of macros count too.

use std::collections::BTreeSet;
use std::str::FromStr as _;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

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
    let tokens = TokenStream::from_str(text).map_err(|error| error.to_string())?;
    let mut contents = Contents::default();
    Reader { tokens: tokens.into_iter().collect(), at: 0, contents: &mut contents, in_module: true }.read();
    Ok(contents)
}

const ITEMS: [&str; 8] = ["fn", "struct", "enum", "trait", "type", "const", "static", "union"];

struct Reader<'a> {
    tokens: Vec<TokenTree>,
    at: usize,
    contents: &'a mut Contents,
    /// The tokens belong to the module itself, not to one of its items.
    in_module: bool,
}

impl Reader<'_> {
    fn read(&mut self) {
        let mut public = false;
        let mut file = None;
        while let Some(token) = self.tokens.get(self.at).cloned() {
            match &token {
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    let inner = self.is_punct(self.at + 1, '!');
                    let attribute = self.at + 1 + usize::from(inner);
                    let Some(group) = self.group(attribute, Delimiter::Bracket) else {
                        self.at += 1;
                        continue;
                    };
                    self.at = attribute + 1;
                    if is_test(&group) {
                        if inner {
                            return;
                        }
                        self.skip_item();
                    } else if let Some(path) = path_attribute(&group) {
                        file = Some(path);
                    } else {
                        self.inside(&group);
                    }
                }
                TokenTree::Ident(word) if word == "pub" => {
                    public = true;
                    self.at += 1;
                    // The path in a visibility is not an import.
                    if self.group(self.at, Delimiter::Parenthesis).is_some() {
                        self.at += 1;
                    }
                }
                TokenTree::Ident(word) if word == "use" && !self.is_punct(self.at + 1, '<') => {
                    self.at += 1;
                    let end = self.find(';');
                    let tree = &self.tokens[self.at..end];
                    let start = self.contents.imports.len();
                    read_tree(tree, &[], &mut self.contents.imports);
                    for import in &mut self.contents.imports[start..] {
                        (import.public, import.in_module) = (public, self.in_module);
                    }
                    self.at = end;
                    public = false;
                }
                TokenTree::Ident(word) if word == "mod" && self.in_module => {
                    let name = self.ident(self.at + 1).unwrap_or_default();
                    let inline = self.group(self.at + 2, Delimiter::Brace).map(|group| {
                        let mut contents = Contents::default();
                        let tokens = group.stream().into_iter().collect();
                        Reader { tokens, at: 0, contents: &mut contents, in_module: true }.read();
                        contents
                    });
                    self.contents.modules.push(Declared { name, file: file.take(), inline });
                    self.at += 3;
                    public = false;
                }
                TokenTree::Ident(word) => {
                    if self.in_module && ITEMS.iter().any(|item| word == item) {
                        self.contents.defined.extend(self.ident(self.at + 1));
                        public = false;
                    }
                    if self.in_module && word == "macro_rules" {
                        self.contents.defined.extend(self.ident(self.at + 2));
                    }
                    self.path();
                }
                TokenTree::Group(group) => {
                    self.inside(group);
                    self.at += 1;
                }
                _ => self.at += 1,
            }
        }
    }

    fn inside(&mut self, group: &Group) {
        let tokens = group.stream().into_iter().collect();
        Reader { tokens, at: 0, contents: self.contents, in_module: false }.read();
    }

    /// Reads the path that begins here.
    fn path(&mut self) {
        let absolute = self.at > 1 && self.is_colons(self.at - 2);
        let mut path = Vec::new();
        while let Some(segment) = self.ident(self.at) {
            path.push(segment);
            self.at += 1;
            if !self.is_colons(self.at) || self.ident(self.at + 2).is_none() {
                break;
            }
            self.at += 2;
        }
        if path.len() > 1 && !absolute {
            self.contents.paths.insert(path);
        }
    }

    /// Skips the item, field or statement that begins here.
    fn skip_item(&mut self) {
        let words = || self.tokens[self.at..].iter().filter_map(ident).take(3);
        let is = |names: &[&str]| words().any(|word| names.contains(&word.as_str()));
        let to_semicolon = is(&["use", "let"]) || (is(&["const", "static", "type"]) && !is(&["fn"]));
        let item = is(&["fn", "impl", "mod", "struct", "enum", "trait", "unsafe", "extern", "macro_rules"]);
        while let Some(token) = self.tokens.get(self.at) {
            self.at += 1;
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ';' => return,
                TokenTree::Punct(punct) if punct.as_char() == ',' && !item && !to_semicolon => return,
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace && !to_semicolon => return,
                _ => {}
            }
        }
    }

    fn find(&self, end: char) -> usize {
        (self.at..self.tokens.len()).find(|&at| self.is_punct(at, end)).unwrap_or(self.tokens.len())
    }

    fn ident(&self, at: usize) -> Option<String> {
        self.tokens.get(at).and_then(ident)
    }

    fn is_punct(&self, at: usize, char: char) -> bool {
        is_punct(self.tokens.get(at), char)
    }

    fn is_colons(&self, at: usize) -> bool {
        self.is_punct(at, ':') && self.is_punct(at + 1, ':')
    }

    fn group(&self, at: usize, delimiter: Delimiter) -> Option<Group> {
        match self.tokens.get(at) {
            Some(TokenTree::Group(group)) if group.delimiter() == delimiter => Some(group.clone()),
            _ => None,
        }
    }
}

fn ident(token: &TokenTree) -> Option<String> {
    match token {
        TokenTree::Ident(word) => Some(word.to_string().trim_start_matches("r#").to_owned()),
        _ => None,
    }
}

fn is_punct(token: Option<&TokenTree>, char: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == char)
}

/// `#[cfg(test)]` and `#[cfg(all(test, ...))]`.
fn is_test(attribute: &Group) -> bool {
    let text: String = attribute.stream().to_string().split_whitespace().collect();
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

/// The value of `#[path = "..."]`.
fn path_attribute(attribute: &Group) -> Option<String> {
    let tokens: Vec<TokenTree> = attribute.stream().into_iter().collect();
    match &tokens[..] {
        [TokenTree::Ident(word), _, TokenTree::Literal(text)] if word == "path" => {
            Some(text.to_string().trim_matches('"').to_owned())
        }
        _ => None,
    }
}

/// Reads a `use` tree into its leaves.
fn read_tree(tokens: &[TokenTree], prefix: &[String], imports: &mut Vec<Import>) {
    let mut path = prefix.to_vec();
    let mut name = None;
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token {
            TokenTree::Ident(word) if word == "as" => {
                name = tokens.get(at + 1).and_then(ident);
                at += 1;
            }
            TokenTree::Ident(_) => path.extend(ident(token)),
            TokenTree::Punct(punct) if punct.as_char() == '*' => name = Some("*".to_owned()),
            // A path with a leading `::` belongs to another crate.
            TokenTree::Punct(punct) if punct.as_char() == ':' && path.is_empty() => return,
            TokenTree::Group(group) => {
                let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
                for tree in tokens.split(|token| is_punct(Some(token), ',')) {
                    read_tree(tree, &path, imports);
                }
                return;
            }
            _ => {}
        }
        at += 1;
    }
    if tokens.is_empty() {
        return;
    }
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let Some(last) = path.last() else { return };
    let name = name.unwrap_or_else(|| last.clone());
    imports.push(Import { path, name, public: false, in_module: false });
}
