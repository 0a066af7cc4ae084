//! The files of reports: one for each process. [`crate::reports::totals`] folds old ones together.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;

use bincode::config::Configuration;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::format::bytes::{Reader, put_u32};
use crate::reports::model::RunReport;
use crate::reports::names::oldest_first;
use crate::reports::timeline;
use vkstash_host::descriptor::Descriptor;
use vkstash_host::disk::errors::FileError;
use vkstash_host::disk::folder::{Folder, read_at};
use vkstash_host::disk::locks;
use vkstash_host::sync::Mutex;
use vkstash_host::util::{random, unix_ms};
use vkstash_model::app_name::AppName;

/// The first bytes of a report.
pub(crate) const REPORT_MAGIC: [u8; 8] = *b"\x89VKR\r\n\x1a\n";
/// The first bytes of a totals file.
pub(crate) const TOTALS_MAGIC: [u8; 8] = *b"\x89VKT\r\n\x1a\n";
/// An empty folder: see [`note_instance`].
const INSTANCE: &str = "instance";
const VERSION: u32 = 4;
const RECORD_HEADER_BYTES: usize = 24;
const MAX_BODY: usize = 4 << 20;
/// The end of a report's file name.
pub(crate) const SUFFIX: &str = ".vkr";

type Config =
    Configuration<bincode::config::LittleEndian, bincode::config::Varint, bincode::config::Limit<MAX_BODY>>;
const CONFIG: Config = bincode::config::standard().with_limit::<MAX_BODY>();

/// The name of a report's file. Clones share a lock, so that one thread at a time writes it.
#[derive(Clone, Debug)]
pub struct RunName {
    file: String,
    turn: Arc<Mutex<()>>,
}

impl RunName {
    /// A new name for a run of this process that starts now.
    pub fn of_this_process() -> RunName {
        RunName::new(unix_ms(), std::process::id(), random())
    }

    /// The name for a run of process `pid` that started then.
    pub(crate) fn new(started_unix_ms: u64, pid: u32, random: u64) -> RunName {
        let file = format!("run-{started_unix_ms:016x}-{pid:08x}-{random:016x}{SUFFIX}");
        RunName { file, turn: Arc::default() }
    }

    /// The name of the run's timeline.
    pub(crate) fn timeline(&self) -> String {
        format!("{}{}", self.file.trim_end_matches(SUFFIX), timeline::SUFFIX)
    }

    /// Makes and writes a report while no other thread does. So a report that the disk delays never replaces a later
    /// one.
    pub fn in_turn<T>(&self, make_and_write: impl FnOnce() -> T) -> T {
        let _turn = self.turn.lock();
        make_and_write()
    }
}

