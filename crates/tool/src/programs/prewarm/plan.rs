//! Plan of what is to be made: which recipes on which devices, for each application.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::Arc;

use vkstash_host::disk::errors::OpenError;
use vkstash_model::app_name::AppName;
use vkstash_model::failed::Failed;
use vkstash_model::failed::Refusals;
use vkstash_model::key;
use vkstash_model::recipe::Recipe;
use vkstash_model::recipe::modules_of;
use vkstash_model::record::{CRASH_LIMIT, Key, Kind};
use vkstash_store::bounds::LastUse;
use vkstash_store::format::device::{DEVICE_HEADER_BYTES, DeviceHeader};
use vkstash_store::part::open::Part;
use vkstash_store::stash::inspect::{ApplicationInfo, last_uses};
use vkstash_store::stash::open::Stash;

use super::child::{AskError, Launch, QuestionedWorker};
use super::limits::Limits;
use super::order::{self, Lengths, Task};
use super::workers::{OWN, programs_of};

/// A recipe that was never compiled on this machine is compiled for so many recorded devices, those that were used
/// last.
const GUESSES: usize = 3;

/// The recipes of one application for one device header: all that one worker can do without opening another device.
pub(crate) struct Group {
    /// The application, by its place among the planned ones.
    pub(crate) application: usize,
    /// The number of the physical device.
    pub(crate) device: usize,
    /// The device's name.
    pub(crate) device_name: String,
    /// The recorded device that is made again.
    pub(crate) configuration: Key,
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
    /// Keys that programs ended at while this very driver compiled them.
    pub(crate) died_before: u64,
    /// Keys to which this very driver has answered with an error.
    pub(crate) failed_before: u64,
    /// Keys of which this very driver has kept nothing.
    pub(crate) not_kept_before: u64,
    /// Another driver version has artifacts that this one lacks.
    pub(crate) changed: bool,
}

impl Group {
    /// A group with nothing to do yet.
    fn new(application: usize, physical: &Physical, configuration: Key, header: DeviceHeader) -> Group {
        Group {
            application,
            device: physical.index,
            device_name: physical.name.clone(),
            configuration,
            header,
            tasks: VecDeque::new(),
            checks: VecDeque::new(),
            there: 0,
            quarantined_before: 0,
            died_before: 0,
            failed_before: 0,
            not_kept_before: 0,
            changed: false,
        }
    }
}

/// One application.
pub(crate) struct Planned {
    /// The application's names.
    pub(crate) name: AppName,
    /// The application's stash, for reading, and for what is quarantined.
    pub(crate) stash: Arc<Stash>,
    /// Recipes in its stash.
    pub(crate) recipes: u64,
    /// Why nothing, or not everything, can be made of it.
    pub(crate) problems: Vec<String>,
    /// A worker that was asked for devices could not answer.
    pub(crate) failed: bool,
    /// There is no worker for some of its programs, which is no failure.
    lacks_worker: bool,
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

impl Physical {
    fn is_among(&self, devices: &BTreeSet<(u32, u32)>) -> bool {
        devices.contains(&(self.vendor, self.device))
    }
}

/// The devices (vendor and device) that any application was used on.
pub(crate) fn used_anywhere(found: &[ApplicationInfo]) -> BTreeSet<(u32, u32)> {
    used_in(found.iter().flat_map(|info| &info.parts).filter_map(|part| part.device.as_ref()))
}

/// The devices of these parts.
fn used_in<'a>(headers: impl Iterator<Item = &'a DeviceHeader>) -> BTreeSet<(u32, u32)> {
    headers.map(|header| (header.vendor_id, header.device_id)).collect()
}

/// The pointer widths of the programs that made these parts, the widest first; this tool's where nothing says any.
fn widths(parts: &[OldPart]) -> Vec<u8> {
    let widths: BTreeSet<u8> = parts.iter().map(|old| old.header.pointer_width).collect();
    if widths.is_empty() { Vec::from([OWN]) } else { widths.into_iter().rev().collect() }
}

