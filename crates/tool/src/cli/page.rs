//! docs/commands.md, which is made of the definitions of the command line, as `--help` and the man pages are.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, Command, CommandFactory as _};

use super::Cli;
use super::help::GROUPS;

/// Columns of a line.
const WIDTH: usize = 120;
/// Options that several commands have and that the beginning of the page describes. The help says something of its own.
const SHARED: [&str; 3] = ["dir", "json", "help"];

/// What the option `--library` of several commands does, which the beginning of the page says once. `install` has
/// another one.
const LIBRARY: &str = "Use this layer library in place of the tool's own, as VKSTASH_LIBRARY does";

/// How an application is named, which the beginning of the page says once.
const NAMED: [&str; 3] = [
    ": its name, or its folder in the stash",
    ": their names, or their folders in the stash",
    ", or its folder in the stash",
];

fn documents() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// A sentence, with the full stop that clap leaves out.
fn sentence(text: &str) -> String {
    if text.ends_with(['.', ':', '`']) { text.to_owned() } else { format!("{text}.") }
}

/// Makes links of the names of documents, such as docs/remote.md.
fn linked(text: &str) -> String {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "/._-#".contains(letter);
    let mut pieces = text.split("docs/");
    let mut linked = pieces.next().unwrap().to_owned();
    for piece in pieces {
        let (name, rest) = piece.split_at(piece.find(|letter| !is_name(letter)).unwrap_or(piece.len()));
        let path = name.trim_end_matches('.');
        let shown = path.split('#').next().unwrap();
        linked += &format!("[{shown}]({path}){}{rest}", &name[path.len()..]);
    }
    linked
}

fn wrapped(text: &str, first: &str, others: &str) -> String {
    let options = textwrap::Options::new(WIDTH)
        .initial_indent(first)
        .subsequent_indent(others)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .break_words(false);
    textwrap::fill(&linked(text), options) + "\n"
}

fn paragraph(text: &str) -> String {
    wrapped(text, "", "") + "\n"
}

fn is_visible(command: &&Command) -> bool {
    !command.is_hide_set()
}

/// How an argument is written: `-j, --jobs N`, `NAME`.
fn written(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let takes_value = argument.get_num_args().is_none_or(|count| count.takes_values());
    let value = names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let options: Vec<_> = short.into_iter().chain(long).collect();
    match (options.join(", "), takes_value) {
        (options, _) if options.is_empty() => value,
        (options, true) => format!("{options} {value}"),
        (options, false) => options,
    }
}

/// The item of an argument in the list of its command.
fn item(argument: &Arg) -> String {
    let mut text = format!("`{}`: ", written(argument));
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    text += &NAMED.iter().fold(help, |help, named| help.replace(named, ""));
    let shown = argument.get_possible_values();
    if !shown.is_empty() && !argument.is_hide_possible_values_set() && argument.get_action().takes_values() {
        let value = |value: &clap::builder::PossibleValue| match value.get_help() {
            Some(help) => format!("`{}` ({})", value.get_name(), lower(&help.to_string())),
            None => format!("`{}`", value.get_name()),
        };
        text += &format!(": {}", shown.iter().map(value).collect::<Vec<_>>().join(", "));
    }
    let defaults = argument.get_default_values();
    if !defaults.is_empty() && argument.get_action().takes_values() {
        let defaults: Vec<_> = defaults.iter().map(|value| value.to_string_lossy()).collect();
        text += &format!("; default: {}", defaults.join(" "));
    }
    wrapped(&text, "* ", "  ")
}

fn lower(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_lowercase().collect::<String>() + letters.as_str())
}

/// The section of a command, and those of the ones below it.
fn section(command: &Command, level: usize) -> String {
    let mut command = command.clone();
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let usage = command.render_usage().to_string();
    let name = command.get_bin_name().unwrap().to_owned();
    let mut text = format!("{} {name}\n\n", "#".repeat(level));
    for part in about.split("\n\n").filter(|part| !part.trim().is_empty()) {
        text += &paragraph(&sentence(part.trim()));
    }
    // What follows lists the options.
    let usage = usage.trim_start_matches("Usage: ");
    if usage != format!("{name} [OPTIONS]") {
        text += &format!("    {usage}\n\n");
    }
    // What is global is in the section of the command above.
    let is_inherited = |argument: &Arg| argument.is_global_set() && level > 2;
    let is_shared = |argument: &Arg| SHARED.contains(&argument.get_id().as_str()) || is_library(argument);
    let is_own = |argument: &&Arg| !argument.is_hide_set() && !is_shared(argument) && !is_inherited(argument);
    let items: String = command.get_arguments().filter(is_own).map(item).collect();
    if !items.is_empty() {
        text += &(items + "\n");
    }
    // The settings stand in docs/configuration.md, out of the same list.
    if let Some(details) = command.get_after_long_help().filter(|_| command.get_name() != "config") {
        text += &format!("{}\n\n", linked(details.to_string().trim()));
    }
    for below in command.get_subcommands().filter(is_visible) {
        text += &section(below, level + 1);
    }
    text
}

