//! Tests of words: excluded ones are in no name, no function is longer than a screen, each file says first what it is,
//! something names each document and script, and documents name files that exist.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use syn::visit::{self, Visit};

/// Lines of a function at most.
const MOST_LINES: usize = 70;

/// Names of types, variants and modules that say what was done and not what it is, and what stands in their place.
const FORBIDDEN: [(&[&str], &str); 13] = [
    (&["Passed", "AppCache", "app_cache"], "ProgramCache, CacheState"),
    (&["Met", "Again", "again"], "PlanState, Replay"),
    (
        &["Beside", "beside", "Further", "Alike", "Lacking", "Filled"],
        "PendingKeys, KeyTable, ShaderKeys, CompanionGap, DriverContents",
    ),
    (&["Held", "Late", "Spare"], "WaitingRecords or LockGuard, driver hits, pauses"),
    (
        &["Made", "Kept"],
        "what was made or kept: Compilation, Decisions, RecipeOutcome, KeptModules, StoredCache",
    ),
    (&["SlowHit", "SlowHits", "slow_hits"], "DriverHit"),
    (
        &["Asked", "Said", "Why", "Got", "Tried", "tried"],
        "StepSource, StepAnswer, OrderReason, CreationResult, Steps",
    ),
    (&["Harmful", "harm"], "PrewarmQuarantine, damage"),
    (&["keepers", "crowd"], "holders, threads"),
    (&["sweep"], "eviction or crash recovery"),
    (&["aside", "surprised"], "away, and what has happened"),
    (&["Setup"], "DeviceConfiguration"),
    (&["program_s_own"], "of_the_program"),
];

/// A statistic of that name is part of the stable JSON form.
const FORBIDDEN_BUT_COUNTERS: &str = "Offered";

/// The root of the repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The files that the repository has, or is about to have.
pub fn files() -> Vec<PathBuf> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(repository())
        .output()
        .unwrap();
    assert!(listed.status.success(), "{listed:?}");
    let listed = String::from_utf8(listed.stdout).unwrap();
    listed.lines().map(PathBuf::from).filter(|file| repository().join(file).is_file()).collect()
}

fn sources() -> impl Iterator<Item = (PathBuf, syn::File)> {
    let is_source = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "rs");
    files().into_iter().filter(is_source).map(|file| {
        let text = fs::read_to_string(repository().join(&file)).unwrap();
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        (file, parsed)
    })
}

/// What is found in one file.
#[derive(Default)]
struct Findings {
    names: Vec<String>,
    long: Vec<String>,
}

impl Findings {
    fn measure(&mut self, name: &syn::Ident, block: &syn::Block) {
        let (first, last) = (name.span().start().line, block.brace_token.span.close().end().line);
        if last - first + 1 > MOST_LINES {
            self.long.push(format!("{name} has {} lines", last - first + 1));
        }
    }

    fn look_at(&mut self, name: &syn::Ident) {
        let text = name.to_string();
        let found = FORBIDDEN.iter().find(|(names, _)| names.contains(&text.as_str()));
        if let Some((_, instead)) = found {
            self.names.push(format!("{text}: {instead}"));
        } else if text == FORBIDDEN_BUT_COUNTERS {
            self.names.push(format!("{text}: Offer"));
        }
    }
}

