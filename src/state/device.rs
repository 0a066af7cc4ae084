//! A live device: what was decided when it was created, its objects, and its part of the stash.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use ash::vk;
use rustc_hash::FxBuildHasher;

use super::background_work::Listeners;
use super::caches::CachesOfDevice;
use super::deferred::Operations;
use super::described::{
    ConversionObject, EncodedObject, LibraryObject, Module, SamplerObject, SetLayoutObject,
};
use super::device_stats::DeviceStats;
use super::dispatch::DeviceTable;
use super::driver_hits::DriverHits;
use super::estimates::Estimates;
use super::frames::{Frames, Presented};
use super::instance::{Instance, PhysicalDevice};
use super::lending::Lending;
use super::objects::Objects;
use super::parked::Parked;
use super::pipeline_class::PipelineClass;
use super::policy::{self, CacheHabit, Policy};
use super::private_cache::CacheCommands;
use super::process::{self, Session};
use super::shader_code::ShaderCode;
use super::stored::Stored;
use super::switches::{self, CacheKinds};
use super::waits::Waits;
use super::width::Width;
use crate::live;
use crate::log;
use crate::stats::Counters;
use vkstash_host::forks as fork;
use vkstash_host::guard::tls_destroyed;
use vkstash_host::once::OnceLock;
use vkstash_model::counters::Count;
use vkstash_model::failed::Failed;
use vkstash_model::identifier::NativeIdentifier;
use vkstash_model::payload::ShaderBinaries;
use vkstash_model::recipe::SCHEMA;
use vkstash_model::record::{ESTIMATES, Key, Kind};
use vkstash_recipe::device_configuration::DeviceConfiguration;
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::reports::model::DeviceReport;
use vkstash_store::stash::siblings::Kin;
use vkstash_store::stash::uses::DeviceUses;

/// The component that answers for shader module identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentifierMode {
    /// The program did not enable VK_EXT_shader_module_identifier.
    Off,
    /// The driver answers.
    Native,
    /// This layer answers: identifiers are module identities of the stash.
    Emulated,
}

/// VkPhysicalDevicePipelineCacheIncrementalModeFeaturesSEC, newer than the bindings.
const INCREMENTAL_CACHES: i32 = 1_000_637_000;

/// A live device.
pub struct Device {
    /// The handle.
    pub handle: vk::Device,
    /// The next layer's look-up.
    pub next: vk::PFN_vkGetDeviceProcAddr,
    /// The next layer's commands.
    pub table: DeviceTable,
    /// Its physical device.
    pub physical: Arc<PhysicalDevice>,
    /// What is known about the driver.
    pub policy: Policy,
    /// VK_KHR_pipeline_library is enabled.
    pub has_libraries: bool,
    /// What the program has made of which pipelines are made.
    pub objects: ObjectsOfDevice,
    /// The layouts of these that workers use.
    pub lending: Lending,
    /// The program's pipeline caches, and what is known of them and kept beside them.
    pub caches: CachesOfDevice,
    /// Keys that the driver is known to answer with an error; they are counted at the first look-up.
    failures: OnceLock<AtomicI64>,
    /// How many threads at a time enter the driver with served calls.
    pub width: Width,
    /// What asking the sources of pipelines has brought lately, from the first request on.
    estimates: OnceLock<Estimates>,
    /// Its background work.
    pub background: Arc<Listeners>,
    /// Pipelines that background work has finished.
    pub parked: Parked,
    /// What the driver had, and background work is to record.
    pub driver_hits: DriverHits,
    /// Driver identifiers to module identities, as far as met in this process.
    pairs: OnceLock<papaya::HashMap<NativeIdentifier, Key, FxBuildHasher>>,
    stats: Arc<DeviceStats>,
    instance: Arc<Instance>,
    decided: Decided,
    // Declared before the session: the parts go first, then the session may close the stash.
    stored: OnceLock<Option<Stored>>,
    session: OnceLock<Arc<Session>>,
    /// What live shader objects were made of.
    pub shader_code: ShaderCode,
    /// Deferred operations under way.
    pub deferred: Operations,
    /// Workers stay away from this device: a driver call of one of them did not end within its time.
    is_closed_to_workers: AtomicBool,
    /// The device of the process that this one was forked from. Never dropped.
    pub(super) parents: Option<Arc<Device>>,
    /// The process, as [`fork::now`] numbers it, in which the device was created.
    process: u32,
}

