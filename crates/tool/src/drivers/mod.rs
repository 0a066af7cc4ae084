//! The drivers that are here now, and the pipelines that other versions of them have compiled and they have not.
//!
//! - [`probe`] what the loader and the drivers answer, asked in a process of its own
//! - [`caches`] the caches that drivers have on disk
//! - [`loader_paths`] where the Vulkan loader searches manifests
//! - `installed` the drivers' files, as one digest that changes with them
//! - `noted` what was found out of the drivers with such a digest, in a file of the stash
//! - `not_ready` what is to be compiled again, counted and in words
//! - `prepared` what was compiled again, and when
//!
//! Only a driver can say which version it is, and asking starts a process that loads all of them. So its answer is kept
//! with the digest of the drivers' files, and they are asked again when that has changed.

pub(crate) mod caches;
mod installed;
pub(crate) mod loader_paths;
mod not_ready;
mod noted;
mod prepared;
pub(crate) mod probe;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use vkstash_model::recipe::SCHEMA;
use vkstash_store::stash::behind::{Behind, DriverVersion, behind};
use vkstash_store::stash::inspect::{ApplicationInfo, list_applications};

use crate::reports::names;
use crate::term::time;
use crate::term::units::{counted, quoted};

pub(crate) use not_ready::NotReady;
use noted::{Noted, Record, Writing};
pub(crate) use prepared::Prepared;
use probe::ask;

/// How drivers are asked that have not answered yet.
#[derive(Clone, Copy, Debug)]
struct Asking {
    /// So long they are waited for.
    patience: Duration,
    /// Also if they did not answer a short time ago.
    always: bool,
    /// A program waits.
    is_waited_for: bool,
}

impl Asking {
    /// For commands that tell of the stash.
    const USUAL: Asking = Asking { patience: Duration::from_secs(20), always: false, is_waited_for: false };
    /// A program waits, once after a change of the drivers.
    const BEFORE_RUN: Asking =
        Asking { patience: Duration::from_secs(2), always: false, is_waited_for: true };
    /// Nobody waits.
    const PATIENT: Asking = Asking { patience: Duration::from_secs(20), always: true, is_waited_for: false };
}

/// So many milliseconds it is told what was prepared.
const TOLD_FOR_MS: u64 = 30 * 24 * 60 * 60 * 1000;
/// Work that was cut off so often on the same drivers is left to the user: the machine may have gone down because of
/// it.
pub(crate) const MOST_CUT_OFF: u32 = 3;
/// So often it is tried to go through an application whose workers fail whatever they do.
const MOST_TRIES: u32 = 3;
/// Drivers that did not answer are asked again after so many milliseconds.
const AGAIN_AFTER_MS: u64 = 60 * 60 * 1000;

/// A driver, on one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Driver {
    vendor_id: u32,
    device_id: u32,
    driver_id: u32,
    driver_version: u32,
    #[serde(with = "hex::serde")]
    pipeline_cache_uuid: [u8; 16],
    /// The driver's name and version, as it tells them.
    words: String,
}

impl Driver {
    fn of(device: probe::Device) -> Driver {
        let driver_id = device.driver_id as u32;
        let version =
            || format!("{} {}", device.name, names::driver_version(driver_id, device.driver_version));
        Driver {
            vendor_id: device.vendor_id,
            device_id: device.device_id,
            driver_id,
            driver_version: device.driver_version,
            pipeline_cache_uuid: device.pipeline_cache_uuid,
            words: if device.driver.is_empty() { version() } else { device.driver },
        }
    }

    /// For programs of this tool's pointer width.
    pub(crate) fn version(&self) -> DriverVersion {
        DriverVersion {
            vendor_id: self.vendor_id,
            device_id: self.device_id,
            driver_id: self.driver_id,
            driver_version: self.driver_version,
            pipeline_cache_uuid: self.pipeline_cache_uuid,
            pointer_width: size_of::<usize>() as u8,
            schema: SCHEMA,
        }
    }
}

