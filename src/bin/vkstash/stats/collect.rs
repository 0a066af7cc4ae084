//! From the folders of a stash to its statistics.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use VkLayer_vkstash::stats::{DeviceReport, RunReport};
use VkLayer_vkstash::store::runs;

use super::model::{Application, Bypass, Device, SCHEMA, Stash, Store, Unreadable, Work};
use super::remark;
use crate::names;
use crate::tally::{Tally, grow};

/// Why there are no statistics.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CollectError {
    #[error("cannot read the stash {}: {error}", root.display())]
    Root { root: PathBuf, error: io::Error },
}

/// Looks at every application below `root`. A root that is not there is one in which nothing was recorded.
pub(crate) fn collect(root: &Path) -> Result<Stash, CollectError> {
    let mut stash = Stash {
        schema: SCHEMA,
        root: root.to_string_lossy().into_owned(),
        bytes: 0,
        applications: Vec::new(),
        unreadable: Vec::new(),
    };
    for folder in application_folders(root)? {
        let mut bytes = 0;
        let reports = reports_in(&folder, &mut bytes).unwrap_or_else(|error| {
            let path = folder.to_string_lossy().into_owned();
            stash.unreadable.push(Unreadable { path, reason: error.to_string() });
            Vec::new()
        });
        stash.bytes = stash.bytes.saturating_add(bytes);
        stash.applications.push(application(&folder, bytes, &reports));
    }
    stash.applications.sort_by_key(|application| std::cmp::Reverse(application.last_use_unix_ms));
    Ok(stash)
}

/// The folders below `root` that are named as the store names them; nothing else there is ours to read.
// To be replaced by the store's own list of applications.
fn application_folders(root: &Path) -> Result<Vec<PathBuf>, CollectError> {
    let failed = |error| CollectError::Root { root: root.to_owned(), error };
    let entries = match fs::read_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    };
    let mut folders = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        // Not following links, as the store does not.
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && entry.file_name().to_str().is_some_and(is_application) {
            folders.push(entry.path());
        }
    }
    folders.sort();
    Ok(folders)
}

