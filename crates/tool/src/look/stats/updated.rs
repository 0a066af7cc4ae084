//! Updates of drivers since an application's pipelines were compiled.

use vkstash_store::format::device::DeviceHeader;
use vkstash_store::reports::model::DeviceReport;
use vkstash_store::stash::behind::DriverVersion;
use vkstash_store::stash::inspect::ApplicationInfo;

use crate::drivers::{Lack, Updates};

/// What the drivers that are here have yet to compile, and of other drivers the versions that the last run used.
pub(super) fn of(info: &ApplicationInfo, updates: &Updates) -> Vec<Lack> {
    let mut versions: Vec<DriverVersion> = updates.drivers.iter().map(|driver| driver.version()).collect();
    let last = info.runs.last.iter().flat_map(|run| &run.devices);
    // Without a last run, that of the newest totals.
    for report in last.chain(info.runs.devices.iter().rev()) {
        let Some(used) = used(info, report) else { continue };
        if !versions.iter().any(|version| version.is_of_the_driver_of(&used)) {
            versions.push(used);
        }
    }
    updates.lacks(info, &versions)
}

/// The version of the driver that this report tells of. None: the stash has no part of that driver.
fn used(info: &ApplicationInfo, report: &DeviceReport) -> Option<DriverVersion> {
    let headers = || info.parts.iter().filter_map(|part| Some((part, part.device.as_ref()?)));
    if let Some((_, header)) = headers().find(|(part, _)| part.name == report.part) {
        return Some(header.into());
    }
    // Nothing was recorded in that run, and a report does not have the UUID.
    let is_of_driver = |header: &DeviceHeader| {
        let of_report = (report.vendor_id, report.device_id, report.driver_id);
        (header.vendor_id, header.device_id, header.driver_id) == of_report
    };
    let of_driver = || headers().map(|(_, header)| header).filter(|header| is_of_driver(header));
    if let Some(same) = of_driver().find(|header| header.driver_version == report.driver_version) {
        return Some(same.into());
    }
    let other = DriverVersion::from(of_driver().next()?);
    // The UUID of a version that no part is of.
    Some(DriverVersion { driver_version: report.driver_version, pipeline_cache_uuid: [0; 16], ..other })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use vkstash_store::reports::totals::Totals;
    use vkstash_store::stash::inspect::PartInfo;

    use super::super::collect::example;
    use super::*;

    const HEADER: DeviceHeader = DeviceHeader {
        vendor_id: 1,
        device_id: 2,
        pipeline_cache_uuid: [7; 16],
        driver_id: 3,
        driver_version: 4,
        pointer_width: 8,
        schema: 2,
        features_digest: [0; 32],
    };

    /// What is lacking after a run with this version of the driver, in which nothing was opened (switched off, or over
    /// before its part was).
    fn lacking_after(driver_version: u32) -> Vec<String> {
        let (vendor_id, device_id, driver_id) = (HEADER.vendor_id, HEADER.device_id, HEADER.driver_id);
        let used =
            DeviceReport { vendor_id, device_id, driver_id, driver_version, ..DeviceReport::default() };
        let mut totals = Totals::default();
        totals.devices.push(used);
        let mut info = example(totals);
        info.parts.push(PartInfo {
            name: "0123456789abcdef".to_owned(),
            device: Some(HEADER),
            segments: 1,
            sealed: 1,
            bytes: 0,
            records: BTreeMap::from([("artifact".to_owned(), 10)]),
            payload_bytes: BTreeMap::new(),
            damaged: 0,
            refused: Vec::new(),
        });
        of(&info, &Updates::default()).iter().map(|lack| lack.line("Elden Ring")).collect()
    }

    #[test]
    fn a_run_without_a_part_is_of_an_update_if_its_version_has_none() {
        assert!(lacking_after(4).is_empty());
        let expected = "not ready: MESA_RADV 0.0.5 is new here, and has 0 of the 10 pipelines that MESA_RADV 0.0.4 \
                        had: vkstash prewarm 'Elden Ring'";
        assert_eq!(lacking_after(5), [expected]);
    }
}
