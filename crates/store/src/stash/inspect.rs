//! A list of everything that is stored: the stashes below a root, their parts and their runs. Reads only.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use crate::bounds::LastUse;
use crate::format::device::DeviceHeader;
use crate::format::file::{FileHeader, PartIdentity};
use crate::format::refusal::Refusal;
use crate::maintenance::survey::ApplicationFolder;
use crate::maintenance::uses;
use crate::maintenance::uses::Uses;
use crate::reports::totals;
use crate::reports::totals::Totals;
use crate::segment::load;
use crate::segment::load::State;
use vkstash_host::disk::errors::{FileError, OpenError};
use vkstash_host::disk::folder::Folder;
use vkstash_host::parallel;
use vkstash_host::timer::never;
use vkstash_model::app_name::AppName;
use vkstash_model::record::{Key, Kind, UseRecord};

/// One application's stash.
#[derive(Clone, Debug, Serialize)]
pub struct ApplicationInfo {
    /// The name of the folder below the root.
    pub folder: String,
    /// The part of the name that people read.
    pub display: String,
    /// The parts, the portable one first.
    pub parts: Vec<PartInfo>,
    /// The sums of its runs.
    pub runs: Totals,
    /// Folders that cannot be used, by name, with the reason in words.
    pub unusable: BTreeMap<String, String>,
}

/// One part of a stash.
#[derive(Clone, Debug, Serialize)]
pub struct PartInfo {
    /// The part's name: "portable", or 16 hexadecimal digits.
    pub name: String,
    /// The device header of a device part. `None` for the portable part, and if no file has a valid header.
    pub device: Option<DeviceHeader>,
    /// The number of segments that can be read.
    pub segments: u64,
    /// The number of them that are sealed.
    pub sealed: u64,
    /// The size of these segments.
    pub bytes: u64,
    /// The number of records by [`Kind::name`], superseded ones included; "unknown" for kinds of newer programs.
    pub records: BTreeMap<String, u64>,
    /// Bytes of payloads by the same names.
    pub payload_bytes: BTreeMap<String, u64>,
    /// The number of damaged places in these segments.
    pub damaged: u64,
    /// Files that were refused.
    pub refused: Vec<RefusedFile>,
}

/// A file that was refused.
#[derive(Clone, Debug, Serialize)]
pub struct RefusedFile {
    /// The name in the part's folder.
    pub file: String,
    /// The reason.
    pub reason: Refusal,
}

