//! Reads archives. Their content is not trusted.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use tar::Entry;

use super::entry::{LongName, Name};
use super::quarantine::Quarantine;
use super::sink::{NotWritten, Sink};
use vkstash_host::disk::errors::OpenError;
use vkstash_host::util::unix_ms;
use vkstash_model::app_name::AppName;
use vkstash_model::check::{self, Travel};
use vkstash_model::record::{CRASH_LIMIT, Key, Kind, UseRecord};
use vkstash_model::same::Same;
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::format::refusal::Refusal;
use vkstash_store::part::open::Part;
use vkstash_store::stash::transfer::{IncomingError, Intake, Place};

/// Why an archive could not be read to its end. Records that were taken before the error stay.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The archive cannot be read, or ends too soon.
    #[error("cannot read the archive: {0}")]
    Archive(io::Error),
    /// The archive holds no segment, or is no tar file.
    #[error("it holds no files of a stash: it is not an archive that `vkstash export` wrote")]
    Nothing,
    /// The stash cannot be opened.
    #[error("cannot open the stash: {0}")]
    Open(#[from] OpenError),
    /// Imported records cannot be written to the stash.
    #[error(transparent)]
    NotWritten(#[from] NotWritten),
}

/// What an error of the crate tar means at the first entry: one that is no error of the system's says in many words
/// that a header is none.
fn unread(error: io::Error) -> ImportError {
    let is_of_the_source = error.raw_os_error().is_some() || error.kind() == io::ErrorKind::UnexpectedEof;
    if is_of_the_source { ImportError::Archive(error) } else { ImportError::Nothing }
}

/// What was imported, by application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Sorted by the names of the folders.
    pub applications: BTreeMap<String, Taken>,
    /// Entries of the archive that are not segments.
    pub skipped: u64,
}

/// What was imported for one application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Records that are new here, by kind.
    pub records: BTreeMap<Kind, u64>,
    /// Records that the stash had already.
    pub present: u64,
    /// Records that do not match their key, or may not stand in such a file.
    pub mismatched: u64,
    /// Places in files at which a record is damaged.
    pub damaged: u64,
    /// Files of device parts, which the user did not ask for.
    pub left_out: u64,
    /// Files that were refused, with the reason.
    pub refused: Vec<(String, Refusal)>,
}

/// Imports the archive `source` into the stash below `root`: the portable records, and device parts if `artifacts` is
/// set. Drivers of this machine are then given those artifacts, so the archive's author must be trusted like the
/// author of a program.
pub fn import(root: &Path, source: impl Read, artifacts: bool) -> Result<Imported, ImportError> {
    let mut imported = Imported::default();
    let mut intake: Option<Intake> = None;
    let mut open: Option<Target> = None;
    let mut long = LongName::default();
    let mut archive = tar::Archive::new(source);
    for entry in archive.entries().map_err(ImportError::Archive)?.raw(true) {
        let mut entry = entry.map_err(|error| match imported == Imported::default() {
            true => unread(error),
            false => ImportError::Archive(error),
        })?;
        if long.takes(&mut entry).map_err(ImportError::Archive)? {
            continue;
        }
        let path = long.or_of(&entry);
        let is_file = entry.header().entry_type().is_file();
        let Some(name) = Name::of(&path).filter(|_| is_file) else {
            imported.skipped += 1;
            continue;
        };
        if name.place != Place::Portable && !artifacts {
            imported.of(&name.application).left_out += 1;
            continue;
        }
        let mut target = match open.take() {
            Some(target) if target.named == name.application => target,
            other => {
                other.map_or(Ok(()), |target| target.finish(&mut imported))?;
                Target::new(root, name.application.clone())
            }
        };
        let intake = match &intake {
            Some(intake) => intake,
            None => intake.insert(Intake::open(root)?),
        };
        let outcome = target.take(intake, &path, &name, &mut entry);
        open = Some(target);
        outcome?;
    }
    open.map_or(Ok(()), |target| target.finish(&mut imported))?;
    if imported.applications.is_empty() { Err(ImportError::Nothing) } else { Ok(imported) }
}

