//! Finds the application that a name on the command line means.

use std::path::Path;

use vkstash_store::stash::inspect::ApplicationInfo;

use crate::units::plain;

/// Why a name does not lead to one application.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChoiceError {
    #[error("no application {name:?} is in {root}: `vkstash list` shows them")]
    Unknown { name: String, root: String },
    #[error("{name:?} is the name of several applications; name one by its folder: {}", folders.join(", "))]
    Several { name: String, folders: Vec<String> },
    #[error("several applications begin with {name:?}: {}", found.join(", "))]
    Beginning { name: String, found: Vec<String> },
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
            let folders = several.iter().map(|info| info.folder.clone()).collect();
            return Err(ChoiceError::Several { name: name.to_owned(), folders });
        }
    }
    let begins = |info: &&ApplicationInfo| {
        !name.is_empty() && (info.display.starts_with(name) || info.folder.starts_with(name))
    };
    let beginning: Vec<_> = found.iter().filter(begins).collect();
    match beginning.as_slice() {
        [info] => Ok(info),
        [] => Err(ChoiceError::Unknown { name: name.to_owned(), root: plain(&root.to_string_lossy()) }),
        several => {
            let found = several.iter().map(|info| info.folder.clone()).collect();
            Err(ChoiceError::Beginning { name: name.to_owned(), found })
        }
    }
}