/// Whether the command has this option, or one below it has.
fn has(command: &Command, id: &str) -> bool {
    let own = command.get_arguments().any(|argument| argument.get_id() == id);
    own || command.get_subcommands().any(|below| has(below, id))
}

/// The commands of which that is true.
fn names(root: &Command, is_so: impl Fn(&Command) -> bool) -> String {
    let found = root.get_subcommands().filter(is_visible).filter(|command| is_so(command));
    found.map(|command| format!("`{}`", command.get_name())).collect::<Vec<_>>().join(", ")
}

fn is_library(argument: &Arg) -> bool {
    argument.get_help().is_some_and(|help| help.to_string() == LIBRARY)
}

fn beginning(root: &Command) -> String {
    let mut text = "# Commands\n\n".to_owned();
    text += &paragraph(
        "`vkstash` is the command-line tool of the layer. `vkstash COMMAND --help` and the man pages say the \
         same as this page.",
    );
    text += &wrapped(
        &format!(
            "`--json` prints JSON with stable names, which docs/schema describes in a file for each command: {}",
            names(root, |command| has(command, "json"))
        ),
        "* ",
        "  ",
    );
    let dir = "`--dir DIR` uses the stash in this folder instead of the user's, which is `~/.cache/vkstash` or the \
               folder that VKSTASH_DIR names. All commands have it but ";
    text += &wrapped(&format!("{dir}{}", names(root, |command| !has(command, "dir"))), "* ", "  ");
    let library =
        "`--library FILE` uses this layer library in place of the tool's own, as VKSTASH_LIBRARY does: ";
    let have_it = names(root, |command| command.get_arguments().any(is_library));
    text += &wrapped(&format!("{library}{have_it}"), "* ", "  ");
    let named = "An application is named by its name, by a beginning that no other name has, or by its folder in the stash";
    text += &wrapped(named, "* ", "  ");
    text + "\n" + &paragraph(&root.get_after_help().unwrap().to_string())
}

fn page() -> String {
    let mut root = Cli::command();
    root.build();
    let mut text = beginning(&root);
    for name in GROUPS.iter().flat_map(|(_, names)| *names) {
        text += &section(root.find_subcommand(name).unwrap(), 2);
    }
    text.trim_end().to_owned() + "\n"
}

/// With VKSTASH_PUBLISH_GOLDEN set, the file is written.
#[test]
fn the_published_page_is_that_of_the_definitions() {
    let (expected, file) = (page(), documents().join("commands.md"));
    if std::env::var_os("VKSTASH_PUBLISH_GOLDEN").is_some() {
        fs::write(&file, &expected).unwrap();
    }
    let published = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        published == expected,
        "VKSTASH_PUBLISH_GOLDEN=1 cargo test -p vkstash-tool published_page writes it"
    );
}

#[test]
fn each_visible_command_has_a_section() {
    let page = page();
    let has =
        |name: &str| page.lines().any(|line| line.trim_start_matches('#') == format!(" vkstash {name}"));
    let mut root = Cli::command();
    root.build();
    for command in root.get_subcommands().filter(is_visible) {
        assert!(has(command.get_name()), "{}", command.get_name());
        for below in command.get_subcommands().filter(is_visible) {
            let name = format!("{} {}", command.get_name(), below.get_name());
            assert!(has(&name), "{name}");
        }
    }
    assert!(!has("man") && !has("prewarm-worker"));
}

#[test]
fn names_of_documents_become_links() {
    assert_eq!(
        linked("(docs/a.md), docs/b/c.json, docs/d.md#e-f. End"),
        "([a.md](a.md)), [b/c.json](b/c.json), [d.md](d.md#e-f). End"
    );
}