/// The program's live objects that pipelines are created from.
#[derive(Default)]
pub struct ObjectsOfDevice {
    /// Shader modules.
    pub modules: Objects<Module>,
    /// Colour conversions.
    pub conversions: Objects<ConversionObject>,
    /// Samplers.
    pub samplers: Objects<SamplerObject>,
    /// Descriptor set layouts.
    pub set_layouts: Objects<SetLayoutObject>,
    /// Pipeline layouts.
    pub layouts: Objects<EncodedObject>,
    /// Render passes.
    pub render_passes: Objects<EncodedObject>,
    /// Pipelines that are libraries.
    pub libraries: Objects<LibraryObject>,
}

/// What vkCreateDevice decided about a new device.
#[derive(Clone)]
pub struct Decided {
    /// FAIL_ON_COMPILE_REQUIRED may be used.
    pub cache_control: bool,
    /// Whether the driver or the layer answers for shader module identifiers.
    pub identifiers: IdentifierMode,
    /// The program may create shader objects, and everything that it has enabled is part of the device header: the
    /// binaries that the driver takes.
    pub shader_binaries: Option<ShaderBinaries>,
    /// The device as the program asked for it.
    pub configuration: DeviceConfiguration,
    /// A driver that is called from a thread of the layer's might call the program: the instance or the device was
    /// created with an allocator, or with a callback that reports allocations.
    pub calls_back: bool,
}

impl Device {
    /// A device that was just created.
    pub fn new(
        handle: vk::Device,
        next: vk::PFN_vkGetDeviceProcAddr,
        table: DeviceTable,
        instance: Arc<Instance>,
        physical: Arc<PhysicalDevice>,
        decided: Decided,
    ) -> Device {
        let properties = &physical.properties;
        let name = properties.device_name_as_c_str().map(|name| name.to_string_lossy().into_owned());
        let identity = DeviceReport {
            name: name.unwrap_or_default(),
            vendor_id: properties.vendor_id,
            device_id: properties.device_id,
            driver_id: physical.driver.as_raw() as u32,
            driver_version: properties.driver_version,
            ..DeviceReport::default()
        };
        let mut policy = policy::of(physical.driver);
        // With VkPhysicalDevicePipelineCacheIncrementalModeFeaturesSEC reading a cache changes it (contract 4.7).
        let incremental = decided.configuration.switches_on(INCREMENTAL_CACHES);
        policy.artifacts &= !incremental;
        let stats = DeviceStats {
            identity,
            part: OnceLock::new(),
            number: OnceLock::new(),
            counters: Counters::default(),
            frames: Frames::default(),
            waits: Waits::default(),
            is_left: AtomicBool::new(false),
        };
        let stats = Arc::new(stats);
        let api_version = instance.application.api_version.min(properties.api_version);
        let layouts_may_go =
            api_version >= vk::API_VERSION_1_3 || decided.configuration.enables(ash::khr::maintenance4::NAME);
        let lending = Lending::new(layouts_may_go && !decided.calls_back);
        let background = Arc::new(Listeners::default());
        let commands = CacheCommands::new(handle, &table, properties, decided.cache_control);
        Device {
            handle,
            next,
            table,
            policy,
            has_libraries: decided.configuration.enables(ash::khr::pipeline_library::NAME),
            physical,
            objects: ObjectsOfDevice::default(),
            lending,
            caches: CachesOfDevice::new(commands, incremental),
            failures: OnceLock::new(),
            width: Width::new(instance.config.served_width.or(policy.served_width)),
            estimates: OnceLock::new(),
            background: background.clone(),
            parked: Parked::new(background.clone()),
            driver_hits: DriverHits::new(background),
            pairs: OnceLock::new(),
            stats,
            instance,
            stored: OnceLock::new(),
            session: OnceLock::new(),
            shader_code: ShaderCode::default(),
            deferred: Operations::default(),
            is_closed_to_workers: AtomicBool::new(false),
            decided,
            parents: None,
            process: fork::here(),
        }
    }

    /// This device as a forked child of the process sees it: without what the process knows of it, whose locks may be
    /// held by threads that the child does not have.
    pub(super) fn in_child(self: &Arc<Device>) -> Device {
        let (instance, physical) = (self.instance.clone(), self.physical.clone());
        let device =
            Device::new(self.handle, self.next, self.table, instance, physical, self.decided.clone());
        Device { parents: Some(self.clone()), ..device }
    }

