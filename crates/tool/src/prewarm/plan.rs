//! What is to be made: which recipes on which devices, for each application.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use vkstash_model::recipe::Recipe;
use vkstash_model::recipe::modules_of;
use vkstash_model::{key, payload};
use vkstash_store::bounds::LastUse;
use vkstash_store::format::app_name::AppName;
use vkstash_store::format::device::{DEVICE_HEADER_BYTES, DeviceHeader};
use vkstash_store::format::record::{CRASH_LIMIT, Key, Kind};
use vkstash_store::format::refusal::OpenError;
use vkstash_store::part::open::Part;
use vkstash_store::stash::inspect::{ApplicationInfo, last_uses};
use vkstash_store::stash::open::Stash;

use super::child::{AskError, Asked, Launch};
use super::limits::Limits;
use super::order::{self, Lengths, Task};

/// A recipe that was never compiled on this machine is compiled for so many recorded devices, those that were used
/// last.
const GUESSES: usize = 3;

/// The recipes of one application for one device header: all that one worker can do without opening another device.
pub(crate) struct Group {
    /// The application, by its place among the planned ones.
    pub(crate) application: usize,
    /// The number of the physical device.
    pub(crate) device: usize,
    /// Its name.
    pub(crate) device_name: String,
    /// The recorded device that is made again.
    pub(crate) setup: Key,
    /// What the artifacts will be bound to.
    pub(crate) header: DeviceHeader,
    /// What is to be made: the most recently used first, but long ones early enough (`order`).
    pub(crate) tasks: VecDeque<Task>,
    /// What is to be checked: at first what is there already, then what is made.
    pub(crate) checks: VecDeque<Task>,
    /// How many artifacts are there already.
    pub(crate) there: u64,
    /// Keys that were quarantined before, on this very driver.
    pub(crate) quarantined_before: u64,
    /// Keys to which this very driver has answered with an error.
    pub(crate) failed_before: u64,
    /// Keys of which this very driver has kept nothing.
    pub(crate) not_kept_before: u64,
    /// Another driver version has artifacts that this one lacks.
    pub(crate) changed: bool,
}

/// One application.
pub(crate) struct Planned {
    /// Its names.
    pub(crate) name: AppName,
    /// Its stash, for reading, and for what is quarantined.
    pub(crate) stash: Arc<Stash>,
    /// Recipes in its stash.
    pub(crate) recipes: u64,
    /// Why nothing, or not everything, can be made of it.
    pub(crate) problems: Vec<String>,
    /// The worker that was asked for devices could not answer.
    pub(crate) failed: bool,
}

impl Planned {
    fn fail(&mut self, error: &AskError) {
        self.problems.push(error.to_string());
        self.failed = true;
    }
}

/// Everything that is to be done.
#[derive(Default)]
pub(crate) struct Plan {
    /// The applications.
    pub(crate) applications: Vec<Planned>,
    /// What is to be made for them.
    pub(crate) groups: Vec<Group>,
}

/// A physical device that a worker sees.
struct Physical {
    index: usize,
    vendor: u32,
    device: u32,
    /// VK_PHYSICAL_DEVICE_TYPE_CPU: Mesa's lavapipe is on most machines beside the GPU.
    is_processor: bool,
    name: String,
}

/// The devices (vendor and device) that any application was used on, in processes of this pointer width.
pub(crate) fn used_anywhere(found: &[ApplicationInfo]) -> BTreeSet<(u32, u32)> {
    let headers = found.iter().flat_map(|info| &info.parts).filter_map(|part| part.device.as_ref());
    headers.filter(|header| is_ours(header)).map(|header| (header.vendor_id, header.device_id)).collect()
}

/// A worker has this tool's pointer width, and its headers too.
fn is_ours(header: &DeviceHeader) -> bool {
    usize::from(header.pointer_width) == size_of::<usize>()
}

/// Whether a part was made for this device by this driver, in whatever version.
fn same_device(part: &DeviceHeader, header: &DeviceHeader) -> bool {
    let same_driver = part.driver_id == header.driver_id || part.driver_id == 0 || header.driver_id == 0;
    is_ours(part) && (part.vendor_id, part.device_id) == (header.vendor_id, header.device_id) && same_driver
}

/// What is known of a recipe that has something to compile.
struct Content {
    /// It names libraries.
    is_link: bool,
    /// The shader modules.
    modules: Vec<Key>,
}

impl Content {
    /// None: a driver compiles nothing for this recipe, because libraries without shaders are state alone.
    fn of(recipe: &[u8]) -> Option<Content> {
        // What cannot be decoded is named as such by a worker.
        let Ok(decoded) = key::decode::<Recipe<'_>>(recipe) else {
            return Some(Content { is_link: false, modules: Vec::new() });
        };
        let is_link = !decoded.pipeline.libraries().is_empty();
        let mut modules = Vec::new();
        modules_of(recipe, &mut |module| modules.push(*module));
        (is_link || !decoded.pipeline.stages().is_empty()).then_some(Content { is_link, modules })
    }
}

