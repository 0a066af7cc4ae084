//! `vkstash stats`: shows what the stash did for each application and device.

mod attention;
mod collect;
mod details;
mod full;
mod model;
mod parts;
mod remark;
mod store;
mod summary;
mod table;
mod text;
mod unready;
mod updated;
mod view;

use std::io;

use crate::cli::StatsArgs;
use crate::stash::root::{self, NoRoot};
use crate::term::output;
use crate::term::{screen, time};

use collect::CollectError;
pub(crate) use collect::of_run;
use model::Selection;
#[cfg(test)]
pub(crate) use model::Stash as Output;
use view::View;

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StatsError {
    #[error(transparent)]
    NoRoot(#[from] NoRoot),
    #[error(transparent)]
    Collect(#[from] CollectError),
    #[error("cannot make JSON of it: {0}")]
    Json(#[from] serde_json::Error),
    #[error("cannot print it: {0}")]
    Print(#[from] io::Error),
}

pub(crate) fn main(args: &StatsArgs) -> Result<(), StatsError> {
    let root = root::named(args.dir.as_deref())?;
    let selection = match args.since {
        Some(since_unix_ms) => Selection::Since { since_unix_ms },
        None if args.last_run => Selection::Last,
        None => Selection::All,
    };
    let stash = collect::collect(&root, args.application.as_deref(), selection)?;
    if args.json {
        return Ok(output::print(&(output::escaped(&serde_json::to_string_pretty(&stash)?) + "\n"))?);
    }
    let view = View {
        is_named: args.application.is_some(),
        all: args.all,
        verbosity: args.verbose,
        zero: args.zero,
        now_unix_ms: time::now(),
        width: screen::width(),
    };
    Ok(output::print(&text::of(&stash, view))?)
}
