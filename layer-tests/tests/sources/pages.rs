//! Tests of the pages: each is reached from README.md, each link leads somewhere, a limit that a table names is that
//! of the code, a default stands on one page, and pages stay short.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use syn::visit::{self, Visit};

use crate::words::{files, repository};

fn pages() -> BTreeMap<PathBuf, String> {
    let is_page = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "md");
    let text = |file: PathBuf| {
        let text = fs::read_to_string(repository().join(&file)).unwrap();
        (file, text)
    };
    files().into_iter().filter(is_page).map(text).collect()
}

/// The lines of a page that are not inside a block of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The targets of the links of a page, those to the network left out.
fn links(text: &str) -> Vec<String> {
    let text = prose(text).collect::<Vec<_>>().join("\n");
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let targets = targets.map(|(target, _)| target.replace('\n', ""));
    targets.filter(|target| !target.contains("://") && !target.contains(' ')).collect()
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let headings = prose(text).filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let is_kept = |letter: &char| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter);
            let anchor = title.chars().filter(is_kept).collect::<String>().replace(' ', "-");
            let before = seen.entry(anchor.clone()).or_default();
            *before += 1;
            if *before == 1 { anchor } else { format!("{anchor}-{}", *before - 1) }
        })
        .collect()
}

/// The path that a link of this page leads to, below the root of the repository.
fn target(page: &Path, link: &str) -> PathBuf {
    let link = link.split('#').next().unwrap();
    if link.is_empty() {
        return page.to_owned();
    }
    let mut path = PathBuf::new();
    for part in page.parent().unwrap().join(link).components() {
        match part {
            Component::ParentDir => assert!(path.pop(), "{}: {link}", page.display()),
            part => path.push(part),
        }
    }
    path
}

#[test]
fn every_page_is_reached_from_the_readme() {
    let pages = pages();
    let mut reached = BTreeSet::new();
    let mut to_read = vec![PathBuf::from("README.md")];
    while let Some(page) = to_read.pop() {
        if reached.insert(page.clone()) {
            let text = pages.get(&page).map_or("", String::as_str);
            to_read.extend(links(text).iter().map(|link| target(&page, link)));
        }
    }
    let unreached: Vec<_> = pages.keys().filter(|page| !reached.contains(*page)).collect();
    assert!(unreached.is_empty(), "no page that a reader finds links {unreached:?}");
}

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    let mut wrong = Vec::new();
    for (page, text) in &pages {
        for link in links(text) {
            let target = target(page, &link);
            let anchor = link.split_once('#').map(|(_, anchor)| anchor);
            let leads = match (pages.get(&target), anchor) {
                (Some(text), Some(anchor)) => anchors(text).contains(anchor),
                _ => repository().join(&target).exists(),
            };
            if !leads {
                wrong.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn links_and_anchors_are_found() {
    let text = "# A `b` of c's\n[x](y.md#z) [u](https://v)\n```\n# no\n[n](o.md)\n```\n## D\n## D\n[w](#d-1)";
    assert_eq!(links(text), ["y.md#z", "#d-1"]);
    assert_eq!(anchors(text).into_iter().collect::<Vec<_>>(), ["a-b-of-cs", "d", "d-1"]);
    assert_eq!(target(Path::new("docs/a/b.md"), "../c.md#d"), Path::new("docs/c.md"));
    assert_eq!(target(Path::new("docs/b.md"), "#d"), Path::new("docs/b.md"));
}

/// A number of the code as a page writes it: of 64 and of 32 bits, where they differ.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    /// Microseconds.
    Time(u64),
    Number(u64, u64),
}

/// The constants of a file by their names.
#[derive(Default)]
struct Constants<'ast>(BTreeMap<String, &'ast syn::Expr>);

impl<'ast> Visit<'ast> for Constants<'ast> {
    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.0.entry(item.ident.to_string()).or_insert(&item.expr);
        visit::visit_item_const(self, item);
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.0.entry(item.ident.to_string()).or_insert(&item.expr);
        visit::visit_impl_item_const(self, item);
    }
}