impl<'ast> Visit<'ast> for Findings {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.look_at(&function.sig.ident);
        self.measure(&function.sig.ident, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.look_at(&function.sig.ident);
        self.measure(&function.sig.ident, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.look_at(&item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.look_at(&item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.look_at(&item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.look_at(&item.ident);
        visit::visit_item_mod(self, item);
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.look_at(&variant.ident);
        visit::visit_variant(self, variant);
    }
}

fn findings(file: &syn::File) -> Findings {
    let mut findings = Findings::default();
    findings.visit_file(file);
    findings
}

#[test]
fn no_name_is_a_forbidden_word() {
    let named = sources().flat_map(|(file, parsed)| {
        let names = findings(&parsed).names;
        names.into_iter().map(move |name| format!("{}: {name}", file.display()))
    });
    let named: Vec<String> = named.collect();
    assert!(named.is_empty(), "{}", named.join("\n"));
}

#[test]
fn no_function_is_longer_than_a_screen() {
    let long = sources().flat_map(|(file, parsed)| {
        let long = findings(&parsed).long;
        long.into_iter().map(move |what| format!("{}: {what}", file.display()))
    });
    let long: Vec<String> = long.collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn words_and_long_functions_are_found() {
    let body = "let a = 1;\n".repeat(MOST_LINES);
    let file = syn::parse_file(&format!("enum Met {{ Again, Other }} mod a {{ fn long() {{\n{body}}} }}"));
    let Findings { names, long } = findings(&file.unwrap());
    assert_eq!(names, ["Met: PlanState, Replay", "Again: PlanState, Replay"]);
    assert_eq!(long, ["long has 72 lines"]);
}

/// Words that begin a question or a clause, where a file's documentation has to begin with what the file is.
const NOT_FIRST: [&str; 6] = ["What", "Whether", "How", "Which", "Where", "Who"];

/// The word that begins the documentation of a file, if it must not.
fn wrong_first_word(text: &str) -> Option<&'static str> {
    let line = text.lines().next()?.strip_prefix("//! ")?;
    let word = line.split(|letter: char| !letter.is_alphanumeric()).next()?;
    NOT_FIRST.into_iter().find(|wrong| *wrong == word)
}

#[test]
fn files_say_first_what_they_are() {
    let is_source = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "rs");
    let wrong: Vec<String> = files()
        .into_iter()
        .filter(is_source)
        .filter_map(|file| {
            let text = fs::read_to_string(repository().join(&file)).unwrap();
            Some(format!("{}: {}", file.display(), wrong_first_word(&text)?))
        })
        .collect();
    assert!(wrong.is_empty(), "begin with a noun, such as \"Tests of\":\n{}", wrong.join("\n"));
}

#[test]
fn only_whole_words_of_first_lines_are_wrong() {
    let texts =
        ["//! What a thing", "//! How: so", "//! Whatever", "//! Tests\n//! What", "// What", "//! Who"];
    let wrong = texts.map(wrong_first_word);
    assert_eq!(wrong, [Some("What"), Some("How"), None, None, None, Some("Who")]);
}

/// A document or a script that nothing names is found by nobody.
#[test]
fn every_document_and_script_is_named() {
    let files = files();
    let is_text = |file: &&PathBuf| {
        let extensions = ["md", "sh", "rs", "toml", "yml", "json"];
        file.extension().is_some_and(|extension| extensions.iter().any(|known| extension == *known))
            || file.starts_with(".ci")
            || file.ends_with("justfile")
    };
    let texts: Vec<(&PathBuf, String)> = files
        .iter()
        .filter(is_text)
        .map(|file| (file, fs::read_to_string(repository().join(file)).unwrap()))
        .collect();
    let to_be_named = |file: &&PathBuf| {
        let is_schema = file.starts_with("docs/schema"); // named after its command
        (file.starts_with("docs") || file.starts_with("scripts") || file.starts_with("contrib"))
            && is_text(file)
            && !is_schema
    };
    let unnamed: Vec<String> = files
        .iter()
        .filter(to_be_named)
        .filter(|file| {
            let name = file.file_name().unwrap().to_str().unwrap();
            !texts.iter().any(|(other, text)| other != file && text.contains(name))
        })
        .map(|file| file.display().to_string())
        .collect();
    assert!(unnamed.is_empty(), "nothing names {unnamed:?}");
}

/// The sources and scripts that a text names in code.
fn named_files(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).filter(|code| {
        let is_path = !code.starts_with('/') && !code.contains([' ', '*', ':', '\n', '{', '<']);
        is_path && [".rs", ".sh"].iter().any(|ending| code.ends_with(ending))
    })
}

#[test]
fn documents_name_files_that_exist() {
    let files = files();
    let documents = files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "md"));
    let mut missing = Vec::new();
    for document in documents {
        let text = fs::read_to_string(repository().join(document)).unwrap();
        let gone = named_files(&text).filter(|named| !files.iter().any(|file| file.ends_with(named)));
        missing.extend(gone.map(|named| format!("{}: {named}", document.display())));
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn names_of_files_are_found_in_code_alone() {
    let text = "`src/a.rs` b.rs `c.sh` `d.rs::e` `f g.rs` `/etc/h.sh`";
    assert_eq!(named_files(text).collect::<Vec<_>>(), ["src/a.rs", "c.sh"]);
}