    /// Whether this process created it, or has adopted it from its parent.
    pub fn is_of_this_process(&self) -> bool {
        self.process == fork::now()
    }

    /// The counters.
    pub fn counters(&self) -> &Counters {
        &self.stats.counters
    }

    /// What the program presents.
    pub fn frames(&self) -> &Frames {
        &self.stats.frames
    }

    /// The calls that create pipelines.
    pub fn waits(&self) -> &Waits {
        &self.stats.waits
    }

    /// Notes what has come of a presentation.
    #[cold]
    pub fn note(&self, presented: Presented) {
        if presented.wants_report {
            self.stats.counters.tell();
        }
        if let (Some(frame), Some(stored)) = (presented.frame, self.stored()) {
            stored.stash.note_timeline(frame);
        }
    }

    /// The driver's pipelineCreationCacheControl is on, so FAIL_ON_COMPILE_REQUIRED may be used (contract 2.7).
    pub fn cache_control(&self) -> bool {
        self.decided.cache_control
    }

    /// Whether the driver or the layer answers for shader module identifiers.
    pub fn identifiers(&self) -> IdentifierMode {
        self.decided.identifiers
    }

    /// VkPhysicalDeviceBlendOperationAdvancedFeaturesEXT is on.
    pub fn advanced_blend(&self) -> bool {
        let blend = vk::StructureType::PHYSICAL_DEVICE_BLEND_OPERATION_ADVANCED_FEATURES_EXT;
        self.configuration().switches_on(blend.as_raw())
    }

    /// The layer offers pipelineCreationCacheControl itself, so the driver must not see its flags.
    pub fn emulates_cache_control(&self) -> bool {
        self.physical.emulates_cache_control
    }

    /// The device as the program asked for it.
    pub fn configuration(&self) -> &DeviceConfiguration {
        &self.decided.configuration
    }

    /// Destroys all caches of the layer's: the program destroys the device, and is in no other call. Its own caches it
    /// may have left alive.
    pub fn drop_caches(&self) {
        self.caches.null.pending.companion.close();
        self.caches.of_program.for_each(|cache| {
            cache.pending.companion.close();
            cache.answer.close(&self.caches.commands);
        });
    }

    /// Driver identifiers to module identities. Made when the first one is met.
    pub(super) fn pairs(&self) -> &papaya::HashMap<NativeIdentifier, Key, FxBuildHasher> {
        self.pairs.get_or_init(Default::default)
    }

    /// What asking the sources of pipelines has brought lately, in this run and in earlier ones.
    pub fn estimates(&self) -> &Estimates {
        self.estimates.get_or_init(|| {
            let mut record = Vec::new();
            let stored = self.stored();
            let is_kept =
                stored.is_some_and(|stored| stored.device.read(Kind::Estimates, &ESTIMATES, &mut record));
            Estimates::new(&self.policy, is_kept.then_some(&record))
        })
    }

    /// What is kept of the estimates has changed.
    #[cold]
    pub fn keep_estimates(&self) {
        // A worker of the tool has no habits of the program's.
        if let Some(stored) = self.stored().filter(|_| self.instance.config.application.is_none()) {
            let record = self.estimates().record();
            if !stored.device.put(Kind::Estimates, &ESTIMATES, record.into()) {
                self.count(Count::Dropped);
            }
        }
    }

    /// Adds one to a counter.
    pub fn count(&self, what: Count) {
        self.stats.counters.count(what);
    }

    /// The store, opened by the first command on the device if the program has a stash and background work is allowed,
    /// and otherwise by the first object or pipeline that needs it: a program that makes no pipelines creates nothing
    /// on the disk. None where it cannot be used.
    pub fn stored(&self) -> Option<&Stored> {
        self.stored.get_or_init(|| self.open_store()).as_ref()
    }

    /// The session, from the first module or pipeline on with a report that knows this device and what it counts. For
    /// calls that create these: a program that creates none gets no writer before its end.
    pub fn session(&self) -> &Session {
        let session = self.open_session();
        if !self.stats.counters.has_listener() {
            session.follow(&self.stats);
        }
        session
    }

    fn open_session(&self) -> &Session {
        self.session.get_or_init(|| {
            let Instance { config, application, .. } = &*self.instance;
            let session = Session::open(config, &application.name, Some(self.instance.handle));
            let _ = self.stats.number.set(session.add_device(&self.stats));
            session
        })
    }

