//! A configuration file: from TOML to settings, and what is wrong with it.
//!
//! The layer reads these files too, in every program that loads it. So the lexer and parser of the crate toml_parser
//! are used, which make the library 56 KB larger, and not the crate toml, which makes it 115 KB larger.

use std::borrow::Cow;
use std::mem::take;

use toml_parser::decoder::Encoding;
use toml_parser::parser::{EventReceiver, RecursionGuard, parse_document};
use toml_parser::{ErrorSink, ParseError, Raw, Source, Span};

use vkstash_host::sort;
use vkstash_model::app_name::{AppName, sanitised};

use super::names::{APPLICATION_NAMES, NAMES};
use super::values::{Settings, ValueError};

/// The table whose tables are applications.
pub const APPLICATION: &str = "application";
/// Arrays and inline tables that are nested deeper are not read.
const DEEPEST: u32 = 16;

/// What a file says.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Settings of all applications.
    pub all: Settings,
    /// Those of single applications, by what stands in the name of the table.
    pub applications: Vec<(String, Settings)>,
    /// What is ignored.
    pub complaints: Vec<Complaint>,
    /// The file is TOML.
    pub is_toml: bool,
}

/// A line that is ignored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct Complaint {
    /// The line's number, from 1 on.
    pub line: usize,
    /// The reason.
    pub what: Wrong,
}

/// Why a line is ignored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// The line is no TOML.
    #[error("{0}")]
    Syntax(String),
    /// There is no such setting.
    #[error("`{0}` is no setting")]
    Name(String),
    /// There is no such table.
    #[error(
        "`[{0}]` is no section: there are [{APPLICATION}.\"NAME\"] and what stands before the first section"
    )]
    Section(String),
    /// The setting takes another value.
    #[error("`{name}` {error}")]
    Value {
        /// The setting.
        name: String,
        /// What it takes.
        error: ValueError,
    },
    /// The setting cannot be set for one application.
    #[error("`{0}` is set for all applications together, not for one")]
    NotOfApplications(String),
    /// The value before does not count.
    #[error("`{0}` is set twice: the last value counts")]
    Twice(String),
    /// Others may write to the file.
    #[error("`{0}` does not count, because others may write to this file")]
    OthersMayWrite(String),
    /// The file is that of a stash.
    #[error("`{0}` counts in the files of the user and of the system, not in that of a stash")]
    OfRoot(String),
}

impl Config {
    /// Reads a file's text. What is wrong is ignored, and the rest counts.
    pub fn parse(text: &str) -> Config {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let source = Source::new(text);
        let tokens = source.lex().into_vec();
        let (table, key, entries) = Default::default();
        let mut found = Found { source, table, key, depth: 0, entries };
        let mut errors: Vec<ParseError> = Vec::new();
        let mut bounded = RecursionGuard::new(&mut found, DEEPEST);
        parse_document(&tokens, &mut bounded, &mut errors);
        let line = |at: usize| text.as_bytes().iter().take(at).filter(|&&byte| byte == b'\n').count() + 1;
        let mut config = Config { is_toml: errors.is_empty(), ..Config::default() };
        for error in &errors {
            let at = error.unexpected().or(error.context()).map_or(text.len(), |span| span.start());
            let what = Wrong::Syntax(error.description().to_owned());
            config.complaints.push(Complaint { line: line(at), what });
        }
        let mut known: Vec<Vec<String>> = Vec::new();
        for Entry { path, values, is_list, at } in found.entries {
            if let Err(what) = config.set(&path, &values, is_list) {
                config.complaints.push(Complaint { line: line(at), what });
            } else if known.contains(&path) {
                let what = Wrong::Twice(path.last().cloned().unwrap_or_default());
                config.complaints.push(Complaint { line: line(at), what });
            }
            known.push(path);
        }
        sort::by_key(&mut config.complaints, |complaint| complaint.line);
        config
    }

    /// What is set for the application with this folder alone.
    pub fn of(&self, folder: &str) -> Settings {
        let own = self.applications.iter().filter(|(section, _)| is_of(section, folder));
        own.fold(Settings::default(), |settings, (_, own)| settings.or(own))
    }

    /// Notes that a setting of all applications does not count.
    pub(super) fn complain(&mut self, text: &str, name: &str, wrong: fn(String) -> Wrong) {
        let line = text.lines().position(|line| line.trim_start().starts_with(name)).unwrap_or(0) + 1;
        self.complaints.push(Complaint { line, what: wrong(name.to_owned()) });
    }