impl Constants<'_> {
    fn value(&self, expression: &syn::Expr) -> Option<Value> {
        use syn::{BinOp, Expr};
        let number = |expression: &syn::Expr| match self.value(expression)? {
            Value::Number(wide, narrow) => Some((wide, narrow)),
            Value::Time(_) => None,
        };
        Some(match expression {
            Expr::Lit(literal) => match &literal.lit {
                syn::Lit::Int(number) => {
                    let number = number.base10_parse().ok()?;
                    Value::Number(number, number)
                }
                _ => return None,
            },
            Expr::Path(path) => self.value(self.0.get(&path.path.get_ident()?.to_string())?)?,
            Expr::Binary(binary) => {
                let apply: fn(u64, u64) -> u64 = match binary.op {
                    BinOp::Shl(_) => |a, b| a << b,
                    BinOp::Div(_) => |a, b| a / b,
                    BinOp::Mul(_) => |a, b| a * b,
                    BinOp::Sub(_) => |a, b| a - b,
                    _ => return None,
                };
                let ((a, a32), (b, b32)) = (number(&binary.left)?, number(&binary.right)?);
                Value::Number(apply(a, b), apply(a32, b32))
            }
            Expr::If(choice) => {
                let only = |block: &syn::Block| match block.stmts.first()? {
                    syn::Stmt::Expr(expression, None) => number(expression),
                    _ => None,
                };
                let Expr::Block(wide) = &*choice.else_branch.as_ref()?.1 else { return None };
                Value::Number(only(&wide.block)?.0, only(&choice.then_branch)?.0)
            }
            Expr::Call(call) => {
                let Expr::Path(function) = &*call.func else { return None };
                let name = function.path.segments.last()?.ident.to_string();
                let first = number(call.args.first()?)?;
                match name.as_str() {
                    "bounded" => Value::Number(first.0, number(call.args.get(1)?)?.0),
                    "from_secs" => Value::Time(first.0 * 1_000_000),
                    "from_millis" => Value::Time(first.0 * 1_000),
                    "from_micros" => Value::Time(first.0),
                    _ => return None,
                }
            }
            _ => return None,
        })
    }
}

/// The words for it: `15 ms`, `24 MiB (6 MiB`, `1,024 (256`.
fn words(value: &Value) -> String {
    let with_commas = |number: u64| {
        let digits = number.to_string();
        let groups: Vec<&str> =
            digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap()).collect();
        groups.join(",")
    };
    let one = |number: u64| match number {
        0 => "0".to_owned(),
        _ if number % (1 << 30) == 0 => format!("{} GiB", number >> 30),
        _ if number % (1 << 20) == 0 => format!("{} MiB", number >> 20),
        _ => with_commas(number),
    };
    match *value {
        Value::Time(micros) if micros % 1_000_000 == 0 => format!("{} s", micros / 1_000_000),
        Value::Time(micros) if micros % 1_000 == 0 => format!("{} ms", micros / 1_000),
        Value::Time(micros) => format!("{micros} us"),
        Value::Number(wide, narrow) if wide == narrow => one(wide),
        Value::Number(wide, narrow) => format!("{} ({}", one(wide), one(narrow)),
    }
}

/// What the code says of a constant, `folder/file.rs::NAME`.
fn constant(name: &str, files: &[PathBuf]) -> String {
    let (file, constant) = name.split_once("::").unwrap_or_else(|| panic!("{name}"));
    let found: Vec<&PathBuf> = files.iter().filter(|path| path.ends_with(file)).collect();
    assert_eq!(found.len(), 1, "{name}: {found:?}");
    let parsed = syn::parse_file(&fs::read_to_string(repository().join(found[0])).unwrap()).unwrap();
    let mut constants = Constants::default();
    constants.visit_file(&parsed);
    let expression = constants.0.get(constant).unwrap_or_else(|| panic!("there is no {name}"));
    words(&constants.value(expression).unwrap_or_else(|| panic!("{name} cannot be read")))
}

