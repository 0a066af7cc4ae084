//! Whether a driver was updated since its pipelines were compiled.

use super::model::{Application, BoundTo, Device, Part};

/// Vendor, device and driver; a version of it is beside it.
type Driver = (u32, u32, u32);

/// A version of a driver, and how many pipelines it has compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Update {
    /// How many this version has compiled.
    pub(super) now: u64,
    /// How many the version has compiled that has compiled most.
    pub(super) before: u64,
}

/// The drivers that were used last and have compiled less than nine tenths of what another version of them has (as
/// `vkstash prewarm --if-driver-changed` counts).
pub(super) fn of(application: &Application) -> Vec<Update> {
    let mut seen: Vec<Driver> = Vec::new();
    let mut updates = Vec::new();
    // The newest comes first.
    let last = application.last_run.iter().flat_map(|run| &run.devices);
    for device in last.chain(&application.devices) {
        let driver = of_device(device);
        if seen.contains(&driver) {
            continue;
        }
        seen.push(driver);
        let parts = application.parts.iter().filter_map(|part| Some((part.bound_to.as_ref()?, part)));
        let compiled = parts
            .filter(|(bound, _)| of_part(bound) == driver)
            .map(|(bound, part)| (bound.driver_version, pipelines(part)));
        let behind = behind(device.driver_version, &compiled.collect::<Vec<_>>());
        updates.extend(behind.map(|(now, before)| Update { now, before }));
    }
    updates
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

fn of_device(device: &Device) -> Driver {
    (device.vendor_id, device.device_id, device.driver_id)
}

fn of_part(bound: &BoundTo) -> Driver {
    (bound.vendor_id, bound.device_id, bound.driver_id)
}

fn pipelines(part: &Part) -> u64 {
    ["artifact", "same"].iter().filter_map(|kind| part.records.get(*kind)).sum()
}

/// How many pipelines this version has compiled, and how many the one that has compiled most, if those are many more.
fn behind(version: u32, compiled: &[(u32, u64)]) -> Option<(u64, u64)> {
    let by =
        |version: u32| compiled.iter().filter(|(of, _)| *of == version).map(|(_, count)| count).sum::<u64>();
    let before = compiled.iter().map(|(of, _)| *of).filter(|of| *of != version).map(by).max()?;
    let now = by(version);
    (now.saturating_mul(10) < before.saturating_mul(9)).then_some((now, before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_behind_that_has_compiled_less_than_nine_tenths_of_what_another_has() {
        assert_eq!(behind(2, &[(1, 60), (1, 40), (2, 50), (2, 39)]), Some((89, 100)));
        assert_eq!(behind(2, &[(1, 100), (2, 90)]), None);
        assert_eq!(behind(2, &[(1, 100), (3, 200)]), Some((0, 200)));
        assert_eq!(behind(2, &[(2, 10)]), None);
        assert_eq!(behind(2, &[(1, 0), (2, 0)]), None);
    }
}