    fn set(&mut self, path: &[String], values: &[String], is_list: bool) -> Result<(), Wrong> {
        let (name, table) = path.split_last().ok_or_else(|| Wrong::Section(String::new()))?;
        let settings = match table {
            [] => &mut self.all,
            [section, _] if section == APPLICATION && !NAMES.contains(&name.as_str()) => {
                return Err(Wrong::Name(name.clone()));
            }
            [section, _] if section == APPLICATION && !APPLICATION_NAMES.contains(&name.as_str()) => {
                return Err(Wrong::NotOfApplications(name.clone()));
            }
            [section, application] if section == APPLICATION => {
                let known = self.applications.iter().position(|(known, _)| known == application);
                let place = known.unwrap_or_else(|| {
                    self.applications.push((application.clone(), Settings::default()));
                    self.applications.len() - 1
                });
                &mut self.applications[place].1
            }
            _ => return Err(Wrong::Section(table.join("."))),
        };
        let done = match values {
            [value] if !is_list && name != super::BASES => settings.set(name, value),
            values => settings.set_list(name, values),
        };
        done.map_err(|error| match error {
            ValueError::Name => Wrong::Name(name.clone()),
            error => Wrong::Value { name: name.clone(), error },
        })
    }
}

/// Whether a section is that of the application with this folder: by the folder's name, or by the application's, of
/// which a folder has the readable part.
pub fn is_of(section: &str, folder: &str) -> bool {
    section == folder || sanitised(section.as_bytes()) == AppName::display_of(folder)
}

/// A key and its value.
struct Entry {
    /// The names of the tables, and then the key's.
    path: Vec<String>,
    /// The value; of an array, each.
    values: Vec<String>,
    is_list: bool,
    /// Where the value begins.
    at: usize,
}

/// What a document holds.
struct Found<'a> {
    source: Source<'a>,
    /// The table of the entries that come.
    table: Vec<String>,
    /// The parts of the key, or of the name of the table, that was read last.
    key: Vec<String>,
    /// Arrays that are open.
    depth: u32,
    entries: Vec<Entry>,
}

impl Found<'_> {
    fn begin(&mut self, is_list: bool, at: usize) {
        let path = self.table.iter().cloned().chain(take(&mut self.key)).collect();
        self.entries.push(Entry { path, values: Vec::new(), is_list, at });
    }
}

fn refuse(span: Span, error: &mut dyn ErrorSink, why: &'static str) {
    error.report_error(ParseError::new(why).with_unexpected(span));
}

