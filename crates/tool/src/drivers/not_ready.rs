//! Pipelines that the drivers that are here have yet to compile.

use std::fmt;

use serde::Serialize;
use vkstash_model::counters::Count;
use vkstash_store::stash::behind::{Behind, behind};
use vkstash_store::stash::inspect::ApplicationInfo;

use super::noted::Record;
use super::prepared::listed;
use super::{Driver, whole_seconds};
use crate::reports::tally::Tally;
use crate::system::machine;
use crate::term::units::counted;

/// Pipelines that other versions of the drivers have compiled.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct NotReady {
    /// The drivers that have not, by their names and versions.
    pub(crate) drivers: Vec<String>,
    /// Number of pipelines.
    pub(crate) pipelines: u64,
    /// Number of programs that they are of.
    pub(crate) programs: u64,
    /// Seconds that compiling them takes, as far as the programs' runs tell; null where they do not.
    pub(crate) seconds: Option<f64>,
}

impl fmt::Display for NotReady {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is = if self.drivers.len() == 1 { "is" } else { "are" };
        let (pipelines, programs) = (counted(self.pipelines, "pipeline"), counted(self.programs, "program"));
        write!(to, "not ready: {} {is} new here, {pipelines} of {programs}", listed(&self.drivers))?;
        if let Some(seconds) = self.seconds {
            write!(to, "; about {}", whole_seconds(seconds))?;
        }
        write!(to, ": vkstash prewarm --all")
    }
}

/// What each of these drivers lacks of an application, whatever was gone through before.
pub(super) fn lacks<'a>(
    info: &'a ApplicationInfo,
    drivers: &'a [Driver],
) -> impl Iterator<Item = (&'a Driver, Behind)> {
    drivers.iter().filter_map(|driver| Some((driver, behind(&info.parts, &driver.version())?)))
}

/// None: everything is ready that can be.
pub(super) fn count(applications: &[ApplicationInfo], record: &Record) -> Option<NotReady> {
    let mut total = NotReady { drivers: Vec::new(), pipelines: 0, programs: 0, seconds: None };
    for info in applications {
        let gone_through = record.gone_through.get(&info.folder).copied().unwrap_or(0);
        let mut missing = 0;
        for (driver, behind) in
            lacks(info, &record.drivers).filter(|(_, behind)| behind.before > gone_through)
        {
            missing += behind.missing();
            if !total.drivers.contains(&driver.words) {
                total.drivers.push(driver.words.clone());
            }
        }
        if missing == 0 {
            continue;
        }
        total.programs += 1;
        total.pipelines += missing;
        if let Some(seconds) = seconds(info, missing) {
            *total.seconds.get_or_insert(0.0) += seconds;
        }
    }
    (total.programs > 0).then_some(total)
}

/// How many pipelines are not ready.
pub(super) fn pipelines(applications: &[ApplicationInfo], record: &Record) -> u64 {
    count(applications, record).map_or(0, |not_ready| not_ready.pipelines)
}

/// What it takes to compile so many pipelines, by what a compile took on average.
pub(super) fn seconds(info: &ApplicationInfo, pipelines: u64) -> Option<f64> {
    let mut tally = Tally::default();
    info.runs.devices.iter().for_each(|device| tally.add(device));
    let compiled = tally.compiled();
    let jobs = (machine::processors() / 2).max(1);
    let all = pipelines as f64 * tally.get(Count::CompileNanos) as f64 / 1e9;
    (compiled > 0 && all > 0.0).then(|| all / compiled as f64 / jobs as f64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use vkstash_store::format::device::DeviceHeader;
    use vkstash_store::reports::model::DeviceReport;
    use vkstash_store::stash::inspect::PartInfo;

    use super::*;

    fn driver(version: u32) -> Driver {
        Driver {
            vendor_id: 1,
            device_id: 2,
            driver_id: 3,
            driver_version: version,
            pipeline_cache_uuid: [version as u8; 16],
            words: format!("radv Mesa 25.{version}"),
        }
    }

    fn application(name: &str, parts: &[(u32, u64)]) -> ApplicationInfo {
        let part = |&(version, artifacts): &(u32, u64)| {
            let of = driver(version).version();
            PartInfo {
                name: String::new(),
                device: Some(DeviceHeader {
                    vendor_id: of.vendor_id,
                    device_id: of.device_id,
                    pipeline_cache_uuid: of.pipeline_cache_uuid,
                    driver_id: of.driver_id,
                    driver_version: of.driver_version,
                    pointer_width: of.pointer_width,
                    schema: of.schema,
                    features_digest: [0; 32],
                }),
                segments: 1,
                sealed: 1,
                bytes: 0,
                records: BTreeMap::from([("artifact".to_owned(), artifacts)]),
                payload_bytes: BTreeMap::new(),
                damaged: 0,
                refused: Vec::new(),
            }
        };
        let counters = [(Count::Compiled, 10), (Count::CompileNanos, 5_000_000_000)];
        let counters = counters.map(|(what, value)| (what.name().to_owned(), value)).into();
        let mut info = ApplicationInfo {
            folder: format!("{name}-0"),
            display: name.to_owned(),
            parts: parts.iter().map(part).collect(),
            runs: Default::default(),
            unusable: BTreeMap::new(),
        };
        info.runs.devices.push(DeviceReport { counters, ..DeviceReport::default() });
        info
    }

    fn record(gone_through: &[(&str, u64)]) -> Record {
        let gone_through = gone_through.iter().map(|&(folder, before)| (folder.to_owned(), before)).collect();
        Record { drivers: vec![driver(2)], gone_through, ..Record::new("d") }
    }

    #[test]
    fn what_other_versions_have_compiled_is_counted_until_it_was_gone_through() {
        let stash = [
            application("old", &[(1, 300)]),
            application("half", &[(1, 100), (2, 50)]),
            application("done", &[(1, 100), (2, 95)]),
            application("new", &[(2, 40)]),
        ];
        let counted = count(&stash, &record(&[])).unwrap();
        assert_eq!((counted.pipelines, counted.programs), (350, 2));
        let jobs = (machine::processors() / 2).max(1);
        assert!((counted.seconds.unwrap() - 175.0 / jobs as f64).abs() < 1e-6);
        let left = count(&stash, &record(&[("half-0", 100)])).unwrap();
        assert_eq!((left.pipelines, left.programs), (300, 1));
        assert_eq!(count(&stash, &record(&[("half-0", 100), ("old-0", 300)])), None);
        let more = count(&stash, &record(&[("half-0", 100), ("old-0", 299)]));
        assert!(more.is_some(), "another version has compiled more since");
    }

    #[test]
    fn the_line_says_what_to_type() {
        let mut not_ready = NotReady {
            drivers: vec!["radv Mesa 25.1".into()],
            pipelines: 415,
            programs: 5,
            seconds: Some(39.2),
        };
        let expected = "not ready: radv Mesa 25.1 is new here, 415 pipelines of 5 programs; about 40 s: vkstash prewarm --all";
        assert_eq!(not_ready.to_string(), expected);
        not_ready.seconds = None;
        not_ready.drivers.push("NVIDIA 600".into());
        let expected = "not ready: radv Mesa 25.1, NVIDIA 600 are new here, 415 pipelines of 5 programs: vkstash prewarm --all";
        assert_eq!(not_ready.to_string(), expected);
    }
}