/// Puts a header with version and checksums before a body.
pub(crate) fn encode(magic: [u8; 8], content: &impl Serialize) -> io::Result<Vec<u8>> {
    let body = bincode::serde::encode_to_vec(content, CONFIG).map_err(io::Error::other)?;
    let mut bytes = vec![0; RECORD_HEADER_BYTES];
    bytes[..8].copy_from_slice(&magic);
    put_u32(&mut bytes, 8, VERSION);
    let length = u32::try_from(body.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
    put_u32(&mut bytes, 12, length);
    put_u32(&mut bytes, 16, crc32c::crc32c(&body));
    let crc = crc32c::crc32c(&bytes[..20]);
    put_u32(&mut bytes, 20, crc);
    bytes.extend_from_slice(&body);
    Ok(bytes)
}

/// `None`: damaged, of another version, or another kind of file.
pub(crate) fn decode<T: DeserializeOwned>(magic: [u8; 8], bytes: &[u8]) -> Option<T> {
    let (head, body) = bytes.split_first_chunk::<RECORD_HEADER_BYTES>()?;
    let mut reader = Reader::new(head);
    let (found, version, length) = (reader.array::<8>()?, reader.u32()?, reader.u32()?);
    let (body_crc, header_crc) = (reader.u32()?, reader.u32()?);
    let sound = found == magic
        && version == VERSION
        && crc32c::crc32c(&head[..20]) == header_crc
        && length as usize == body.len()
        && crc32c::crc32c(body) == body_crc;
    let (content, used) = sound.then(|| bincode::serde::decode_from_slice(body, CONFIG).ok())??;
    (used == body.len()).then_some(content)
}

/// Reads a file that [`encode`] has made.
pub(crate) fn read_file<T: DeserializeOwned>(folder: &Folder, name: &str, magic: [u8; 8]) -> Option<T> {
    try_read_file(folder, name, magic).ok()?
}

/// [`read_file`], with an error if the system cannot read the file now.
pub(crate) fn try_read_file<T: DeserializeOwned>(
    folder: &Folder,
    name: &str,
    magic: [u8; 8],
) -> io::Result<Option<T>> {
    let (fd, length) = match folder.open_file(name) {
        Ok(opened) => opened,
        Err(FileError::Unreadable(reason)) => return Err(io::Error::other(reason)),
        Err(_) => return Ok(None),
    };
    let length = usize::try_from(length).ok().filter(|&length| length <= RECORD_HEADER_BYTES + MAX_BODY);
    let Some(length) = length else { return Ok(None) };
    let mut bytes = Vec::new();
    read_at(&fd, &mut bytes, length, 0)?;
    Ok(decode(magic, &bytes))
}

/// Writes a report, in place of an earlier one of the same name. It is not folded as long as the descriptor is open.
pub(crate) fn write_in(folder: &Folder, name: &RunName, report: &RunReport) -> io::Result<Descriptor> {
    folder.replace_file(&name.file, random(), &encode(REPORT_MAGIC, report)?)
}

/// The readable reports of `folder` with their names, oldest first.
pub(crate) fn read_in(folder: &Folder) -> Vec<(String, RunReport)> {
    read_those(folder, folder.names(SUFFIX).unwrap_or_default())
}

/// [`read_in`] of some of the files.
pub(crate) fn read_those(folder: &Folder, mut names: Vec<String>) -> Vec<(String, RunReport)> {
    let read = |name: String| {
        let report: RunReport = read_file(folder, &name, REPORT_MAGIC)?;
        let goes_on =
            !report.is_over && folder.open_file(&name).is_ok_and(|(file, _)| locks::is_locked(&file));
        Some((name, RunReport { goes_on, ..report }))
    };
    oldest_first(&mut names);
    names.into_iter().filter_map(read).collect()
}

/// Writes a report, in place of an earlier one of the same name. For the folder that VKSTASH_REPORT names, which is
/// created if it is missing.
pub fn write(folder: &Path, name: &RunName, report: &RunReport) -> io::Result<()> {
    let folder = Folder::shared(folder, true).map_err(io::Error::other)?;
    write_in(&folder, name, report).map(drop)
}

/// The reports in `folder`, oldest first, by the application below `root` that has recorded the run. None: the
/// application has no stash there.
pub fn recorded(root: Option<&Path>, folder: &Path) -> Vec<(Option<String>, RunReport)> {
    let Ok(folder) = Folder::shared(folder, false) else { return Vec::new() };
    let shared = |path: &Path| Folder::shared(path, false).ok();
    let names = root.and_then(shared).and_then(|root| root.names("").ok()).unwrap_or_default();
    let of = |(file, report): (String, RunReport)| {
        let has_it = |name: &&String| {
            let is_named_so =
                AppName::of_folder(name).is_some_and(|known| known.display == report.application);
            let runs = || shared(&root?.join(name).join("runs"));
            is_named_so && runs().is_some_and(|runs| runs.open_file(&file).is_ok())
        };
        (names.iter().find(has_it).cloned(), report)
    };
    read_in(&folder).into_iter().map(of).collect()
}

/// Says in `folder` that a process has an instance with the layer, also where it makes nothing that a report would tell
/// of. The folder is not created. One system call: it may be done on the program's thread.
pub fn note_instance(folder: &Path) {
    let _ = DirBuilder::new().mode(0o700).create(folder.join(INSTANCE));
}

/// Whether [`note_instance`] was called for this folder.
pub fn has_instance(folder: &Path) -> bool {
    folder.join(INSTANCE).is_dir()
}

/// All readable reports in `folder`, oldest first.
pub fn read_all(folder: &Path) -> Vec<RunReport> {
    let Ok(folder) = Folder::shared(folder, false) else { return Vec::new() };
    read_in(&folder).into_iter().map(|(_, report)| report).collect()
}
