//! Whether a driver was updated since an application's pipelines were compiled.

use vkstash_store::format::device::DeviceHeader;
use vkstash_store::reports::model::DeviceReport;
use vkstash_store::stash::behind::{Behind, DriverVersion};
use vkstash_store::stash::inspect::ApplicationInfo;

use super::model::{Application, Device};
use crate::drivers::Updates;

/// What the drivers that are here have yet to compile, and of other drivers the versions that the last run used.
pub(super) fn of(info: &ApplicationInfo, updates: &Updates) -> Vec<Behind> {
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
    // Nothing was recorded in that run. A report does not have the UUID, which no part has then.
    let is_of_driver = |header: &&DeviceHeader| {
        let of_report = (report.vendor_id, report.device_id, report.driver_id);
        (header.vendor_id, header.device_id, header.driver_id) == of_report
    };
    let other = DriverVersion::from(headers().map(|(_, header)| header).find(is_of_driver)?);
    Some(DriverVersion { driver_version: report.driver_version, pipeline_cache_uuid: [0; 16], ..other })
}

/// Whether the last run was the only one with a version of a driver that had another version before.
pub(super) fn was_first_run(application: &Application) -> bool {
    let Some(last) = &application.last_run else { return false };
    let is_first = |device: &Device| {
        let of_driver = application.devices.iter().filter(|row| of_device(row) == of_device(device));
        let (own, other): (Vec<_>, Vec<_>) =
            of_driver.partition(|row| row.driver_version == device.driver_version);
        !other.is_empty() && own.iter().all(|row| row.work.counters == device.work.counters)
    };
    last.devices.iter().any(is_first)
}

fn of_device(device: &Device) -> (u32, u32, u32) {
    (device.vendor_id, device.device_id, device.driver_id)
}
