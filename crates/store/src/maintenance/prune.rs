//! Removing what was not used for a while, or all of an application, for a user who says so.

use std::path::Path;
use std::sync::Arc;

use crate::maintenance::remove;
use crate::maintenance::survey;
use crate::maintenance::survey::{ApplicationFolder, PartFolder};
use crate::reports::totals;
use vkstash_host::disk::errors::OpenError;
use vkstash_host::disk::folder::Folder;
use vkstash_host::disk::ops as disk;
use vkstash_host::util::{latest, unix_ms};
use vkstash_model::app_name::AppName;

/// What is removed.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The folder of an application.
    pub application: &'a str,
    /// What was used at this time or later stays, in Unix milliseconds.
    pub used_before: u64,
    /// Nothing is removed; the answer is that of a removal.
    pub is_dry_run: bool,
}

/// What of an application was removed, or would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pruned {
    /// The application's last use, in Unix milliseconds.
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

/// Removes an application that was last used before a time, or the device parts of it that were. None: nothing goes. An
/// error if something of it cannot be read: then nothing is removed.
pub fn prune(root: &Path, request: &Request<'_>) -> Result<Option<Pruned>, OpenError> {
    let name = request.application;
    let root = match Folder::root(root, false) {
        Ok(root) => Arc::new(root),
        Err(error) if error.is_missing() => return Ok(None),
        Err(error) => return Err(error),
    };
    let folder = match root.sub(name, false) {
        Ok(folder) => folder,
        Err(error) if error.is_missing() => return Ok(None),
        Err(error) => return Err(error),
    };
    folder.names("").map_err(|source| unreadable(folder.path(), source))?;
    for part in survey::part_names(&folder) {
        let part = match folder.sub(&part, false) {
            Ok(part) => part,
            // Another process removes the part as well.
            Err(error) if error.is_missing() => continue,
            Err(error) => return Err(error),
        };
        part.names("").map_err(|source| unreadable(part.path(), source))?;
    }
    match ApplicationFolder::of(&root, name.to_owned(), &Default::default()) {
        Some(application) => Ok(of(&root, &application, request)),
        None => Ok(without_parts(&root, name, request)),
    }
}

fn unreadable(path: &Path, source: std::io::Error) -> OpenError {
    OpenError::Unreadable { path: path.to_owned(), source }
}

/// The last change of its reports, in Unix milliseconds; 0 if there are none.
fn last_run(application: &Folder) -> u64 {
    application.sub("runs", false).map_or(0, |runs| totals::read_from(&runs).until_unix_ms)
}

fn of(root: &Folder, application: &ApplicationFolder, request: &Request<'_>) -> Option<Pruned> {
    let folder = application.open()?;
    let now = unix_ms();
    let last_use = latest([application.last_use(now), last_run(&folder)], now);
    let is_old = last_use < request.used_before;
    let goes = |part: &&PartFolder| {
        is_old || part.is_of_a_device() && !part.files.is_empty() && part.last_use < request.used_before
    };
    let old: Vec<_> = application.parts.iter().filter(goes).collect();
    if old.is_empty() {
        return None;
    }
    let is_in_use = is_in_use(&folder, request);
    let is_removed = |part: &&PartFolder| request.is_dry_run || !is_in_use && remove::part(part);
    let gone: Vec<_> = old.iter().copied().filter(|part| is_in_use || is_removed(part)).collect();
    let is_whole = is_old && gone.len() == old.len();
    if is_whole && !is_in_use && !request.is_dry_run {
        remove::application(root, &folder, &application.name);
    }
    Some(Pruned {
        last_use,
        device_parts: gone.iter().filter(|part| part.is_of_a_device()).count() as u64,
        is_whole,
        bytes: gone.iter().map(|part| part.bytes).sum(),
        is_in_use: is_in_use || gone.len() < old.len(),
    })
}

/// Whether a program has the application open. Where something is to be removed, none opens it from now on until the
/// folder is closed: it waits, or finds the folder gone and makes another one.
fn is_in_use(folder: &Folder, request: &Request<'_>) -> bool {
    if request.is_dry_run { folder.is_held() } else { disk::try_lock(folder).is_err() }
}

/// An application of which no part is left, but reports or empty folders.
fn without_parts(root: &Folder, name: &str, request: &Request<'_>) -> Option<Pruned> {
    let folder = root.sub(name, false).ok().filter(|_| AppName::is_folder(name))?;
    let last_use = last_run(&folder);
    let is_something = last_use > 0 || remove::holds_nothing(&folder);
    let is_in_use = is_in_use(&folder, request);
    // A program that has only begun has stored nothing yet.
    if last_use >= request.used_before || !is_something || is_in_use && last_use == 0 {
        return None;
    }
    if !request.is_dry_run && !is_in_use {
        remove::application(root, &folder, name);
    }
    Some(Pruned { last_use, device_parts: 0, is_whole: true, bytes: 0, is_in_use })
}