/// A name, a hyphen and 16 hexadecimal digits.
fn is_application(folder: &str) -> bool {
    folder.rsplit_once('-').is_some_and(|(name, digest)| {
        !name.is_empty() && digest.len() == 16 && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

fn reports_in(folder: &Path, bytes: &mut u64) -> io::Result<Vec<RunReport>> {
    add_sizes(folder, bytes)?;
    let runs = folder.join("runs");
    match fs::read_dir(&runs) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
        Ok(mut entries) => Ok(if entries.next().is_none() { Vec::new() } else { runs::read_all(&runs) }),
    }
}

/// Adds the sizes of all files below `folder`. Files may come and go while a program runs.
fn add_sizes(folder: &Path, bytes: &mut u64) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => add_sizes(&entry.path(), bytes)?,
            Ok(metadata) => grow(bytes, metadata.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// What is known of one application, from its reports.
pub(super) fn application(folder: &Path, bytes: u64, reports: &[RunReport]) -> Application {
    let folder = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let known_name = reports.iter().rev().map(|report| &report.application).find(|name| !name.is_empty());
    let from_folder = || folder.rsplit_once('-').map_or(folder.clone(), |(name, _)| name.to_owned());
    let name = known_name.cloned().unwrap_or_else(from_folder);

    let mut tally = Tally::default();
    reports.iter().flat_map(|report| &report.devices).for_each(|device| tally.add(device));
    let store = store(reports);
    let runs = reports.len() as u64;
    let (benefit, remark) = remark::judge(&tally, runs, &store);
    Application {
        name,
        bytes,
        runs,
        since_unix_ms: reports.iter().map(|report| report.started_unix_ms).min(),
        last_use_unix_ms: reports.iter().map(|report| report.updated_unix_ms).max(),
        work: work(&tally),
        devices: devices(reports),
        store,
        benefit,
        remark,
        folder,
    }
}

/// What makes two reports speak of the same device with the same driver.
fn identity(device: &DeviceReport) -> (u32, u32, u32, u32, &str) {
    (device.vendor_id, device.device_id, device.driver_id, device.driver_version, &device.name)
}

fn devices(reports: &[RunReport]) -> Vec<Device> {
    let mut by_identity: BTreeMap<_, (Tally, Device)> = BTreeMap::new();
    for report in reports {
        let mut counted = Vec::new();
        for device in &report.devices {
            let identity = identity(device);
            let (tally, shown) =
                by_identity.entry(identity).or_insert_with(|| (Tally::default(), unused(device)));
            tally.add(device);
            if !device.part.is_empty() && !shown.parts.contains(&device.part) {
                shown.parts.push(device.part.clone());
            }
            // A process that creates the device twice is still one run.
            if !counted.contains(&identity) {
                counted.push(identity);
                shown.runs += 1;
            }
            shown.last_use_unix_ms = shown.last_use_unix_ms.max(report.updated_unix_ms);
        }
    }
    let filled = by_identity.into_values().map(|(tally, device)| Device { work: work(&tally), ..device });
    let mut devices: Vec<_> = filled.collect();
    devices.sort_by_key(|device| std::cmp::Reverse(device.last_use_unix_ms));
    devices
}

fn unused(device: &DeviceReport) -> Device {
    Device {
        name: device.name.clone(),
        vendor_id: device.vendor_id,
        device_id: device.device_id,
        driver_id: device.driver_id,
        driver: names::driver_id(device.driver_id),
        driver_version: device.driver_version,
        driver_version_text: names::driver_version(device.driver_id, device.driver_version),
        parts: Vec::new(),
        runs: 0,
        last_use_unix_ms: 0,
        work: work(&Tally::default()),
    }
}

fn work(tally: &Tally) -> Work {
    let bypassed = tally.bypassed().into_iter().map(|(reason, s_type, count)| Bypass {
        reason: reason.to_owned(),
        s_type,
        // 0 stands for "none", although Vulkan has given that number to VkApplicationInfo.
        structure: if s_type == 0 { None } else { names::structure_type(s_type) },
        count,
    });
    Work { hit_percent: tally.hit_percent(), counters: tally.counters(), bypassed: bypassed.collect() }
}

fn store(reports: &[RunReport]) -> Store {
    let mut sum = Store::default();
    for store in reports.iter().map(|report| &report.store) {
        if !store.unusable.is_empty() {
            grow(sum.unusable.entry(store.unusable.clone()).or_default(), 1);
        }
        for (reason, &count) in &store.refused {
            grow(sum.refused.entry(reason.clone()).or_default(), count);
        }
        for (reason, &count) in &store.write_errors {
            grow(sum.write_errors.entry(reason.clone()).or_default(), count);
        }
        grow(&mut sum.damaged_records, store.damaged_records);
        grow(&mut sum.written_records, store.written_records);
        grow(&mut sum.written_bytes, store.written_bytes);
        grow(&mut sum.dropped, store.dropped);
    }
    sum
}

#[cfg(test)]
mod tests {
    use VkLayer_vkstash::stats::{BypassReport, Count};

    use super::*;

    fn device(part: &str, version: u32, served: u64) -> DeviceReport {
        DeviceReport {
            name: "Test GPU".to_owned(),
            driver_id: 3,
            driver_version: version,
            part: part.to_owned(),
            counters: BTreeMap::from([(Count::Served.name().to_owned(), served)]),
            bypassed: vec![BypassReport { reason: "library".to_owned(), s_type: 0, count: 1 }],
            ..DeviceReport::default()
        }
    }

    fn report(time: u64, devices: Vec<DeviceReport>) -> RunReport {
        let (started_unix_ms, updated_unix_ms) = (time, time + 10);
        RunReport {
            application: "Game".to_owned(),
            started_unix_ms,
            updated_unix_ms,
            devices,
            ..Default::default()
        }
    }

    #[test]
    fn only_folders_that_the_store_made_are_applications() {
        assert!(is_application("my-game-0123456789abcdef"));
        assert!(!is_application("my-game"));
        assert!(!is_application("-0123456789abcdef"));
        assert!(!is_application("0123456789abcdef"));
        assert!(!is_application("game-0123456789abcdefg"));
    }

    #[test]
    fn one_device_with_two_feature_sets_is_one_row_and_a_new_driver_another() {
        let reports = [
            report(100, vec![device("aa", 1, 2), device("bb", 1, 3)]),
            report(200, vec![device("cc", 2, 4)]),
        ];
        let application = application(Path::new("/r/game-0123456789abcdef"), 7, &reports);
        assert_eq!((application.since_unix_ms, application.last_use_unix_ms), (Some(100), Some(210)));
        let rows: Vec<_> =
            application.devices.iter().map(|d| (d.driver_version, d.runs, d.parts.len())).collect();
        assert_eq!(rows, [(2, 1, 1), (1, 1, 2)]);
        assert_eq!(application.devices[1].work.counters["served"], 5);
        assert_eq!(application.work.counters["served"], 9);
        assert_eq!(application.work.bypassed[0].count, 3);
        assert_eq!(application.work.bypassed[0].structure, None);
    }

    #[test]
    fn an_application_without_a_report_is_named_after_its_folder() {
        let application = application(Path::new("/r/my-game-0123456789abcdef"), 0, &[]);
        assert_eq!(application.name, "my-game");
        assert_eq!(application.since_unix_ms, None);
    }
}
