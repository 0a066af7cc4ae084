//! `vkstash list`: the applications in the stash, one line each.

use std::cmp::Reverse;
use std::io;

use serde::Serialize;
use vkstash_host::disk::errors::OpenError;
use vkstash_model::record::Kind;
use vkstash_store::stash::inspect::{ApplicationInfo, list_applications};

use crate::cli::ListArgs;
use crate::config::in_force;
use crate::drivers;
use crate::stash::choice::program_of;
use crate::stash::root::{self, NoRoot};
use crate::term::output;
use crate::term::table::{Column, Table};
use crate::term::units::{counted, size};
use crate::term::{screen, time};

const COLUMNS: [Column; 5] = [
    Column::words("last use", 3),
    Column::numbers("size", 2),
    Column::numbers("pipelines", 1),
    Column::numbers("runs", 0),
    Column::words("application", 4),
];

/// Why nothing could be listed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListError {
    #[error(transparent)]
    NoRoot(#[from] NoRoot),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("cannot make JSON of it: {0}")]
    Json(#[from] serde_json::Error),
    #[error("cannot print it: {0}")]
    Print(#[from] io::Error),
}

/// An application.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Row {
    /// The program's file without its extension, or the name that the program tells.
    name: String,
    /// Its folder below the folder of all stashes.
    folder: String,
    /// The path of its file in its last run. Empty: not known.
    program: String,
    /// Size of its stash.
    bytes: u64,
    /// Number of its stored pipelines: recipes, superseded ones included.
    pipelines: u64,
    /// Number of processes that left a report.
    runs: u64,
    /// The last change of a report, in Unix milliseconds. Null: no run is known.
    last_use_unix_ms: Option<u64>,
}

impl Row {
    fn of(info: &ApplicationInfo) -> Row {
        let recipes = info.parts.iter().filter_map(|part| part.records.get(Kind::Recipe.name()));
        Row {
            name: info.display.clone(),
            folder: info.folder.clone(),
            program: program_of(info).to_owned(),
            bytes: in_force::bytes(info),
            pipelines: in_force::sum(recipes.copied()),
            runs: info.runs.runs,
            last_use_unix_ms: (info.runs.runs > 0).then_some(info.runs.until_unix_ms),
        }
    }
}

/// The one that was used last comes first.
pub(crate) fn main(args: &ListArgs) -> Result<(), ListError> {
    let root = root::named(args.dir.as_deref())?;
    let found = list_applications(&root)?;
    let is_stash = |info: &&ApplicationInfo| !info.parts.is_empty() || info.runs.runs > 0;
    let mut rows: Vec<Row> = found.iter().filter(is_stash).map(Row::of).collect();
    rows.sort_by_key(|row| Reverse(row.last_use_unix_ms));
    if args.json {
        return Ok(output::print(&format!("{}\n", output::escaped(&serde_json::to_string_pretty(&rows)?)))?);
    }
    let unique = |row: &Row| rows.iter().filter(|other| other.name == row.name).count() == 1;
    let now = time::now();
    let mut table = Table::new(&COLUMNS);
    for row in &rows {
        let used = row.last_use_unix_ms.map_or_else(|| "never".to_owned(), |used| time::age(used, now));
        // Other commands need the folder where several applications have a name.
        let name = match (unique(row), row.program.as_str()) {
            (true, _) => row.name.clone(),
            (false, "") => row.folder.clone(),
            (false, program) => format!("{} ({program})", row.folder),
        };
        let (bytes, pipelines, runs) = (size(row.bytes), row.pipelines, row.runs);
        table.row([used, bytes.to_string(), pipelines.to_string(), runs.to_string(), name]);
    }
    let mut text = table.lines(screen::width());
    if let Some(told) = drivers::look(&root, &found).told(now) {
        text += &format!("{told}\n");
    }
    let total = in_force::sum(rows.iter().map(|row| row.bytes));
    text += &format!("{}, {}\n", counted(rows.len() as u64, "application"), size(total));
    Ok(output::print(&text)?)
}