    /// The session, if it is open.
    pub fn opened_session(&self) -> Option<&Arc<Session>> {
        self.session.get()
    }

    fn open_store(&self) -> Option<Stored> {
        let stash = self.open_session().stash()?.clone();
        let header = self.header()?;
        match stash.device(&header) {
            Ok(device) => {
                // A device that is created again finds its part open already.
                let _ = self.stats.part.set(device.name().to_owned());
                if let Ok((digest, encoded)) = self.decided.configuration.encoded() {
                    if !stash.portable().contains(Kind::DeviceConfiguration, &digest) {
                        stash.portable().put(Kind::DeviceConfiguration, &digest, encoded.into());
                    }
                }
                // `vkstash prewarm` makes this device's own artifacts, also where a sibling has one.
                let is_worker = self.instance.config.application.is_some();
                let takes_siblings = self.cache_control() && !self.policy.siblings.is_empty() && !is_worker;
                let siblings = takes_siblings.then(|| stash.siblings(&header, Kin::Features));
                let takes_versions = self.decided.shader_binaries.is_some() && !is_worker;
                let versions = takes_versions.then(|| stash.siblings(&header, Kin::Versions));
                let uses = DeviceUses::of(self.stats.number.get().copied().unwrap_or_default());
                // The tool knows of what its workers die.
                if !is_worker {
                    device.foresee_compiles();
                }
                Some(Stored::new(stash, device, uses, siblings, versions))
            }
            Err(error) => {
                tracing::warn!("no artifacts in this run: {error}");
                None
            }
        }
    }

    /// Whether a run on this device may have a timeline: a worker of `vkstash prewarm` presents nothing.
    pub fn keeps_timeline(&self) -> bool {
        self.instance.config.root.is_some() && self.instance.config.application.is_none()
    }

    /// Where the stash of this program is, whether there is one or not.
    pub fn stash_folder(&self) -> Option<PathBuf> {
        let Instance { config, application, .. } = &*self.instance;
        Some(config.root.as_ref()?.join(process::name_of(config, &application.name).folder))
    }

    /// Makes the page that shows what this process does, if it has none.
    pub fn show(&self) {
        let Instance { config, application, .. } = &*self.instance;
        live::open(|| {
            let name = process::name_of(config, &application.name);
            (name.display, config.root.as_ref().map(|root| root.join(name.folder)))
        });
    }

    /// The instance that it was created from.
    pub fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// The program destroys it: no background work begins for it any more.
    pub fn leave(&self) {
        self.stats.leave();
    }

    /// Whether the program destroys it.
    pub fn is_left(&self) -> bool {
        self.stats.is_left()
    }

    /// Whether the driver may call the program back from a thread of the program's that calls the driver.
    pub fn calls_back(&self) -> bool {
        self.calls_workers_back() || self.instance.messengers.exist()
    }

    /// Whether the driver may call the program back on any thread. Messengers of the program hear nothing of what
    /// workers do (hooks/messengers.rs).
    pub fn calls_workers_back(&self) -> bool {
        self.decided.calls_back
    }

    /// Whether workers may call the driver on this device.
    pub fn is_open_to_workers(&self) -> bool {
        !self.calls_workers_back() && !self.is_closed_to_workers.load(Ordering::Relaxed)
    }

    /// A worker's call has kept the program waiting for too long: there is no other one on this device.
    pub fn close_to_workers(&self) {
        if !self.is_closed_to_workers.swap(true, Ordering::Relaxed) {
            log::init();
            tracing::warn!("a call of a worker took too long; workers make nothing more on this device");
        }
    }

    /// What its part of the stash is bound to. None where its configuration cannot be encoded.
    pub fn header(&self) -> Option<DeviceHeader> {
        let properties = &self.physical.properties;
        Some(DeviceHeader {
            vendor_id: properties.vendor_id,
            device_id: properties.device_id,
            pipeline_cache_uuid: properties.pipeline_cache_uuid,
            driver_id: self.physical.driver.as_raw() as u32,
            driver_version: properties.driver_version,
            pointer_width: size_of::<usize>() as u8,
            schema: SCHEMA,
            features_digest: self.decided.configuration.features_digest().ok()?,
        })
    }