/// The application to which the current entries of the archive belong.
struct Target<'a> {
    root: &'a Path,
    /// As the archive names it.
    named: AppName,
    /// As it is called here.
    app: AppName,
    /// Opened for the first record, so that an application without records gets no folder.
    sink: Option<Sink>,
    taken: Taken,
    /// The newest use of each key. The recipe of a key may come later.
    uses: HashMap<Key, UseRecord>,
    quarantine: Quarantine,
    /// Artifacts whose data another artifact of their part has, which may come later.
    same: Vec<(DeviceHeader, Key, Same)>,
}

impl<'a> Target<'a> {
    fn new(root: &'a Path, named: AppName) -> Target<'a> {
        Target {
            root,
            app: installed(root, &named),
            named,
            sink: None,
            taken: Taken::default(),
            uses: HashMap::new(),
            quarantine: Quarantine::default(),
            same: Vec::new(),
        }
    }

    /// The part of a device, or the portable part; created if missing.
    fn part(&mut self, of_device: Option<&DeviceHeader>) -> Result<Arc<Part>, ImportError> {
        let sink = match &self.sink {
            Some(sink) => sink,
            None => self.sink.insert(Sink::open(self.root, &self.app)?),
        };
        let stash = sink.stash();
        Ok(of_device.map_or_else(|| Ok(stash.portable().clone()), |header| stash.device(header))?)
    }

    /// Imports one file. What is wrong with the file is counted; an error is one of the stash or of the archive.
    fn take(
        &mut self,
        intake: &Intake,
        path: &[u8],
        name: &Name,
        entry: &mut Entry<'_, impl Read>,
    ) -> Result<(), ImportError> {
        let incoming = match intake.copied(&name.place, entry.size(), entry) {
            Ok(incoming) => incoming,
            Err(IncomingError::Refused(refusal)) => {
                self.taken.refused.push((String::from_utf8_lossy(path).into_owned(), refusal));
                return Ok(());
            }
            Err(IncomingError::Source(error)) => return Err(ImportError::Archive(error)),
            Err(error @ (IncomingError::Temporary(_) | IncomingError::TooLittleSpace)) => {
                return Err(NotWritten(error.to_string()).into());
            }
        };
        let of_device = incoming.device();
        let mut part: Option<Arc<Part>> = None;
        let now = unix_ms();
        let age = name.age.min(now);
        let mut outcome = Ok(());
        let damaged = incoming.for_each(&mut |kind, key, payload| {
            let travel = check::travel(kind);
            if travel == Travel::Stays && of_device.is_some() {
                return;
            }
            if !check::is_sound(of_device.is_some(), kind, key, payload) {
                self.taken.mismatched += 1;
                return;
            }
            match (travel, of_device) {
                (Travel::Use, _) => {
                    UseRecord::decode(payload).into_iter().for_each(|found| self.note(key, found, now));
                }
                (Travel::Reference, Some(header)) => {
                    self.same.extend(Same::decode(payload).map(|same| ((*header).clone(), *key, same)));
                }
                (Travel::Quarantine, Some(header)) => {
                    self.quarantine.note(header, key, age, payload);
                }
                _ if outcome.is_ok() => {
                    outcome = self.take_record(&mut part, of_device, kind, key, payload);
                }
                _ => {}
            }
        });
        self.taken.damaged += damaged;
        outcome
    }

    /// Imports one valid record into `part`, which is opened for the first one.
    fn take_record(
        &mut self,
        part: &mut Option<Arc<Part>>,
        of_device: Option<&DeviceHeader>,
        kind: Kind,
        key: &Key,
        payload: &[u8],
    ) -> Result<(), ImportError> {
        let part = match part {
            Some(part) => part,
            None => part.insert(self.part(of_device)?),
        };
        if part.contains(kind, key) {
            self.taken.present += 1;
            return Ok(());
        }
        if let Some(header) = of_device.filter(|_| kind == Kind::Artifact) {
            self.begin_artifact(part, header, key)?;
        }
        self.put(part, kind, key, payload)
    }

    /// An artifact that is known to be quarantined never stands in the stash without that.
    fn begin_artifact(&mut self, part: &Part, header: &DeviceHeader, key: &Key) -> Result<(), ImportError> {
        if self.quarantine.takes(header, key) { self.put_quarantine(part, key) } else { Ok(()) }
    }

    fn put_quarantine(&mut self, part: &Part, key: &Key) -> Result<(), ImportError> {
        self.put(part, Kind::CrashCount, key, &[CRASH_LIMIT])
    }

    /// Keeps the newest use of a key.
    fn note(&mut self, key: &Key, mut found: UseRecord, now: u64) {
        found.unix_ms = found.unix_ms.min(now);
        found.run = found.run.min(now);
        let known = self.uses.entry(*key).or_insert(found);
        if (found.run, found.unix_ms) > (known.run, known.unix_ms) {
            *known = found;
        }
    }

    fn put(&mut self, part: &Part, kind: Kind, key: &Key, payload: &[u8]) -> Result<(), ImportError> {
        // A part of the stash is open, so the sink is.
        if let Some(sink) = &mut self.sink {
            sink.put(part, kind, key, payload)?;
        }
        *self.taken.records.entry(kind).or_default() += 1;
        Ok(())
    }

    /// Quarantines the artifacts whose counts of crashes came after them.
    fn take_quarantine(&mut self) -> Result<(), ImportError> {
        for (header, key) in self.quarantine.late() {
            let part = self.part(Some(&header))?;
            self.put_quarantine(&part, &key)?;
        }
        Ok(())
    }

    /// Takes the artifacts whose data another one has, now that all of those are here.
    fn take_same(&mut self) -> Result<(), ImportError> {
        let mut payload = Vec::new();
        for (header, key, same) in std::mem::take(&mut self.same) {
            let part = self.part(Some(&header))?;
            if part.contains(Kind::Artifact, &key) {
                self.taken.present += 1;
            } else if part.read(Kind::Artifact, &same.target, &mut payload) && same.complete(&mut payload) {
                self.quarantine.note_same(&header, &key, &same.target);
                self.begin_artifact(&part, &header, &key)?;
                self.put(&part, Kind::Artifact, &key, &payload)?;
            } else {
                self.taken.mismatched += 1;
            }
        }
        Ok(())
    }

    fn finish(mut self, imported: &mut Imported) -> Result<(), ImportError> {
        let mut uses: Vec<_> = std::mem::take(&mut self.uses).into_iter().collect();
        if self.sink.is_none() && !self.root.join(&self.app.folder).is_dir() {
            // Without a folder the application has no recipes to which these uses could belong.
            self.taken.mismatched += std::mem::take(&mut uses).len() as u64;
        }
        uses.sort_unstable_by_key(|(key, found)| (found.run, found.sequence, *key));
        for (key, found) in uses {
            let portable = self.part(None)?;
            if !portable.contains(Kind::Recipe, &key) {
                self.taken.mismatched += 1;
            } else if portable.contains(Kind::Use, &key) {
                self.taken.present += 1;
            } else {
                self.put(&portable, Kind::Use, &key, &found.encode())?;
            }
        }
        self.take_same()?;
        self.take_quarantine()?;
        self.sink.as_mut().map_or(Ok(()), Sink::settle)?;
        imported.of(&self.app).add(self.taken);
        Ok(())
    }
}

/// The application as it is called here: as the archive names it, or else the only one here that is another
/// installation of it ([`AppName::are_kin`]).
fn installed(root: &Path, named: &AppName) -> AppName {
    let here = fs::read_dir(root).into_iter().flatten().flatten();
    let here = here.filter_map(|entry| entry.file_name().into_string().ok());
    let kin: Vec<_> = here.filter(|folder| AppName::are_kin(folder, &named.folder)).collect();
    match kin.as_slice() {
        [only] => AppName::of_folder(only).unwrap_or_else(|| named.clone()),
        _ => named.clone(),
    }
}

impl Imported {
    fn of(&mut self, app: &AppName) -> &mut Taken {
        self.applications.entry(app.folder.clone()).or_default()
    }
}

impl Taken {
    /// Adds what came in a later piece of the same application.
    fn add(&mut self, other: Taken) {
        for (kind, count) in other.records {
            *self.records.entry(kind).or_default() += count;
        }
        self.present += other.present;
        self.mismatched += other.mismatched;
        self.damaged += other.damaged;
        self.left_out += other.left_out;
        self.refused.extend(other.refused);
    }
}
