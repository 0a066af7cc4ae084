//! What is stored, as the decisions need to see it.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use crate::bounds;
use crate::bounds::{Inventory, LastUse, Limits, ModulePolicy, Record};
use crate::format::device::DeviceHeader;
use crate::format::record::{Key, Kind};
use crate::format::same::Same;
use crate::reports::runs;
use crate::upkeep::contents::{Contents, footprint};
use crate::upkeep::survey;
use crate::upkeep::survey::Survey;
use crate::upkeep::uses::Uses;
use crate::upkeep::work::{ModulesOf, Work};

/// The hashes of the records of listed parts, in the order of their inventory.
pub(crate) type Listed = HashMap<(usize, usize), Vec<u64>>;

/// Looks into as much as has to be known for a plan. None: interrupted. What was not looked into would go as a whole.
pub(crate) fn of(survey: &Survey, limits: &Limits, work: &Work<'_>) -> Option<(Inventory, Listed)> {
    let (mut inventory, mut listed) = (Inventory::default(), Listed::new());
    let devices = Devices::of(survey, work.interrupted);
    for (at, application) in survey.applications.iter().enumerate() {
        let open: Vec<bool> = application.parts.iter().map(survey::Part::is_open).collect();
        let current = open.contains(&true);
        let mut found = bounds::Application {
            last_use: application.parts.iter().map(|part| part.last_use).max().unwrap_or(0),
            current,
            limit: application.settings.limit,
            modules: application.settings.modules,
            runs: Vec::new(),
            parts: Vec::new(),
        };
        let policy = found.modules.unwrap_or(limits.module_policy);
        if matches!(policy, ModulePolicy::UsedInLast(_)) {
            if let Ok(folder) = application.folder.sub("runs", false) {
                found.runs = runs::read_in(&folder).iter().map(|(_, run)| run.started_unix_ms).collect();
            }
        }
        let portable = application.portable().and_then(|part| Contents::of(part, work.interrupted));
        let uses = portable.as_ref().map(Uses::in_part).unwrap_or_default();
        let modules = portable.as_ref().map(|part| modules(part, &uses, work.modules_of)).unwrap_or_default();
        for (place, part) in application.parts.iter().enumerate() {
            let foreign = part.is_of_a_device() && devices.is_foreign(at, place, application, limits);
            let look = part.is_of_a_device() && !foreign;
            let of_device = if look { Contents::of(part, work.interrupted) } else { None };
            if (work.interrupted)() {
                return None;
            }
            let contents = match part.is_of_a_device() {
                true => of_device.as_ref(),
                false => portable.as_ref(),
            };
            let contents = match contents {
                Some(contents) => {
                    let (records, hashes) = records(contents, &uses, &modules);
                    listed.insert((at, place), hashes);
                    bounds::Contents::Listed(records)
                }
                None if foreign => bounds::Contents::Foreign,
                None => bounds::Contents::Unlisted,
            };
            found.parts.push(bounds::Part {
                bytes: part.bytes,
                last_use: part.last_use,
                // Who is served and writes nothing holds no file of the part open.
                current: open[place] || current && !foreign,
                contents,
            });
        }
        inventory.applications.push(found);
    }
    Some((inventory, listed))
}

/// How records are used that others name.
type Named = HashMap<Key, Use, FxBuildHasher>;

/// The newest use of a record, and whether a run that is going on uses it.
#[derive(Clone, Copy, Default)]
struct Use {
    last: LastUse,
    current: bool,
}

impl Use {
    /// Adds a use of something that names the record.
    fn add(&mut self, last: LastUse, current: bool) {
        if (last.run, last.unix_ms, last.order) > (self.last.run, self.last.unix_ms, self.last.order) {
            self.last = last;
        }
        self.current |= current;
    }
}

/// A module is used when a recipe that names it is.
fn modules(portable: &Contents, uses: &Uses, modules_of: ModulesOf) -> Named {
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

/// An artifact whose data another one has is used as lately as that one.
fn targets(contents: &Contents, uses: &Uses) -> Named {
    let mut targets = Named::default();
    contents.for_each(Kind::Same, |live, key, payload| {
        let Some(same) = Same::decode(payload) else { return };
        let current = contents.member(live).open || uses.is_current(key);
        targets.entry(same.target).or_default().add(uses.last(contents, live, key), current);
    });
    targets
}

fn records(contents: &Contents, uses: &Uses, modules: &Named) -> (Vec<Record>, Vec<u64>) {
    let targets = targets(contents, uses);
    let readable = contents.live.iter().filter(|live| live.row.is_readable());
    let record = |live: &crate::upkeep::contents::Live| {
        let entry = contents.entry(live)?;
        let kind = Kind::from_number(entry.kind)?;
        let own = Use {
            last: uses.last(contents, live, &entry.key),
            current: contents.member(live).open || uses.is_current(&entry.key),
        };
        let used = match kind {
            // Nobody notes the use of a module.
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

/// What the device parts are bound to, and when each was used last.
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

    /// Whether the driver of a part is no longer here, as far as that shows: the same device was used with another
    /// version since, by whatever application; or the application has long been using other devices only.
    fn is_foreign(
        &self,
        at: usize,
        place: usize,
        application: &survey::Application,
        limits: &Limits,
    ) -> bool {
        let Some((header, used)) = self.0.get(&(at, place)) else { return false };
        let superseded = self.0.values().any(|(other, other_used)| {
            other_used > used
                && device(other) == device(header)
                && (other.driver_version, other.pipeline_cache_uuid)
                    != (header.driver_version, header.pipeline_cache_uuid)
        });
        let newest =
            application.parts.iter().filter(|part| part.is_of_a_device()).map(|part| part.last_use).max();
        superseded || newest.is_some_and(|newest| newest.saturating_sub(*used) > limits.device_age)
    }
}

/// What stays the same over an update of the driver.
fn device(header: &DeviceHeader) -> [u32; 4] {
    [u32::from(header.pointer_width), header.vendor_id, header.device_id, header.driver_id]
}