/// What is known of the drivers that are here, and of a stash.
#[derive(Debug, Default)]
pub(crate) struct Updates {
    pub(crate) drivers: Vec<Driver>,
    pub(crate) not_ready: Option<NotReady>,
    pub(crate) prepared: Option<Prepared>,
    /// How often the service was cut off on these drivers, if it does not try any more.
    pub(crate) given_up: Option<u32>,
    gone_through: BTreeMap<String, u64>,
}

impl Updates {
    /// For people: what is not ready, or else what was prepared lately.
    pub(crate) fn told(&self, now_ms: u64) -> Option<String> {
        let prepared = || {
            let is_late = |prepared: &&Prepared| now_ms.saturating_sub(prepared.unix_ms) < TOLD_FOR_MS;
            self.prepared.as_ref().filter(is_late).map(|prepared| prepared.line(now_ms))
        };
        self.not_ready.as_ref().map(ToString::to_string).or_else(prepared)
    }

    /// What these versions of drivers have yet to compile of an application.
    pub(crate) fn lacks(&self, info: &ApplicationInfo, versions: &[DriverVersion]) -> Vec<Lack> {
        let gone_through = self.gone_through.get(&info.folder).copied().unwrap_or(0);
        let lack = |version: &DriverVersion| {
            let behind = behind(&info.parts, version).filter(|behind| behind.before > gone_through)?;
            let here = self.drivers.iter().find(|driver| driver.version() == *version);
            let named = || names::driver(version.driver_id, version.driver_version);
            Some(Lack {
                driver: here.map_or_else(named, |driver| driver.words.clone()),
                other: names::driver(version.driver_id, behind.other_version),
                behind,
                seconds: not_ready::seconds(info, behind.missing()),
            })
        };
        versions.iter().filter_map(lack).collect()
    }
}

/// What a version of a driver has yet to compile of an application.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lack {
    /// The driver and its version, in words.
    pub(crate) driver: String,
    /// The version that has more.
    pub(crate) other: String,
    pub(crate) behind: Behind,
    /// What compiling the rest takes, as far as the program's runs tell.
    pub(crate) seconds: Option<f64>,
}

impl Lack {
    /// `name`: what commands call the application.
    pub(crate) fn line(&self, name: &str) -> String {
        let Lack { driver, other, behind: Behind { now, before, .. }, .. } = self;
        let had = if other == driver { "another build of it" } else { other };
        let took =
            self.seconds.map_or(String::new(), |seconds| format!("; about {}", whole_seconds(seconds)));
        format!(
            "not ready: {driver} is new here, and has {now} of the {} that {had} had{took}: vkstash prewarm {}",
            counted(*before, "pipeline"),
            quoted(name)
        )
    }
}

/// A span that is no more than a guess.
fn whole_seconds(seconds: f64) -> String {
    time::span((seconds.max(1.0).ceil() * 1e9) as u64)
}

/// What came of an application in `vkstash prewarm`.
pub(crate) struct GoneThrough {
    pub(crate) folder: String,
    /// Pipelines that were made.
    pub(crate) made: u64,
    /// All were tried: what is still not there cannot be made.
    pub(crate) is_complete: bool,
    /// Work ended before it was done.
    pub(crate) was_stopped: bool,
}

/// Notes what was prepared for the drivers with this digest, if they are still here. `before`: the applications as they
/// were.
pub(crate) fn note(
    root: &Path,
    digest: &str,
    before: &[ApplicationInfo],
    gone_through: &[GoneThrough],
) -> io::Result<()> {
    let Some(known) = known(root, before, Asking::PATIENT).filter(|known| known.digest == digest) else {
        return Ok(());
    };
    let now = list_applications(root).unwrap_or_default();
    Noted::change_record(root, digest, Writing::Plain, |record| {
        record.answer(&known);
        gone_through.iter().for_each(|gone| note_one(record, before, gone));
        record.not_ready = not_ready::pipelines(&now, record);
    })
}

