//! Removing what was not used for a while, or all of an application, for a user who says so.

use std::path::Path;

use crate::base::timer::never;
use crate::disk::folder::Folder;
use crate::format::app_name::AppName;
use crate::format::refusal::OpenError;
use crate::maintenance::remove;
use crate::maintenance::survey::{ApplicationFolder, PartFolder, Survey};
use crate::reports::totals;
use crate::segment::load;

/// What is removed.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The folder of an application; None: all of them.
    pub application: Option<&'a str>,
    /// What was used at this time or later stays, in Unix milliseconds.
    pub used_before: u64,
    /// Nothing is removed; the answer is the same.
    pub is_dry_run: bool,
}

/// What of an application was removed, or would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pruned {
    /// The folder of the application.
    pub application: String,
    /// Its last use, in Unix milliseconds.
    pub last_use: u64,
    /// The number of its device parts that go.
    pub device_parts: u64,
    /// The portable part and the reports go, too. Settings stay.
    pub is_whole: bool,
    /// The size of the segments that go.
    pub bytes: u64,
    /// A program has the application or a part of it open. Such a part stays, and such an application as a whole.
    pub is_in_use: bool,
}

/// Removes the applications that were last used before a time, and of the others the device parts that were. Only those
/// applications are in the answer. A missing root counts as empty.
pub fn prune(root: &Path, request: &Request<'_>) -> Result<Vec<Pruned>, OpenError> {
    let root = match Folder::root(root, false) {
        Ok(root) => root,
        Err(error) if error.is_missing() => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let survey = Survey::of(&root, &never);
    let asked = |name: &str| request.application.is_none_or(|asked| asked == name);
    let with_parts = survey.applications.iter().filter(|application| asked(&application.name));
    let mut pruned: Vec<_> = with_parts.filter_map(|application| of(&root, application, request)).collect();
    // Of these nothing is left but reports and empty folders.
    let is_surveyed = |name: &str| survey.applications.iter().any(|application| application.name == name);
    let mut names = root.names("").map_err(|source| unreadable(&root, source))?;
    names.retain(|name| asked(name) && AppName::of_folder(name).is_some() && !is_surveyed(name));
    pruned.extend(names.iter().filter_map(|name| without_parts(&root, name, request)));
    Ok(pruned)
}

fn unreadable(folder: &Folder, source: std::io::Error) -> OpenError {
    OpenError::Unreadable { path: folder.path().to_owned(), source }
}

/// The last change of its reports, in Unix milliseconds; 0 if there are none.
fn last_run(application: &Folder) -> u64 {
    application.sub("runs", false).map_or(0, |runs| totals::read_from(&runs).until_unix_ms)
}

fn of(root: &Folder, application: &ApplicationFolder, request: &Request<'_>) -> Option<Pruned> {
    let newest = application.parts.iter().map(|part| part.last_use).max().unwrap_or(0);
    let last_use = newest.max(last_run(&application.folder));
    let is_old = last_use < request.used_before;
    let goes = |part: &&PartFolder| {
        is_old || part.is_of_a_device() && !part.files.is_empty() && part.last_use < request.used_before
    };
    let old: Vec<_> = application.parts.iter().filter(goes).collect();
    if old.is_empty() {
        return None;
    }
    // A program that opens it from now on keeps what it has opened, and finds the rest gone.
    let is_in_use = load::is_locked(application.folder.as_ref());
    let is_removed = |part: &&PartFolder| request.is_dry_run || !is_in_use && remove::part(part);
    let gone: Vec<_> = old.iter().copied().filter(|part| is_in_use || is_removed(part)).collect();
    let is_whole = is_old && gone.len() == old.len();
    if is_whole && !is_in_use && !request.is_dry_run {
        remove::application(root, &application.folder, &application.name);
    }
    Some(Pruned {
        application: application.name.clone(),
        last_use,
        device_parts: gone.iter().filter(|part| part.is_of_a_device()).count() as u64,
        is_whole,
        bytes: gone.iter().map(|part| part.bytes).sum(),
        is_in_use: is_in_use || gone.len() < old.len(),
    })
}

/// An application of which no part is left, but reports or empty folders.
fn without_parts(root: &Folder, name: &str, request: &Request<'_>) -> Option<Pruned> {
    let folder = root.sub(name, false).ok()?;
    let last_use = last_run(&folder);
    let is_something = last_use > 0 || remove::holds_nothing(&folder);
    let is_in_use = load::is_locked(folder.as_ref());
    // A program that has only begun has stored nothing yet.
    if last_use >= request.used_before || !is_something || is_in_use && last_use == 0 {
        return None;
    }
    if !request.is_dry_run && !is_in_use {
        remove::application(root, &folder, name);
    }
    let application = name.to_owned();
    Some(Pruned { application, last_use, device_parts: 0, is_whole: true, bytes: 0, is_in_use })
}