/// A problem with programs of another pointer width than this tool's says so.
fn told_of(pointer_width: u8, problem: String) -> String {
    if pointer_width == OWN { problem } else { format!("{}: {problem}", programs_of(pointer_width)) }
}

/// Whether a part was made for this device by this driver, in whatever version.
fn same_device(part: &DeviceHeader, header: &DeviceHeader) -> bool {
    let same_driver = part.driver_id == header.driver_id || part.driver_id == 0 || header.driver_id == 0;
    let device = |of: &DeviceHeader| (of.pointer_width, of.vendor_id, of.device_id);
    device(part) == device(header) && same_driver
}

/// What is known of a recipe that has something to compile.
struct Content {
    /// The recipe names libraries.
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
struct Recipes<'a> {
    /// In the order of use.
    keys: &'a [Key],
    content: &'a HashMap<Key, Content>,
    uses: &'a HashMap<Key, LastUse>,
}

impl<'a> Recipes<'a> {
    fn is_link(&self, key: &Key) -> bool {
        self.content.get(key).is_some_and(|content| content.is_link)
    }

    fn modules(&self, key: &Key) -> &'a [Key] {
        self.content.get(key).map_or(&[], |content| content.modules.as_slice())
    }
}

/// A recorded device, made on a present one.
struct Candidate<'a> {
    header: DeviceHeader,
    configuration: Key,
    /// The recipes that were compiled for such a device.
    owned: HashSet<&'a Key>,
}

/// A device part of the stash, open.
struct OldPart {
    header: DeviceHeader,
    part: Arc<Part>,
}

impl OldPart {
    /// Whether the recipe was made: what only the driver had was made, too.
    fn has(&self, key: &Key) -> bool {
        [Kind::Artifact, Kind::Found].iter().any(|kind| self.part.contains(*kind, key))
    }

    /// The same, or it was compiled and left no artifact.
    fn was_made(&self, key: &Key) -> bool {
        self.has(key) || self.part.contains(Kind::Cost, key)
    }
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
        let mut planned = Planned {
            name,
            stash,
            recipes: recipes.len() as u64,
            problems: Vec::new(),
            failed: false,
            lacks_worker: false,
        };
        if !recipes.is_empty() {
            let uses = last_uses(root, &info.folder);
            // The newest run first, and in it what was used first: what a program asks for at its start it waits for.
            recipes.sort_by_key(|key| {
                let last = uses.get(key).copied().unwrap_or_default();
                (Reverse(last.run), last.order)
            });
            let parts = device_parts(&planned.stash, info, &mut planned.problems);
            for pointer_width in widths(&parts) {
                let recipes = Recipes { keys: &recipes, content: &content, uses: &uses };
                let stash = &*planned.stash;
                let parts = &parts;
                let application =
                    Application { number, pointer_width, info, stash, parts, recipes, launch, limits };
                if launch.workers.of(pointer_width).is_none() {
                    planned.problems.push(launch.workers.missing(pointer_width, application.pipelines()));
                    planned.lacks_worker = true;
                    continue;
                }
                let Groups { groups, problems, failed } =
                    application.groups(used).unwrap_or_else(Groups::from);
                self.groups.extend(groups);
                planned.problems.extend(problems.into_iter().map(|problem| told_of(pointer_width, problem)));
                planned.failed |= failed;
            }
        }
        self.applications.push(planned);
        Ok(())
    }

    /// Leaves nothing to do where no other driver version has artifacts that this one lacks.
    pub(crate) fn leave_out_unchanged(&mut self) {
        for group in self.groups.iter_mut().filter(|group| !group.changed) {
            group.tasks.clear();
            group.checks.clear();
        }
    }

    /// An application with recipes and without a device has failed, unless it lacks a worker.
    pub(crate) fn expect_a_device_for_each(&mut self) {
        for (number, planned) in self.applications.iter_mut().enumerate() {
            let has_device = self.groups.iter().any(|group| group.application == number);
            planned.failed |= planned.recipes > 0 && !has_device && !planned.lacks_worker;
        }
    }
}