fn note_one(record: &mut Record, before: &[ApplicationInfo], gone: &GoneThrough) {
    let Some(info) = before.iter().find(|info| info.folder == gone.folder) else { return };
    let lacked: Vec<_> = not_ready::lacks(info, &record.drivers).collect();
    if gone.made > 0 && !lacked.is_empty() {
        let prepared = record.prepared.get_or_insert_default();
        prepared.drivers.extend(lacked.iter().map(|(driver, _)| driver.words.clone()));
        prepared.pipelines += gone.made;
        prepared.programs.insert(gone.folder.clone());
        prepared.unix_ms = time::now();
    }
    if gone.was_stopped {
        return;
    }
    let most = lacked.iter().map(|(_, behind)| behind.before).max();
    let tries = record.tries.entry(gone.folder.clone()).or_default();
    *tries += 1;
    if gone.is_complete || *tries >= MOST_TRIES {
        record.tries.remove(&gone.folder);
        most.into_iter().for_each(|most| _ = record.gone_through.insert(gone.folder.clone(), most));
        record.cut_off = 0;
    }
}

/// What the stash with these applications lacks for the drivers that are here.
pub(crate) fn look(root: &Path, applications: &[ApplicationInfo]) -> Updates {
    look_as(root, applications, Asking::USUAL)
}

/// What stands for the drivers that are here: another value, once their files have changed.
pub(crate) fn digest() -> String {
    installed::look().digest
}

/// How long ago a file of a driver was changed.
pub(crate) fn since_change() -> Duration {
    installed::look().since_change
}

/// The programs whose sandboxes were gone through, and what drivers they had then.
pub(crate) fn sandboxes(root: &Path) -> BTreeMap<String, String> {
    Noted::read(root).sandboxes
}

/// The sandbox of this program was gone through with these drivers.
pub(crate) fn note_sandbox(root: &Path, program: &str, drivers: String) -> io::Result<()> {
    Noted::change(root, Writing::Plain, |noted| _ = noted.sandboxes.insert(program.to_owned(), drivers))
}

/// The folders of the applications that lack something for the drivers that are here, the most played first.
pub(crate) fn lacking(root: &Path, applications: &[ApplicationInfo]) -> Vec<String> {
    let updates = look_as(root, applications, Asking::PATIENT);
    let versions: Vec<_> = updates.drivers.iter().map(Driver::version).collect();
    let lacks = |info: &&ApplicationInfo| !updates.lacks(info, &versions).is_empty();
    most_played_first(applications.iter().filter(lacks).collect())
}

fn most_played_first(mut applications: Vec<&ApplicationInfo>) -> Vec<String> {
    applications.sort_by_key(|info| Reverse((info.runs.runs, info.runs.until_unix_ms)));
    applications.into_iter().map(|info| info.folder.clone()).collect()
}

/// Notes on the disk that work begins for the drivers that are here: if the machine goes down with it, that is counted.
pub(crate) fn begin_work(root: &Path) -> io::Result<()> {
    Noted::change_record(root, &digest(), Writing::ToDisk, |record| record.is_at_work = true)
}

/// Work has ended in order. The drivers' files may be others by now.
pub(crate) fn end_work(root: &Path) -> io::Result<()> {
    Noted::change(root, Writing::ToDisk, |noted| {
        noted.records.iter_mut().for_each(|record| record.is_at_work = false);
    })
}

/// How often work for the drivers that are here has ended without any order. Nobody works now.
pub(crate) fn count_cut_off(root: &Path) -> u32 {
    let digest = digest();
    if Noted::read(root).record(&digest).is_some_and(|record| record.is_at_work) {
        let _ = Noted::change_record(root, &digest, Writing::ToDisk, |record| {
            record.is_at_work = false;
            record.cut_off += 1;
        });
    }
    cut_off(root)
}