/// The rows of tables whose last column is headed *constant*.
fn rows_with_constants(text: &str) -> Vec<(&str, &str)> {
    let mut rows = Vec::new();
    let mut is_table = false;
    for line in prose(text) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        match cells.as_slice() {
            [.., "constant"] => is_table = true,
            [_, limit, constant] if is_table && line.starts_with("| ") => rows.push((*limit, *constant)),
            _ => is_table &= line.starts_with('|'),
        }
    }
    rows
}

#[test]
fn limits_of_pages_are_those_of_the_code() {
    let files = files();
    let mut count = 0;
    for (page, text) in pages() {
        for (limit, name) in rows_with_constants(&text) {
            let expected = constant(name.trim_matches('`'), &files);
            let page = page.display();
            assert!(limit.split(", ").any(|part| part.contains(&expected)), "{page}: {name} is {expected}");
            count += 1;
        }
    }
    assert!(count > 10, "only {count} limits");
}

#[test]
fn constants_are_read() {
    let file = syn::parse_file(
        "const A: usize = bounded(64 << 20, 16 << 20); const B: usize = A / 8 * 3; const C: Duration = \
         Duration::from_millis(1500); impl X { const D: usize = if cfg!(target_pointer_width = \"32\") { 256 } \
         else { 1024 }; } const E: usize = f();",
    )
    .unwrap();
    let mut constants = Constants::default();
    constants.visit_file(&file);
    let value = |name: &str| constants.value(constants.0[name]).map(|value| words(&value));
    let expected = [("B", "24 MiB (6 MiB"), ("C", "1500 ms"), ("D", "1,024 (256")];
    for (name, expected) in expected {
        assert_eq!(value(name).as_deref(), Some(expected));
    }
    assert_eq!(value("E"), None);
}

#[test]
fn rows_with_constants_are_found() {
    let text = "| a | b | constant |\n|---|---|---|\n| c | 1 ms | `d` |\n\n| e | f | g |\n";
    assert_eq!(rows_with_constants(text), [("1 ms", "`d`")]);
}

/// The page with the lists of settings and variables, which are made of the code.
const CONFIGURATION: &str = "docs/configuration.md";

/// The names and default numbers of the tables that are made of lists in the code: `limit` and `4 GiB`.
fn defaults(configuration: &str) -> Vec<(String, String)> {
    let generated = configuration.split("<!-- generated: ").skip(1);
    let rows = generated.flat_map(|rest| rest.split("<!-- end -->").next().unwrap().lines().skip(3));
    let of_row = |row: &str| {
        let name = row.split('`').nth(1)?.to_owned();
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        // Settings have a column of defaults; of variables the values name it.
        let cell = match cells.as_slice() {
            [_, _, default, _] => default,
            [_, value, _] if value.contains("by default") => value,
            _ => return None,
        };
        let from = cell.find(|letter: char| letter.is_ascii_digit())?;
        let rest = &cell[from..];
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let unit = ["GiB", "MiB"].into_iter().find(|unit| rest[digits..].trim_start().starts_with(unit));
        let number =
            unit.map_or_else(|| rest[..digits].to_owned(), |unit| format!("{} {unit}", &rest[..digits]));
        // Small numbers stand everywhere.
        (number.len() > 1).then_some((name, number))
    };
    rows.filter_map(of_row).collect()
}

/// Whether a text has this number, not as a part of a longer one.
fn has_number(text: &str, number: &str) -> bool {
    let text = text.replace("GiB", " GiB").replace("MiB", " MiB").replace("  ", " ");
    let is_part =
        |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_alphanumeric() || letter == ',');
    text.match_indices(number).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + number.len()..]);
        !is_part(before.chars().next_back())
            && !after.starts_with(|letter: char| letter.is_ascii_alphanumeric())
    })
}