/// The recipes of one application that have something to compile.
#[derive(Clone, Copy)]
struct Recipes<'a> {
    /// In the order of use.
    keys: &'a [Key],
    content: &'a HashMap<Key, Content>,
    uses: &'a HashMap<Key, LastUse>,
}

/// A recorded device, made on a present one.
struct Candidate<'a> {
    header: DeviceHeader,
    setup: Key,
    /// The recipes that were compiled for such a device.
    owned: HashSet<&'a Key>,
}

/// A device part of the stash, open.
struct OldPart {
    header: DeviceHeader,
    part: Arc<Part>,
}

impl Plan {
    /// Adds what is to be made for one application. `used`: the devices for an application that was used on none of
    /// this machine's; None: every device for every application.
    pub(crate) fn add(
        &mut self,
        launch: &Launch,
        root: &Path,
        info: &ApplicationInfo,
        used: Option<&BTreeSet<(u32, u32)>>,
        limits: &Limits,
    ) -> Result<(), OpenError> {
        let timeout = limits.timeout;
        let name = AppName { display: info.display.clone(), folder: info.folder.clone() };
        let stash = Stash::open_patiently(root, &name)?;
        let number = self.applications.len();
        let mut recipes = Vec::new();
        let mut content = HashMap::new();
        stash.portable().for_each(Kind::Recipe, &mut |key, recipe| {
            if let Some(of_recipe) = Content::of(recipe) {
                recipes.push(*key);
                content.insert(*key, of_recipe);
            }
        });
        let mut planned =
            Planned { name, stash, recipes: recipes.len() as u64, problems: Vec::new(), failed: false };
        if !recipes.is_empty() {
            let uses = last_uses(root, &info.folder);
            // The newest run first, and in it what was used first: what a program asks for at its start it waits for.
            recipes.sort_by_key(|key| {
                let last = uses.get(key).copied().unwrap_or_default();
                (Reverse(last.run), last.order)
            });
            match Asked::start(launch, &info.folder, timeout) {
                Ok(mut worker) => {
                    let recipes = Recipes { keys: &recipes, content: &content, uses: &uses };
                    let groups = groups(&mut worker, launch, &planned, number, info, &recipes, used, limits);
                    match groups {
                        Ok((groups, problems, failed)) => {
                            self.groups.extend(groups);
                            planned.problems.extend(problems);
                            planned.failed = failed;
                        }
                        Err(error) => planned.fail(&error),
                    }
                }
                Err(error) => planned.fail(&error),
            }
        }
        self.applications.push(planned);
        Ok(())
    }
}