/// The same, of what is noted.
pub(crate) fn cut_off(root: &Path) -> u32 {
    Noted::read(root).record(&digest()).map_or(0, |record| record.cut_off)
}

/// One line about what is not ready, before `vkstash run` starts a program. Where nothing has changed since the last
/// look it reads a small file.
pub(crate) fn line_before_run(root: &Path) -> Option<String> {
    let noted = Noted::read(root);
    if noted.record(&digest()).is_some_and(|record| record.not_ready == 0 && !record.is_stale()) {
        return None;
    }
    let applications = list_applications(root).ok()?;
    look_as(root, &applications, Asking::BEFORE_RUN).not_ready.map(|not_ready| not_ready.to_string())
}

fn look_as(root: &Path, applications: &[ApplicationInfo], asking: Asking) -> Updates {
    let Some(known) = known(root, applications, asking) else { return Updates::default() };
    let not_ready = not_ready::count(applications, &known);
    let pipelines = not_ready.as_ref().map_or(0, |not_ready| not_ready.pipelines);
    let is_noted = |record: &Record| {
        let of = |record: &Record| (record.asked_unix_ms, record.is_answered);
        record.not_ready == pipelines && of(record) == of(&known)
    };
    if !Noted::read(root).record(&known.digest).is_some_and(is_noted) {
        // A stash that cannot be written is asked again the next time.
        let _ = Noted::change_record(root, &known.digest, Writing::Plain, |record| {
            record.answer(&known);
            record.not_ready = pipelines;
        });
    }
    let Record { drivers, prepared, gone_through, cut_off, .. } = known;
    let given_up = Some(cut_off).filter(|&cut_off| cut_off >= MOST_CUT_OFF);
    Updates { drivers, not_ready, prepared, given_up, gone_through }
}

/// What is known of the drivers that are here, which are asked if need be. None: the stash has nothing that a driver
/// has made; or it cannot be noted that the drivers are asked, and somebody waits.
fn known(root: &Path, applications: &[ApplicationInfo], asking: Asking) -> Option<Record> {
    if !applications.iter().flat_map(|info| &info.parts).any(|part| part.device.is_some()) {
        return None;
    }
    let digest = digest();
    let noted = Noted::read(root);
    let record = noted.record(&digest).cloned();
    if let Some(known) =
        record.clone().filter(|record| record.is_answered || !asking.always && !record.is_stale())
    {
        return Some(known);
    }
    let mut record = record.unwrap_or_else(|| Record::new(&digest));
    record.asked_unix_ms = time::now();
    // Otherwise each program would wait for drivers that hang.
    let noted = Noted::change_record(root, &digest, Writing::Plain, |known| known.answer(&record));
    if asking.is_waited_for && noted.is_err() {
        return None;
    }
    let answer = ask(None, asking.patience, |command| {
        command.env("VKSTASH_DISABLE", "1");
    });
    let answer = answer.unwrap_or_default();
    record.is_answered = answer.failed.is_none() && answer.loader.is_some();
    record.drivers = answer.devices.into_iter().map(Driver::of).collect();
    Some(record)
}

#[cfg(test)]
mod tests {
    use vkstash_store::reports::totals::Totals;

    use super::*;

    #[test]
    fn of_applications_that_were_played_as_often_the_one_that_was_played_last_comes_first() {
        let application = |name: &str, runs: u64, until_unix_ms: u64| {
            let mut info = ApplicationInfo {
                folder: name.to_owned(),
                display: name.to_owned(),
                parts: Vec::new(),
                runs: Totals::default(),
                unusable: BTreeMap::new(),
            };
            (info.runs.runs, info.runs.until_unix_ms) = (runs, until_unix_ms);
            info
        };
        let all = [application("once", 1, 9), application("old", 5, 1), application("new", 5, 2)];
        assert_eq!(most_played_first(all.iter().collect()), ["new", "old", "once"]);
    }
}
