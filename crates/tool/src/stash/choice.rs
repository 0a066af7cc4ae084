//! Finds the application that a name on the command line means.

use std::cmp::Reverse;
use std::fmt::{self, Display, Formatter};
use std::path::Path;

use vkstash_store::stash::inspect::ApplicationInfo;

use crate::term::time;
use crate::term::units::plain;

/// Why a name does not lead to one application.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChoiceError {
    #[error("no application {name:?} is in {root}: `vkstash list` shows them")]
    Unknown { name: String, root: String },
    #[error("{name:?} is the name of several applications; name one by its folder:{candidates}")]
    Several { name: String, candidates: Candidates },
    #[error("several applications begin with {name:?}:{candidates}")]
    Beginning { name: String, candidates: Candidates },
}

/// So many candidates are named.
const MOST: usize = 10;

/// An application that a name may mean.
#[derive(Debug)]
struct Candidate {
    folder: String,
    /// None: no run is known.
    used: Option<u64>,
    /// The path of its file. Empty: not known.
    program: String,
}

/// Applications that a name may mean. The one that was used last comes first.
#[derive(Debug)]
pub(crate) struct Candidates(Vec<Candidate>);

impl Candidates {
    fn of(found: &[&ApplicationInfo]) -> Candidates {
        let used = |info: &ApplicationInfo| (info.runs.runs > 0).then_some(info.runs.until_unix_ms);
        let candidate = |&info: &&ApplicationInfo| {
            let program = program_of(info).to_owned();
            Candidate { folder: info.folder.clone(), used: used(info), program }
        };
        let mut candidates: Vec<_> = found.iter().map(candidate).collect();
        candidates.sort_by_key(|candidate| Reverse(candidate.used));
        Candidates(candidates)
    }
}

impl Display for Candidates {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let now = time::now();
        for Candidate { folder, used, program } in self.0.iter().take(MOST) {
            let used = used.map_or_else(|| "never used".to_owned(), |used| time::age(used, now));
            let path = if program.is_empty() { String::new() } else { format!(", {}", plain(program)) };
            write!(to, "\n{} ({used}{path})", plain(folder))?;
        }
        match self.0.len().saturating_sub(MOST) {
            0 => Ok(()),
            more => write!(to, "\nand {more} more: `vkstash list`"),
        }
    }
}

/// The path of the application's file in its last run. Empty: not known.
pub(crate) fn program_of(info: &ApplicationInfo) -> &str {
    info.runs.last.as_ref().map_or("", |run| &run.program)
}

/// The name that a person knows, where no other application has it, or else the folder.
pub(crate) fn name_of<'a>(found: &[ApplicationInfo], info: &'a ApplicationInfo) -> &'a str {
    let is_unique = found.iter().filter(|other| other.display == info.display).count() == 1;
    if is_unique { &info.display } else { &info.folder }
}

/// The application with this name or this folder, or the only one whose name or folder begins with it.
pub(crate) fn choose<'a>(
    found: &'a [ApplicationInfo],
    name: &str,
    root: &Path,
) -> Result<&'a ApplicationInfo, ChoiceError> {
    if let Some(info) = found.iter().find(|info| info.folder == name) {
        return Ok(info);
    }
    let of_name: Vec<_> = found.iter().filter(|info| info.display == name).collect();
    match of_name.as_slice() {
        [info] => return Ok(info),
        [] => {}
        several => {
            let candidates = Candidates::of(several);
            return Err(ChoiceError::Several { name: name.to_owned(), candidates });
        }
    }
    let begins = |info: &&ApplicationInfo| {
        !name.is_empty() && (info.display.starts_with(name) || info.folder.starts_with(name))
    };
    let beginning: Vec<_> = found.iter().filter(begins).collect();
    match beginning.as_slice() {
        [info] => Ok(info),
        [] => Err(ChoiceError::Unknown { name: name.to_owned(), root: plain(&root.to_string_lossy()) }),
        several => Err(ChoiceError::Beginning { name: name.to_owned(), candidates: Candidates::of(several) }),
    }
}
