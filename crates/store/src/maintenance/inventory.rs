//! The inventory that [`crate::bounds`] decides about.

use std::collections::HashMap;

use crate::bounds;
use crate::bounds::{Inventory, LastUse, Limits, ModulePolicy, Record};
use crate::format::device::DeviceHeader;
use crate::maintenance::contents::{PartContents, footprint};
use crate::maintenance::survey;
use crate::maintenance::survey::Survey;
use crate::maintenance::uses::Uses;
use crate::maintenance::work::{ModulesOf, Work};
use crate::reports::runs;
use vkstash_host::keyed::Keyed;
use vkstash_host::util::believed;
use vkstash_model::record::{Key, Kind};
use vkstash_model::same::Same;

/// For each part whose records the inventory lists, by the places of its application and of itself: the hashes of these
/// records, in the same order.
pub(crate) type Listed = HashMap<(usize, usize), Vec<u64>>;

/// Makes the inventory. The records of a device part whose driver or device is gone are not read, because such a part
/// is kept or evicted as a whole. None: `interrupted` said true before all parts were read.
pub(crate) fn of(survey: &Survey, limits: &Limits, now: u64, work: &Work<'_>) -> Option<(Inventory, Listed)> {
    let (mut inventory, mut listed) = (Inventory::default(), Listed::new());
    let devices = Devices::of(survey, work.interrupted);
    for (at, application) in survey.applications.iter().enumerate() {
        let open: Vec<bool> = application.parts.iter().map(survey::PartFolder::is_open).collect();
        let current = open.contains(&true);
        let mut found = bounds::ApplicationInventory {
            last_use: application.last_use(now),
            current,
            limit: application.settings.limit,
            modules: application.settings.modules,
            runs: Vec::new(),
            parts: Vec::new(),
        };
        let policy = found.modules.unwrap_or(limits.module_policy);
        if matches!(policy, ModulePolicy::UsedInLast(_)) {
            if let Some(folder) = application.open().and_then(|folder| folder.sub("runs", false).ok()) {
                found.runs = runs::read_in(&folder).iter().map(|(_, run)| run.started_unix_ms).collect();
            }
        }
        let portable = application.portable().and_then(|part| PartContents::of(part, work.interrupted));
        let uses = portable.as_ref().map(Uses::in_part).unwrap_or_default();
        let modules = portable.as_ref().map(|part| modules(part, &uses, work.modules_of)).unwrap_or_default();
        for (place, part) in application.parts.iter().enumerate() {
            let foreign = part.is_of_a_device() && devices.is_foreign(at, place, application, limits, now);
            let look = part.is_of_a_device() && !foreign;
            let of_device = if look { PartContents::of(part, work.interrupted) } else { None };
            if (work.interrupted)() {
                return None;
            }
            let contents = match part.is_of_a_device() {
                true => of_device.as_ref(),
                false => portable.as_ref(),
            };
            let listing = match contents {
                Some(contents) => {
                    let (records, hashes) = records(contents, &uses, &modules);
                    listed.insert((at, place), hashes);
                    bounds::Listing::Listed(records)
                }
                None if foreign => bounds::Listing::Foreign,
                None => bounds::Listing::Unlisted,
            };
            found.parts.push(bounds::PartInventory {
                bytes: part.bytes,
                frame: bounds::FRAME,
                last_use: part.last_use,
                // A program that is served from the part, and writes nothing to it, does not show in its files.
                current: open[place] || current && !foreign,
                listing,
            });
        }
        inventory.applications.push(found);
    }
    Some((inventory, listed))
}

/// The uses of records that other records name.
type Named = HashMap<Key, Use, Keyed>;

/// The newest use of a record, and whether a running process uses it.
#[derive(Clone, Copy, Default)]
struct Use {
    last: LastUse,
    current: bool,
}