impl EventReceiver for Found<'_> {
    fn std_table_open(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.key.clear();
    }

    fn std_table_close(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.table = take(&mut self.key);
    }

    fn array_table_open(&mut self, span: Span, error: &mut dyn ErrorSink) {
        self.key.clear();
        refuse(span, error, "no setting is an array of tables");
    }

    fn array_table_close(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.table = take(&mut self.key);
    }

    fn inline_table_open(&mut self, span: Span, error: &mut dyn ErrorSink) -> bool {
        refuse(span, error, "no setting is an inline table: write a section");
        false
    }

    fn array_open(&mut self, span: Span, error: &mut dyn ErrorSink) -> bool {
        if self.depth == 0 {
            self.begin(true, span.start());
        } else {
            refuse(span, error, "no setting is an array of arrays");
        }
        self.depth += 1;
        true
    }

    fn array_close(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.depth = self.depth.saturating_sub(1);
    }

    fn simple_key(&mut self, span: Span, kind: Option<Encoding>, error: &mut dyn ErrorSink) {
        let mut name = Cow::Borrowed("");
        if let Some(raw) = self.source.get(span) {
            Raw::new_unchecked(raw.as_str(), kind, span).decode_key(&mut name, error);
        }
        self.key.push(name.into_owned());
    }

    fn scalar(&mut self, span: Span, kind: Option<Encoding>, error: &mut dyn ErrorSink) {
        let mut value = Cow::Borrowed("");
        if let Some(raw) = self.source.get(span) {
            // The type of the value in TOML does not matter: the name of the setting decides how its text is read.
            let _ = Raw::new_unchecked(raw.as_str(), kind, span).decode_scalar(&mut value, error);
        }
        if self.depth == 0 {
            self.begin(false, span.start());
        }
        if let Some(entry) = self.entries.last_mut() {
            entry.values.push(value.into_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::values::CacheKinds;
    use super::*;
    use crate::bounds::ModulePolicy;
    use vkstash_model::background_mode::BackgroundMode;

    fn complaints(text: &str) -> Vec<String> {
        Config::parse(text).complaints.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_setting_is_read_for_all_and_for_one() {
        let config = Config::parse(concat!(
            "\u{feff}# mine\r\n",
            "limit = \"4GiB\"\r\napplication-limit = 1_000_000\nfree-space = \"none\"\n",
            "device-age = 30\nmodules = \"all\"\nbackground = 'intrusive'\ndeveloper-mode = true\n",
            "disabled-caches = [\"sessions\", \"compilations\"]\nbases = [\n  \"/srv/a\", # one\n  '/srv//b/.',\n]\n",
            "[application.\"Elden Ring\"]\nlimit = \"none\"\nmodules = 20\n",
            "[application]\nportal2.background = \"disabled\"\n",
        ));
        assert_eq!(config.complaints, []);
        assert!(config.is_toml);
        let all = &config.all;
        assert_eq!(
            (all.limit, all.application_limit, all.free_space),
            (Some(4 << 30), Some(1_000_000), Some(0))
        );
        assert_eq!((all.device_age_ms, all.modules), (Some(30 * 86_400_000), Some(ModulePolicy::All)));
        assert_eq!((all.background, all.developer_mode), (Some(BackgroundMode::Intrusive), Some(true)));
        assert_eq!(all.disabled_caches, Some(CacheKinds::SESSIONS.with(CacheKinds::COMPILATIONS)));
        assert_eq!(all.bases, ["/srv/a", "/srv/b"].map(std::path::PathBuf::from));
        let [(ring, of_ring), (portal, of_portal)] = config.applications.as_slice() else { panic!() };
        assert_eq!((ring.as_str(), portal.as_str()), ("Elden Ring", "portal2"));
        assert_eq!((of_ring.limit, of_ring.modules), (Some(u64::MAX), Some(ModulePolicy::UsedInLast(20))));
        assert_eq!(of_portal.background, Some(BackgroundMode::Disabled));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line_and_the_rest_counts() {
        let text = "limt = 1\nlimit = \"much\"\n\n[other]\nx = 1\n[application.a]\nfree-space = 1\nlimit = 2\nlimit = 3\n";
        let expected = [
            "line 1: `limt` is no setting",
            "line 2: `limit` takes a size such as 512MiB, 4GiB or 1000000, or none",
            "line 5: `[other]` is no section: there are [application.\"NAME\"] and what stands before the first section",
            "line 7: `free-space` is set for all applications together, not for one",
            "line 9: `limit` is set twice: the last value counts",
        ];
        assert_eq!(complaints(text), expected);
        assert_eq!(Config::parse(text).applications[0].1.limit, Some(3));
    }

    #[test]
    fn text_that_is_no_toml_costs_its_own_lines_alone() {
        for wrong in [
            "limit = \n",
            "limit 4\n",
            "= 3\n",
            "[application\n",
            "limit = \"4GiB\n",
            "\u{1}\n",
            "limit = 4GiB\n",
        ] {
            let config = Config::parse(&format!("modules = \"all\"\n{wrong}"));
            assert!(!config.is_toml, "{wrong:?}");
            assert_eq!(config.complaints.first().map(|complaint| complaint.line), Some(2), "{wrong:?}");
            assert_eq!(config.all.modules, Some(ModulePolicy::All), "{wrong:?}");
        }
    }

    #[test]
    fn arrays_and_tables_that_are_nested_ten_thousand_deep_overflow_no_stack() {
        for (open, close) in [("[", "]"), ("{a=", "}"), ("[{a=", "}]")] {
            let deep =
                format!("limit = {}1{}\nmodules = \"all\"\n", open.repeat(10_000), close.repeat(10_000));
            let config = Config::parse(&deep);
            assert!(!config.is_toml && config.all.limit.is_none());
        }
    }

    #[test]
    fn a_section_is_that_of_the_applications_with_its_name() {
        let folder = "Elden_Ring-01234567-89abcdef";
        assert!(is_of("Elden Ring", folder) && is_of(folder, folder) && is_of("Elden_Ring", folder));
        assert!(!is_of("Elden", folder) && !is_of("", folder) && !is_of("Elden_Ring-0", folder));
    }
}