/// The device parts of the stash that can be opened.
fn device_parts(stash: &Stash, info: &ApplicationInfo, problems: &mut Vec<String>) -> Vec<OldPart> {
    let mut parts = Vec::new();
    for header in info.parts.iter().filter_map(|part| part.device.clone()) {
        match stash.device(&header) {
            Ok(part) => parts.push(OldPart { header, part }),
            Err(error) => problems.push(error.to_string()),
        }
    }
    parts
}

/// One application, as it is planned for its programs of one pointer width.
struct Application<'a> {
    /// The application's place among the planned ones.
    number: usize,
    pointer_width: u8,
    info: &'a ApplicationInfo,
    stash: &'a Stash,
    /// The device parts of its stash, of programs of any pointer width.
    parts: &'a [OldPart],
    recipes: Recipes<'a>,
    launch: &'a Launch,
    limits: &'a Limits,
}

/// What is known of an application's devices before its groups are made.
struct Survey<'a> {
    /// The recorded devices.
    configurations: Vec<DeviceConfiguration>,
    /// The application was used on a device of this machine.
    known_here: bool,
    /// Recipes that were compiled on some device of this machine, so that the others need not have them.
    owned_by_one: HashSet<&'a Key>,
}

/// The groups of one application, and what went wrong.
#[derive(Default)]
struct Groups {
    groups: Vec<Group>,
    problems: Vec<String>,
    /// A worker died of it.
    failed: bool,
}

impl From<AskError> for Groups {
    fn from(error: AskError) -> Groups {
        Groups { groups: Vec::new(), problems: Vec::from([error.to_string()]), failed: true }
    }
}

impl<'a> Application<'a> {
    /// What is to be made for it. `used`: see [`Plan::add`].
    fn groups(&self, used: Option<&BTreeSet<(u32, u32)>>) -> Result<Groups, AskError> {
        let mut found = Groups::default();
        let mut worker = self.worker()?;
        let present = physical_devices(&mut worker)?;
        let configurations = recorded_configurations(&mut worker)?;
        let own = used_in(self.own_parts().map(|old| &old.header));
        // An application that was imported was used on no device of this machine yet; the other applications were.
        let known_here = used.is_some() && present.iter().any(|physical| physical.is_among(&own));
        let wanted = if known_here { Some(&own) } else { used };
        let is_wanted = |physical: &&Physical| wanted.is_none_or(|wanted| physical.is_among(wanted));
        let mut devices: Vec<&Physical> = present.iter().filter(is_wanted).collect();
        if devices.is_empty() {
            match only(&present) {
                Some(only) => devices.push(only),
                None => found.problems.push(no_device(&present)),
            }
        }
        if configurations.is_empty() {
            found.problems.push(
                "no device is recorded that a program has created, and none can be made like it".to_owned(),
            );
        }
        let owned_by_one = self.made_on_one_of(&present);
        let survey = Survey { configurations, known_here, owned_by_one };
        let mut lengths = Lengths::new(self.stash.portable());
        for physical in devices {
            let candidates = self.candidates(&mut worker, physical, &survey, &mut found);
            for (at, candidate) in candidates.iter().enumerate() {
                let group = self.group(physical, candidate, at < GUESSES, &survey, &mut lengths);
                found.groups.push(group);
            }
        }
        Ok(found)
    }

    /// A worker for its programs.
    fn worker(&self) -> Result<QuestionedWorker, AskError> {
        QuestionedWorker::start(self.launch, self.pointer_width, &self.info.folder, self.limits.timeout)
    }