impl Use {
    /// Adds the use of a record that names this one.
    fn add(&mut self, last: LastUse, current: bool) {
        if (last.run, last.unix_ms, last.order) > (self.last.run, self.last.unix_ms, self.last.order) {
            self.last = last;
        }
        self.current |= current;
    }
}

/// A module is used when a recipe that names it is used.
fn modules(portable: &PartContents, uses: &Uses, modules_of: ModulesOf) -> Named {
    let mut modules = Named::default();
    portable.for_each(Kind::Recipe, |live, key, recipe| {
        let used = uses.last(portable, live, key);
        let current = uses.is_current(key) || portable.member(live).open;
        modules_of(recipe, &mut |module| {
            modules.entry(*module).or_default().add(used, current);
        });
    });
    modules
}

/// An artifact is used when a reference that names it is used.
fn targets(contents: &PartContents, uses: &Uses) -> Named {
    let mut targets = Named::default();
    contents.for_each(Kind::Same, |live, key, payload| {
        let Some(same) = Same::decode(payload) else { return };
        let current = contents.member(live).open || uses.is_current(key);
        targets.entry(same.target).or_default().add(uses.last(contents, live, key), current);
    });
    targets
}

fn records(contents: &PartContents, uses: &Uses, modules: &Named) -> (Vec<Record>, Vec<u64>) {
    let targets = targets(contents, uses);
    let readable = contents.live.iter().filter(|live| live.row.is_readable());
    let record = |live: &crate::maintenance::contents::Live| {
        let entry = contents.entry(live)?;
        let kind = Kind::from_number(entry.kind)?;
        let own = Use {
            last: uses.last(contents, live, &entry.key),
            current: contents.member(live).open || uses.is_current(&entry.key),
        };
        let used = match kind {
            // No use record has the key of a module.
            Kind::Module => modules
                .get(&entry.key)
                .map_or(own, |named| Use { last: named.last, current: named.current || own.current }),
            Kind::Artifact => targets.get(&entry.key).map_or(own, |named| {
                let mut used = own;
                used.add(named.last, named.current);
                used
            }),
            _ => own,
        };
        let bytes = footprint(&live.row);
        Some((
            Record { kind, key: entry.key, bytes, last_use: used.last, current: used.current },
            live.row.hash,
        ))
    };
    readable.filter_map(record).unzip()
}

/// Device header and last use of each device part.
struct Devices(HashMap<(usize, usize), (DeviceHeader, u64)>);

impl Devices {
    fn of(survey: &Survey, interrupted: &dyn Fn() -> bool) -> Devices {
        let mut headers = HashMap::new();
        for (at, application) in survey.applications.iter().enumerate() {
            for (place, part) in application.parts.iter().enumerate() {
                if let Some(header) = part.header(interrupted) {
                    headers.insert((at, place), (header, part.last_use));
                }
            }
        }
        Devices(headers)
    }

    /// Whether the driver of a part seems to be gone: some application has used the same device with another driver
    /// version since, or this application has only used other devices for longer than the age limit.
    fn is_foreign(
        &self,
        at: usize,
        place: usize,
        application: &survey::ApplicationFolder,
        limits: &Limits,
        now: u64,
    ) -> bool {
        let Some((header, used)) = self.0.get(&(at, place)) else { return false };
        let superseded = self.0.values().any(|(other, other_used)| {
            believed(*other_used, now) > believed(*used, now)
                && device(other) == device(header)
                && (other.driver_version, other.pipeline_cache_uuid)
                    != (header.driver_version, header.pipeline_cache_uuid)
        });
        let parts = application.parts.iter().filter(|part| part.is_of_a_device());
        let newest = parts.map(|part| believed(part.last_use, now)).max().unwrap_or(0);
        superseded || newest.saturating_sub(*used) > limits.device_age
    }
}

/// The fields of a device header that an update of the driver does not change.
fn device(header: &DeviceHeader) -> [u32; 4] {
    [u32::from(header.pointer_width), header.vendor_id, header.device_id, header.driver_id]
}