/// The paragraphs, items and rows of a page.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for line in prose(text) {
        let starts = ["| ", "- ", "* "].iter().any(|start| line.trim_start().starts_with(start));
        if line.trim().is_empty() || starts {
            pieces.push(String::new());
        }
        *pieces.last_mut().unwrap() += line;
        pieces.last_mut().unwrap().push(' ');
    }
    pieces
}

/// What says a default again that the lists say. A limit beside its constant is compared with the code.
fn said_again(text: &str, defaults: &[(String, String)]) -> Vec<String> {
    let repeats = |piece: &String| {
        let found = defaults.iter().find(|(name, number)| {
            let names = piece.contains(&format!("`{name}")) || piece.contains(&format!("`--{name}"));
            names && has_number(piece, number)
        });
        found.map(|(name, number)| format!("{name} is {number}: {piece}"))
    };
    let is_checked = |piece: &&String| !piece.contains(".rs::") || !piece.starts_with("| ");
    pieces(text).iter().filter(is_checked).filter_map(repeats).collect()
}

#[test]
fn a_default_stands_on_one_page() {
    let pages = pages();
    let defaults = defaults(&pages[Path::new(CONFIGURATION)]);
    assert!(defaults.len() >= 5, "{defaults:?}");
    // What commands.md says is made of the code, too, and evidence says what was measured.
    let is_checked = |page: &&PathBuf| {
        let is_made = [CONFIGURATION, "docs/commands.md"].iter().any(|made| *page == Path::new(made));
        !is_made && !page.starts_with("docs/evidence") && !page.starts_with("layer-tests")
    };
    let checked = pages.iter().filter(|(page, _)| is_checked(page));
    let said: Vec<String> = checked
        .flat_map(|(page, text)| said_again(text, &defaults).into_iter().map(move |text| (page, text)))
        .map(|(page, text)| format!("{}: {text}", page.display()))
        .collect();
    assert!(said.is_empty(), "docs/configuration.md says it:\n{}", said.join("\n"));
}

#[test]
fn defaults_that_are_said_again_are_found() {
    let page = "<!-- generated: settings -->\n| n | v | d | m |\n|---|---|---|---|\n| `limit` \\* | size | 4GiB | a |\n\
                | `x` | b | none | c |\n<!-- end -->\n<!-- generated: v -->\n| v | a | m |\n|---|---|---|\n\
                | `V_MS` | milliseconds; 15 by default | c |\n| `W` | a number; 2 by default | d |\n<!-- end -->\n";
    let defaults = defaults(page);
    assert_eq!(defaults, [("limit", "4 GiB"), ("V_MS", "15")].map(|(a, b)| (a.to_owned(), b.to_owned())));
    let text = "At most 4 GiB (`limit`).\n\nA `limit` of 64 GiB.\n\n| `V_MS` | 15 ms | `a.rs::B` |\n- 15 ms, by\n  `V_MS=0`\n";
    let said = said_again(text, &defaults);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].starts_with("limit is 4 GiB: At most") && said[1].starts_with("V_MS is 15"), "{said:?}");
}

/// The bytes of all pages of docs/ but the evidence, and of the two pages of the design.
const MOST: [(&str, usize); 3] =
    [("docs", 220_000), ("docs/architecture.md", 25_000), ("docs/process.md", 30_000)];
/// The lines of README.md, which is one screen.
const MOST_LINES: usize = 80;

/// What is longer than a reader should have to read: something goes when something is added.
#[test]
fn pages_stay_short() {
    let pages = pages();
    for (place, most) in MOST {
        let is_in = |page: &&PathBuf| page.starts_with(place) && !page.starts_with("docs/evidence");
        let bytes: usize = pages.iter().filter(|(page, _)| is_in(page)).map(|(_, text)| text.len()).sum();
        assert!(0 < bytes && bytes <= most, "{place} has {bytes} bytes");
    }
    let lines = pages[Path::new("README.md")].lines().count();
    assert!(lines <= MOST_LINES, "README.md has {lines} lines");
}