/// All stashes below `root`, sorted by folder name. A missing root counts as empty.
pub fn list_applications(root: &Path) -> Result<Vec<ApplicationInfo>, OpenError> {
    let root = match Folder::root(root, false) {
        Ok(root) => root,
        Err(OpenError::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let unreadable = |source| OpenError::Unreadable { path: root.path().to_owned(), source };
    let names = root.names("").map_err(unreadable)?;
    Ok(parallel::map(&names, |name| listed(&root, name)).into_iter().flatten().collect())
}

/// The stash in that folder. None: it is none, or is gone meanwhile.
fn listed(root: &Folder, name: &str) -> Option<ApplicationInfo> {
    match root.sub(name, false) {
        Ok(folder) => Some(application(&Arc::new(folder), name).info),
        Err(OpenError::NotAFolder { .. }) => None,
        Err(error) if error.is_missing() => None,
        Err(error) => {
            let mut unusable = blank(name);
            unusable.unusable.insert(name.to_owned(), error.to_string());
            Some(unusable)
        }
    }
}

/// The parts of one application, the portable one first; none if there is no such application. An error if any of them
/// cannot be read, or a file in it.
pub fn parts_of(root: &Path, application: &str) -> Result<Vec<PartInfo>, OpenError> {
    match Folder::root(root, false).and_then(|root| root.sub(application, false)) {
        Ok(folder) => {
            let listed = self::application(&Arc::new(folder), application);
            listed.unread.map_or(Ok(listed.info.parts), Err)
        }
        Err(error) if error.is_missing() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The newest use of each key that the application notes. Empty if nothing can be read.
pub fn last_uses(root: &Path, application: &str) -> HashMap<Key, LastUse> {
    let folder = folder_of(root, application);
    folder.map(|folder| Uses::of(&folder, &|| false).into_map().into_iter().collect()).unwrap_or_default()
}

/// Every use that the application's segments still have, with its run: those that a later run has superseded are there
/// until their segment is merged. In no order; empty if nothing can be read.
pub fn recorded_uses(root: &Path, application: &str) -> Vec<(Key, UseRecord)> {
    folder_of(root, application).map(|folder| uses::recorded(&folder)).unwrap_or_default()
}

fn folder_of(root: &Path, application: &str) -> Option<ApplicationFolder> {
    let root = Arc::new(Folder::root(root, false).ok()?);
    ApplicationFolder::of(&root, application.to_owned(), &Default::default())
}

/// Why programs of this user would not look into a base, or into something in it: the first reason, in words. None:
/// they would.
pub fn base_refusal(base: &Path) -> Option<String> {
    let refused = |folder: &Folder| -> Result<(), String> {
        let listed = |folder: &Folder, suffix: &str| {
            let unreadable = |source| OpenError::Unreadable { path: folder.path().to_owned(), source };
            folder.names(suffix).map_err(|source| unreadable(source).to_string())
        };
        for application in listed(folder, "")? {
            let application = match folder.sub(&application, false) {
                Err(OpenError::NotAFolder { .. }) => continue,
                Err(error) if error.is_missing() => continue,
                opened => opened.map_err(|error| error.to_string())?,
            };
            for part in listed(&application, "")?.iter().filter(|name| is_part(name)) {
                let part = application.sub(part, false).map_err(|error| error.to_string())?;
                for file in listed(&part, ".vks")? {
                    let of_file = |reason| format!("{}: {reason}", part.path().join(&file).display());
                    part.open_file(&file).map_err(of_file)?;
                }
            }
        }
        Ok(())
    };
    let opened = Folder::base_until(base, &never).map_err(|error| error.to_string());
    opened.and_then(|folder| refused(&folder)).err()
}

/// Whether that is the name of a part's folder.
fn is_part(name: &str) -> bool {
    name == "portable" || name.starts_with("device-")
}

fn blank(folder: &str) -> ApplicationInfo {
    ApplicationInfo {
        folder: folder.to_owned(),
        display: AppName::display_of(folder).to_owned(),
        parts: Vec::new(),
        runs: Totals::default(),
        unusable: BTreeMap::new(),
    }
}

/// What an application has.
struct Listed {
    info: ApplicationInfo,
    /// The first thing that may have more than the list says.
    unread: Option<OpenError>,
}

fn application(folder: &Arc<Folder>, name: &str) -> Listed {
    let mut info = blank(name);
    let mut unread = None;
    let names = names_of(folder, "", &mut unread);
    let (portable, devices): (Vec<_>, Vec<_>) =
        names.into_iter().filter(|name| name == "runs" || is_part(name)).partition(|name| name == "portable");
    for name in portable.into_iter().chain(devices) {
        match folder.sub(&name, false) {
            Ok(sub) if name == "runs" => info.runs = totals::read_from(&sub),
            Ok(sub) => info.parts.push(part(&Arc::new(sub), &name, &mut unread)),
            // Somebody has removed it since the names were read.
            Err(error) if error.is_missing() => {}
            Err(error) => {
                info.unusable.insert(name, error.to_string());
                if matches!(error, OpenError::Unreadable { .. }) {
                    unread.get_or_insert(error);
                }
            }
        }
    }
    Listed { info, unread }
}

/// The names in a folder; none if it cannot be listed.
fn names_of(folder: &Folder, suffix: &str, unread: &mut Option<OpenError>) -> Vec<String> {
    folder.names(suffix).unwrap_or_else(|source| {
        unread.get_or_insert(OpenError::Unreadable { path: folder.path().to_owned(), source });
        Vec::new()
    })
}

fn part(folder: &Arc<Folder>, folder_name: &str, unread: &mut Option<OpenError>) -> PartInfo {
    let device_name = folder_name.strip_prefix("device-");
    let mut info = PartInfo {
        name: device_name.unwrap_or(folder_name).to_owned(),
        device: None,
        segments: 0,
        sealed: 0,
        bytes: 0,
        records: BTreeMap::new(),
        payload_bytes: BTreeMap::new(),
        damaged: 0,
        refused: Vec::new(),
    };
    let files = names_of(folder, ".vks", unread);
    let mut identity = device_name.is_none().then_some(PartIdentity::Portable);
    let is_own = |header: &FileHeader| header.identity.has_folder(folder_name);
    if identity.is_none() {
        // The folder's name has the digest of the header that counts.
        let found = files.iter().filter_map(|file| load::load(folder, file, None).ok()?.header);
        identity = found.filter(is_own).map(|header| header.identity).next();
    }
    if let Some(PartIdentity::Device(header)) = &identity {
        info.device = Some(header.clone());
    }
    for file in files {
        match load::load(folder, &file, identity.as_ref()) {
            // No file had a header of this folder when the identity was read. A file that was written since may have
            // one, but this file has none.
            Ok(loaded) if identity.is_none() && !loaded.header.as_ref().is_some_and(is_own) => {
                info.refused.push(RefusedFile { file, reason: Refusal::OtherPart })
            }
            Ok(loaded) => {
                info.segments += 1;
                info.sealed += u64::from(loaded.state == State::Sealed);
                info.bytes += loaded.bytes;
                info.damaged += loaded.damaged;
                let tally = loaded.segment.tally();
                for (code, &count) in tally.counts.iter().enumerate().filter(|&(_, &count)| count > 0) {
                    let kind = Kind::ALL.get(code).map_or("unknown", |kind| kind.name());
                    *info.records.entry(kind.to_owned()).or_default() += u64::from(count);
                    let bytes = info.payload_bytes.entry(kind.to_owned()).or_default();
                    *bytes = bytes.saturating_add(tally.bytes[code]);
                }
            }
            Err(reason) => {
                if matches!(
                    reason,
                    Refusal::File(FileError::Unreadable(_)) | Refusal::File(FileError::PutOff)
                ) {
                    let (path, source) = (folder.path().join(&file), io::Error::other(reason.to_string()));
                    unread.get_or_insert(OpenError::Unreadable { path, source });
                }
                info.refused.push(RefusedFile { file, reason });
            }
        }
    }
    info
}
