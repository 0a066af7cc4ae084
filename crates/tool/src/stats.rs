//! `vkstash stats`: shows what the stash did for each application and device.

mod collect;
mod model;
mod remark;
mod text;
mod updated;

use std::io;

use crate::cli::StatsArgs;
use crate::output;
use crate::root;

use collect::CollectError;

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StatsError {
    #[error("cannot tell where the stash is: neither HOME nor XDG_CACHE_HOME is set; name it with --dir")]
    NoRoot,
    #[error(transparent)]
    Collect(#[from] CollectError),
    #[error("cannot make JSON of it: {0}")]
    Json(#[from] serde_json::Error),
    #[error("cannot print it: {0}")]
    Print(#[from] io::Error),
}

pub(crate) fn main(args: &StatsArgs) -> Result<(), StatsError> {
    let root = root::root(args.dir.as_deref()).ok_or(StatsError::NoRoot)?;
    let stash = collect::collect(&root)?;
    let mut text =
        if args.json { output::escaped(&serde_json::to_string_pretty(&stash)?) } else { text::of(&stash) };
    text.push('\n');
    Ok(output::print(&text)?)
}