    /// The parts that its programs of this pointer width have made.
    fn own_parts(&self) -> impl Iterator<Item = &'a OldPart> {
        self.parts.iter().filter(|old| old.header.pointer_width == self.pointer_width)
    }

    /// How many of the recipes these have asked for.
    fn pipelines(&self) -> u64 {
        let was_made = |key: &&Key| self.own_parts().any(|old| old.was_made(key));
        self.recipes.keys.iter().filter(was_made).count() as u64
    }

    /// The recipes that were compiled on one of these devices.
    fn made_on_one_of(&self, present: &[Physical]) -> HashSet<&'a Key> {
        let is_present = |old: &&OldPart| {
            let device = (old.header.vendor_id, old.header.device_id);
            present.iter().any(|physical| (physical.vendor, physical.device) == device)
        };
        let parts: Vec<&OldPart> = self.parts.iter().filter(is_present).collect();
        self.recipes.keys.iter().filter(|key| parts.iter().any(|old| old.was_made(key))).collect()
    }

    /// The recorded devices that a device was used with, by the last use of their pipelines, then the others. Without
    /// those that have a group already.
    fn candidates(
        &self,
        worker: &mut QuestionedWorker,
        physical: &Physical,
        survey: &Survey<'_>,
        found: &mut Groups,
    ) -> Vec<Candidate<'a>> {
        let mut candidates: Vec<Candidate<'a>> = Vec::new();
        for DeviceConfiguration { key, features } in &survey.configurations {
            let header = match self.opened(worker, physical, key) {
                Ok(header) => header,
                Err(error) => {
                    found.failed |= !matches!(error, AskError::Cannot(_));
                    found.problems.push(format!("{}: {error}", physical.name));
                    continue;
                }
            };
            let is_of_header = |old: &&OldPart| same_device(&old.header, &header);
            // One of two drivers of this device, and not the one that was used.
            let other_driver = survey.known_here && !self.parts.iter().any(|old| is_of_header(&old));
            if other_driver || found.groups.iter().any(|group| group.header == header) {
                continue;
            }
            let has_features =
                |old: &&OldPart| [*features, header.features_digest].contains(&old.header.features_digest);
            let old: Vec<_> = self.parts.iter().filter(is_of_header).filter(has_features).collect();
            let owned = self.recipes.keys.iter().filter(|key| old.iter().any(|old| old.has(key)));
            // Two recorded devices may differ in what the driver does not have any more.
            match candidates.iter_mut().find(|known| known.header == header) {
                Some(known) => known.owned.extend(owned),
                None => candidates.push(Candidate { header, configuration: *key, owned: owned.collect() }),
            }
        }
        // Stable sorting leaves those of which nothing is known in the order of their records, the newest first.
        candidates.sort_by_cached_key(|candidate| {
            let uses = candidate.owned.iter().filter_map(|key| self.recipes.uses.get(*key));
            Reverse(uses.map(|last| (last.run, last.unix_ms)).max())
        });
        candidates
    }

    /// The header of a device that is made like a recorded one. If the worker dies of that, the next question gets
    /// another.
    fn opened(
        &self,
        worker: &mut QuestionedWorker,
        physical: &Physical,
        configuration: &Key,
    ) -> Result<DeviceHeader, AskError> {
        let answer = worker.ask(&format!("open {} {}", physical.index, hex::encode(configuration)), "opened");
        if matches!(answer, Err(AskError::Died(_) | AskError::Hung(_))) {
            *worker = self.worker()?;
        }
        let lines = answer?;
        let header =
            lines.last().and_then(|line| line.split_once(' ')).and_then(|(_, digits)| header_of(digits));
        header.ok_or_else(|| AskError::Cannot("the worker's answer is not understood".to_owned()))
    }

    /// What is to be made on one device. `guesses`: also the recipes that were compiled on none.
    fn group(
        &self,
        physical: &Physical,
        candidate: &Candidate<'_>,
        guesses: bool,
        survey: &Survey<'_>,
        lengths: &mut Lengths,
    ) -> Group {
        let Candidate { header, configuration, owned } = candidate;
        let parts = self.parts;
        let current = parts.iter().find(|old| old.header == *header).map(|old| &*old.part);
        // The present driver's part first, then other versions of it, then whatever there is.
        let of_device = parts.iter().filter(|old| same_device(&old.header, header));
        let others = parts.iter().filter(|old| !same_device(&old.header, header));
        let sources: Vec<&Part> = of_device.chain(others).map(|old| &*old.part).collect();
        let mut group = Group::new(self.number, physical, *configuration, header.clone());
        let (mut tasks, mut costs) = (Vec::new(), Vec::new());
        for (place, key) in self.recipes.keys.iter().enumerate() {
            let is_owned = owned.contains(key);
            // Nothing says with which features the others were compiled: any that were used lately may be right.
            if !is_owned && (!guesses || survey.owned_by_one.contains(key)) {
                continue;
            }
            let task = Task { is_link: self.recipes.is_link(key), ..Task::new(*key, place, 0) };
            match Standing::of(key, current) {
                // Artifacts of the stash fill no cache of the driver's.
                Standing::There if self.launch.private.is_none() => {
                    group.there += 1;
                    group.checks.push_back(Task { present: true, ..task });
                }
                Standing::Quarantined => group.quarantined_before += 1,
                Standing::Died => group.died_before += 1,
                Standing::Failed => group.failed_before += 1,
                Standing::NotKept => group.not_kept_before += 1,
                Standing::Missing | Standing::There => {
                    group.changed |= is_owned;
                    costs.push(order::recorded_cost(sources.iter().copied(), key));
                    tasks.push(task);
                }
            }
        }
        lengths.fill_in(&mut costs, |at| self.recipes.modules(&tasks[at].key));
        for (task, cost) in tasks.iter_mut().zip(&costs) {
            task.cost = cost.unwrap_or_default();
        }
        group.tasks = order::schedule(tasks, self.limits.jobs);
        group
    }
}