/// The groups of one application, what went wrong, and whether a worker died of it.
#[allow(clippy::too_many_arguments, reason = "everything that is known of one application")]
fn groups(
    worker: &mut Asked,
    launch: &Launch,
    planned: &Planned,
    application: usize,
    info: &ApplicationInfo,
    all: &Recipes<'_>,
    used: Option<&BTreeSet<(u32, u32)>>,
    limits: &Limits,
) -> Result<(Vec<Group>, Vec<String>, bool), AskError> {
    let Recipes { keys: recipes, content, uses } = *all;
    let mut lengths = Lengths::new(planned.stash.portable());
    let (mut problems, mut failed) = (Vec::new(), false);
    let present = physical_devices(worker)?;
    // The newest recorded device of each digest of features.
    let mut setups: Vec<(Key, [u8; 32])> = Vec::new();
    for line in worker.ask("setups", "end")?.iter().rev() {
        let mut words = line.split(' ').skip(1).filter_map(from_hex);
        if let (Some(digest), Some(features)) = (words.next(), words.next()) {
            if setups.iter().all(|(_, known)| *known != features) {
                setups.push((digest, features));
            }
        }
    }
    let mut parts = Vec::new();
    for header in info.parts.iter().filter_map(|part| part.device.clone()) {
        match planned.stash.device(&header) {
            Ok(part) => parts.push(OldPart { header, part }),
            Err(error) => problems.push(error.to_string()),
        }
    }
    let own: BTreeSet<(u32, u32)> = parts
        .iter()
        .filter(|old| is_ours(&old.header))
        .map(|old| (old.header.vendor_id, old.header.device_id))
        .collect();
    let is_among =
        |of: &BTreeSet<(u32, u32)>, physical: &Physical| of.contains(&(physical.vendor, physical.device));
    // An application that was imported was used on no device of this machine yet; the other applications were.
    let known_here = used.is_some() && present.iter().any(|physical| is_among(&own, physical));
    let wanted = if known_here { Some(&own) } else { used };
    let is_wanted = |physical: &&Physical| wanted.is_none_or(|wanted| is_among(wanted, physical));
    let mut devices: Vec<&Physical> = present.iter().filter(is_wanted).collect();
    if devices.is_empty() {
        match only(&present) {
            Some(only) => devices.push(only),
            None => problems.push(no_device(&present)),
        }
    }
    if setups.is_empty() {
        problems.push(
            "no device is recorded that a program has created, and none can be made like it".to_owned(),
        );
    }
    if parts.iter().any(|old| !is_ours(&old.header)) {
        let other = if cfg!(target_pointer_width = "64") { 32 } else { 64 };
        problems.push(format!("what {other}-bit programs used is made by a {other}-bit vkstash only"));
    }
    // What only the driver had was made, too.
    let has =
        |part: &Part, key: &Key| [Kind::Artifact, Kind::Found].iter().any(|kind| part.contains(*kind, key));
    // Keys that were compiled on some device of this machine, so that the others need not have them.
    let is_present = |old: &&OldPart| {
        present.iter().any(|p| (p.vendor, p.device) == (old.header.vendor_id, old.header.device_id))
    };
    let present_parts: Vec<&OldPart> = parts.iter().filter(is_present).collect();
    let was_made = |old: &&OldPart, key: &Key| has(&old.part, key) || old.part.contains(Kind::Cost, key);
    let owned_by_one: HashSet<&Key> =
        recipes.iter().filter(|key| present_parts.iter().any(|old| was_made(old, key))).collect();

    let mut groups: Vec<Group> = Vec::new();
    for physical in devices {
        // The recorded devices that this device was used with, by the last use of their pipelines, then the others.
        let mut candidates: Vec<Candidate<'_>> = Vec::new();
        // Stable sorting leaves those of which nothing is known in the order of their records, the newest first.
        for (setup, features) in &setups {
            let header = match opened(worker, launch, info, physical, setup, limits.timeout) {
                Ok(header) => header,
                Err(error) => {
                    failed |= !matches!(error, AskError::Cannot(_));
                    problems.push(format!("{}: {error}", physical.name));
                    continue;
                }
            };
            // One of two drivers of this device, and not the one that was used.
            let other_driver = known_here && !parts.iter().any(|old| same_device(&old.header, &header));
            if other_driver || groups.iter().any(|group| group.header == header) {
                continue;
            }
            let of_features = |old: &&OldPart| {
                same_device(&old.header, &header)
                    && (old.header.features_digest == *features
                        || old.header.features_digest == header.features_digest)
            };
            let old: Vec<&OldPart> = parts.iter().filter(of_features).collect();
            let owned = recipes.iter().filter(|key| old.iter().any(|old| has(&old.part, key)));
            // Two recorded devices may differ in what the driver does not have any more.
            match candidates.iter_mut().find(|known| known.header == header) {
                Some(known) => known.owned.extend(owned),
                None => candidates.push(Candidate { header, setup: *setup, owned: owned.collect() }),
            }
        }
        candidates.sort_by_cached_key(|candidate| {
            let uses = candidate.owned.iter().filter_map(|key| uses.get(*key));
            Reverse(uses.map(|last| (last.run, last.unix_ms)).max())
        });
        for (at, Candidate { header, setup, owned }) in candidates.iter().enumerate() {
            let current = parts.iter().find(|old| old.header == *header).map(|old| &old.part);
            let mut group = Group {
                application,
                device: physical.index,
                device_name: physical.name.clone(),
                setup: *setup,
                header: header.clone(),
                tasks: VecDeque::new(),
                checks: VecDeque::new(),
                there: 0,
                quarantined_before: 0,
                failed_before: 0,
                not_kept_before: 0,
                changed: false,
            };
            let mut costs = Vec::new();
            // The present driver's part first, then other versions of it, then whatever there is.
            let of_device = parts.iter().filter(|old| same_device(&old.header, header));
            let others = parts.iter().filter(|old| !same_device(&old.header, header));
            let sources: Vec<&Part> = of_device.chain(others).map(|old| &*old.part).collect();
            for key in recipes {
                let is_owned = owned.contains(key);
                // Nothing says with which features the others were compiled: any that were used lately may be right.
                if !is_owned && (owned_by_one.contains(key) || at >= GUESSES) {
                    continue;
                }
                let is_link = content.get(key).is_some_and(|content| content.is_link);
                let mut payload = Vec::new();
                if let Some(part) = current.filter(|part| part.read(Kind::Artifact, key, &mut payload)) {
                    if part.crash_count(key) >= CRASH_LIMIT {
                        group.quarantined_before += 1;
                    } else if payload::refusals(&payload) >= payload::REFUSALS_LIMIT {
                        group.failed_before += 1;
                    } else {
                        group.there += 1;
                        group.checks.push_back(Task { present: true, is_link, ..Task::new(*key, 0) });
                    }
                    continue;
                }
                let failed = current.is_some_and(|part| part.read(Kind::Failed, key, &mut payload));
                // Of what was compiled and left no artifact the driver keeps nothing.
                if current.is_some_and(|part| part.contains(Kind::Cost, key)) {
                    group.not_kept_before += 1;
                    continue;
                }
                match payload.first().filter(|_| failed) {
                    Some(1) => group.failed_before += 1,
                    Some(2..=4) => group.quarantined_before += 1,
                    _ => {
                        group.changed |= is_owned;
                        costs.push(order::recorded_cost(sources.iter().copied(), key));
                        group.tasks.push_back(Task { is_link, ..Task::new(*key, 0) });
                    }
                }
            }
            let mut tasks: Vec<Task> = std::mem::take(&mut group.tasks).into();
            lengths.fill_in(&mut costs, |at| {
                content.get(&tasks[at].key).map_or(&[], |content| content.modules.as_slice())
            });
            for (task, cost) in tasks.iter_mut().zip(&costs) {
                task.cost = cost.unwrap_or_default();
            }
            group.tasks = order::long_ones_in_time(tasks, limits.jobs);
            groups.push(group);
        }
    }
    Ok((groups, problems, failed))
}