    /// Whether artifacts of this driver are worth anything. Where not, the layer stands aside.
    pub fn keeps_artifacts(&self) -> bool {
        self.policy.artifacts
            && !switches::is_off(CacheKinds::COMPILATIONS)
            && !tls_destroyed()
            && self.caches_hold(PipelineClass::Complete)
            && self.table.create_pipeline_cache.is_some()
            && self.table.destroy_pipeline_cache.is_some()
            && self.table.get_pipeline_cache_data.is_some()
    }

    /// Whether the recipe of a pipeline that leaves no artifact is recorded, too: before the program asks for it again,
    /// it may be made in the background.
    pub fn wants_recipes(&self) -> bool {
        self.instance.config.parks
            && !self.caches.incremental
            && !tls_destroyed()
            && !self.settings_forbid_work()
    }

    /// Whether the settings of the stash forbid background work, as far as it is open and they are read. The
    /// environment comes before them.
    fn settings_forbid_work(&self) -> bool {
        if !self.instance.config.asks_settings {
            return false;
        }
        let stash = self.session.get().and_then(|session| session.stash());
        stash.and_then(|stash| stash.background_mode_at_opening()).is_some_and(|mode| !mode.allows_work())
    }

    /// Whether recipes are recorded although this driver gives no artifacts, because its caches are known to keep
    /// nothing. While that is not known, this is false.
    pub fn records_recipes_alone(&self) -> bool {
        let holds = self.policy.artifacts && self.caches_hold(PipelineClass::Complete);
        !holds && self.wants_recipes()
    }

    /// Whether calls have to be understood: for recipes, or because the layer answers for what the driver lacks.
    pub fn describes(&self) -> bool {
        let answers = self.identifiers() == IdentifierMode::Emulated || self.emulates_cache_control();
        self.keeps_artifacts()
            || (answers && !tls_destroyed())
            || self.records_recipes_alone()
            || self.kept_shaders().is_some()
    }

    /// The binaries of shader objects that the driver takes, where they are recorded and served.
    pub fn kept_shaders(&self) -> Option<&ShaderBinaries> {
        let commands = &self.table;
        let keeps = !switches::is_off(CacheKinds::COMPILATIONS)
            && !tls_destroyed()
            && commands.get_shader_binary_data.is_some()
            && commands.destroy_shader.is_some();
        self.decided.shader_binaries.as_ref().filter(|_| keeps)
    }

    /// Whether the stash keeps the code of modules.
    pub fn keeps_modules(&self) -> bool {
        !switches::is_off(CacheKinds::CONVERSIONS) && (self.keeps_artifacts() || self.records_recipes_alone())
    }

    /// Whether the driver's caches hold pipelines of this class, as far as that is known.
    pub fn caches_hold(&self, class: PipelineClass) -> bool {
        self.caches.probe.is_worth_reading(class)
    }

    /// Whether artifacts of this class can be recorded: the driver's caches hold them, and there is a stash.
    pub fn records_artifacts(&self, class: PipelineClass) -> bool {
        self.keeps_artifacts() && self.caches_hold(class) && self.stored().is_some()
    }

    /// Whether the driver is asked before the stash for a pipeline that the program requests with this habit.
    pub fn asks_driver_first(&self, habit: CacheHabit) -> bool {
        self.policy.asks_driver_first(self.instance.config.ask_first, habit)
    }

    /// Whether there are pipelines that the driver is known to answer with an error, and not known to make since. What
    /// other processes find out after this one has counted is known to the next run.
    pub fn knows_failures(&self) -> bool {
        if let Some(failures) = self.failures.get() {
            return failures.load(Ordering::Relaxed) > 0;
        }
        let Some(stored) = self.stored() else { return false };
        if !stored.device.has_any(Kind::Failed) && !stored.device.may_have_more() {
            let _ = self.failures.set(AtomicI64::new(0));
            return false;
        }
        let mut live = 0;
        let is_whole = stored.device.for_each(Kind::Failed, &mut |_, payload| {
            live += i64::from(Failed::of(payload) == Failed::Error)
        });
        // What is not read yet may name more of them.
        if is_whole && !stored.device.may_have_more() {
            let _ = self.failures.set(AtomicI64::new(live));
        }
        live > 0
    }

    /// Adjusts the number of keys that are recorded as failed.
    pub fn count_failure(&self, fails: bool) {
        // If the records were not counted yet, the first count finds this one.
        if let Some(failures) = self.failures.get() {
            failures.fetch_add(if fails { 1 } else { -1 }, Ordering::Relaxed);
        }
    }
}