/// What the present driver has of a recipe.
enum Standing {
    /// An artifact.
    There,
    /// A process died of it.
    Quarantined,
    /// Programs ended while it was compiled for them.
    Died,
    /// An error, or an artifact that it does not take.
    Failed,
    /// Nothing: its caches keep nothing of the pipeline.
    NotKept,
    /// Nothing yet.
    Missing,
}

impl Standing {
    /// By the part of that driver, if there is one.
    fn of(key: &Key, part: Option<&Part>) -> Standing {
        let Some(part) = part else { return Standing::Missing };
        // An artifact beside it is one that the driver did not take, so it would be compiled again.
        if part.compile_deaths(key) >= CRASH_LIMIT {
            return Standing::Died;
        }
        let mut payload = Vec::new();
        if part.read(Kind::Artifact, key, &mut payload) {
            return if part.crash_count(key) >= CRASH_LIMIT {
                Standing::Quarantined
            } else if Refusals::of(&payload).are_too_many() {
                Standing::Failed
            } else {
                Standing::There
            };
        }
        // Of what was compiled and left no artifact the driver keeps nothing.
        if part.contains(Kind::Cost, key) {
            return Standing::NotKept;
        }
        let has_failed = part.read(Kind::Failed, key, &mut payload);
        match Failed::of(&payload) {
            Failed::Error if has_failed => Standing::Failed,
            Failed::Quarantined(_) if has_failed => Standing::Quarantined,
            _ => Standing::Missing,
        }
    }
}

/// A recorded device.
struct DeviceConfiguration {
    key: Key,
    /// The digest of its features.
    features: [u8; 32],
}

/// The newest recorded device of each digest of features, the newest first.
fn recorded_configurations(worker: &mut QuestionedWorker) -> Result<Vec<DeviceConfiguration>, AskError> {
    let mut configurations: Vec<DeviceConfiguration> = Vec::new();
    for line in worker.ask("configurations", "end")?.iter().rev() {
        let mut words = line.split(' ').skip(1).filter_map(from_hex);
        if let (Some(key), Some(features)) = (words.next(), words.next()) {
            if configurations.iter().all(|known| known.features != features) {
                configurations.push(DeviceConfiguration { key, features });
            }
        }
    }
    Ok(configurations)
}

/// As a worker writes it.
const VK_PHYSICAL_DEVICE_TYPE_CPU: &str = "4";

/// The physical devices, each identity once: the first of several equal ones.
fn physical_devices(worker: &mut QuestionedWorker) -> Result<Vec<Physical>, AskError> {
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

/// The device of a machine where nothing was used yet, because it is new or the stash was imported: its only GPU, or
/// what it has if that is one.
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