/// As a worker writes it.
const VK_PHYSICAL_DEVICE_TYPE_CPU: &str = "4";

/// The physical devices, each identity once: the first of several equal ones.
fn physical_devices(worker: &mut Asked) -> Result<Vec<Physical>, AskError> {
    let mut seen = BTreeMap::new();
    for line in worker.ask("devices", "end")? {
        let words: Vec<&str> = line.splitn(6, ' ').collect();
        let [_, index, vendor, device, kind, name] = words[..] else { continue };
        if let (Ok(index), Ok(vendor), Ok(device)) = (index.parse(), vendor.parse(), device.parse()) {
            // Two drivers of one device have different names, and two equal devices have the same.
            seen.entry((vendor, device, name.to_owned())).or_insert(Physical {
                index,
                vendor,
                device,
                is_processor: kind == VK_PHYSICAL_DEVICE_TYPE_CPU,
                name: name.to_owned(),
            });
        }
    }
    let mut found: Vec<Physical> = seen.into_values().collect();
    found.sort_by_key(|physical| physical.index);
    Ok(found)
}

/// The device of a machine where nothing was used yet, because it is new or the stash was imported: its only GPU, or what
/// it has if that is one.
fn only(present: &[Physical]) -> Option<&Physical> {
    let gpus: Vec<_> = present.iter().filter(|physical| !physical.is_processor).collect();
    match (gpus.as_slice(), present) {
        (&[only], _) | ([], [only]) => Some(only),
        _ => None,
    }
}

/// Why [`only`] has found none.
fn no_device(present: &[Physical]) -> String {
    if present.is_empty() {
        return "there is no Vulkan device".to_owned();
    }
    let names: Vec<_> = present.iter().map(|physical| physical.name.as_str()).collect();
    format!("it was used on no device that is here ({}): --every-device takes them all", names.join(", "))
}

/// The header of a device that is made like a recorded one. If the worker dies of that, the next question gets another.
fn opened(
    worker: &mut Asked,
    launch: &Launch,
    info: &ApplicationInfo,
    physical: &Physical,
    setup: &Key,
    timeout: Duration,
) -> Result<DeviceHeader, AskError> {
    let answer = worker.ask(&format!("open {} {}", physical.index, hex::encode(setup)), "opened");
    if matches!(answer, Err(AskError::Died(_) | AskError::Hung(_))) {
        *worker = Asked::start(launch, &info.folder, timeout)?;
    }
    let lines = answer?;
    let header = lines.last().and_then(|line| line.split_once(' ')).and_then(|(_, digits)| header_of(digits));
    header.ok_or_else(|| AskError::Cannot("the worker's answer is not understood".to_owned()))
}

/// A device header in hexadecimal digits.
pub(crate) fn header_of(digits: &str) -> Option<DeviceHeader> {
    let mut bytes = [0; DEVICE_HEADER_BYTES];
    hex::decode_to_slice(digits, &mut bytes).ok()?;
    DeviceHeader::decode(&bytes)
}

/// A key in hexadecimal digits.
pub(crate) fn from_hex(digits: &str) -> Option<Key> {
    let mut key = [0; 32];
    hex::decode_to_slice(digits, &mut key).ok()?;
    Some(key)
}
