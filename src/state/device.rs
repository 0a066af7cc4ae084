//! Live devices.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};

use ash::vk::{self, Handle};
use rustc_hash::FxBuildHasher;

use super::app_cache::AppCache;
use super::asked_first::RecentHits;
use super::beside::{Beside, Filled, NullCache};
use super::binaries::Binaries;
use super::cache_data::CacheData;
use super::deferred::Operations;
use super::device_stats::DeviceStats;
use super::dispatch::DeviceTable;
use super::family::{Family, Harvests};
use super::instance::{Instance, PhysicalDevice};
use super::objects::{
    ConversionObject, EncodedObject, LibraryObject, Module, Objects, SamplerObject, SetLayoutObject, Unhashed,
};
use super::policy::{self, Policy};
use super::process::Session;
use super::setup::Setup;
use super::stored::Stored;
use super::unread::{Origin, Unread};
use crate::faults;
use crate::guard::{guard, is_late};
use crate::loader::dispatch_key;
use crate::recipe::capture::{self, Library, SubpassUse};
use crate::recipe::chain::Refusal;
use crate::recipe::identifier::{self, NativeIdentifier};
use crate::recipe::model::SCHEMA;
use crate::recipe::payload::{RECORD_FLAGS, module_record};
use crate::stats::{BypassReason, Count, Counters};
use vkstash_store::base::memory::{Taken, UNHASHED};
use vkstash_store::forks as fork;
use vkstash_store::forks::PerProcess;
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::format::record::{Key, Kind};
use vkstash_store::reports::model::DeviceReport;
use vkstash_store::stash::open::END;

/// Who answers for shader module identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentifierMode {
    /// The program did not enable them.
    Off,
    /// The driver.
    Native,
    /// This layer.
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
    /// The driver's pipelineCreationCacheControl is on, so FAIL_ON_COMPILE_REQUIRED may be used (contract 2.7).
    pub cache_control: bool,
    /// The layer offers that feature itself, so the driver must not see its flags.
    pub cache_control_emulated: bool,
    /// Identifiers.
    pub identifiers: IdentifierMode,
    /// VK_KHR_pipeline_binary, where artifacts are made of binaries.
    pub binaries: Option<Binaries>,
    /// VK_KHR_pipeline_library is enabled.
    pub has_libraries: bool,
    /// VkPhysicalDeviceBlendOperationAdvancedFeaturesEXT is on.
    pub advanced_blend: bool,
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
    /// The program's pipeline caches.
    pub caches: Objects<AppCache>,
    /// VK_NULL_HANDLE in the place of one.
    pub null: NullCache,
    /// Keys that the driver is known to answer with an error, counted when somebody first asks.
    failures: OnceLock<AtomicI64>,
    /// The companions of both that live.
    companions: Mutex<Vec<vk::PipelineCache>>,
    /// Driver identifiers to module identities, as far as met in this process.
    pairs: papaya::HashMap<NativeIdentifier, Key, FxBuildHasher>,
    stats: Arc<DeviceStats>,
    instance: Arc<Instance>,
    decided: Decided,
    // Declared before the session: the parts go first, then the session may close the stash.
    stored: OnceLock<Option<Stored>>,
    session: OnceLock<Arc<Session>>,
    /// What the driver's caches have given so far.
    pub harvests: Arc<Harvests>,
    /// How caches are read.
    pub cache_data: CacheData,
    /// Whose caches wait to be read, once there is a part for their data.
    pub origin: OnceLock<Arc<Origin>>,
    /// Deferred operations under way.
    pub deferred: Operations,
    /// In [`fork::now`].
    process: u32,
}

/// A registered device.
#[derive(Clone)]
pub enum Entry {
    /// The layer works on it.
    Active(Arc<Device>),
    /// The layer passes everything through.
    Inert {
        /// The next layer's look-up.
        next: vk::PFN_vkGetDeviceProcAddr,
    },
}

/// What the map holds. It frees what is removed from it when it sees fit, so it must not own a device: the
/// last reference joins threads, and that has to happen in vkDestroyDevice (contract 1.11).
#[derive(Clone)]
enum Registered {
    Active(Weak<Device>),
    Inert(vk::PFN_vkGetDeviceProcAddr),
}

type Registry = papaya::HashMap<usize, Registered, FxBuildHasher>;
static DEVICES: LazyLock<Registry> = LazyLock::new(|| Registry::with_hasher(FxBuildHasher));
/// Who owns the devices; touched only when one is created or destroyed, and in exit handlers.
static OWNERS: PerProcess<Owners> = PerProcess::empty();

type Owners = Mutex<BTreeMap<usize, Entry>>;

fn owners() -> MutexGuard<'static, BTreeMap<usize, Entry>> {
    OWNERS.get_or_make(of_parents).lock().unwrap_or_else(PoisonError::into_inner)
}

/// A forked child's own, with its parent's devices, which exit handlers look up here. Without them where a thread of
/// the parent held the lock at the fork: nobody will release it in the child.
fn of_parents(parents: Option<&Owners>) -> Owners {
    let known = parents.map(|parents| match parents.try_lock() {
        Ok(known) => known.clone(),
        Err(TryLockError::Poisoned(known)) => known.into_inner().clone(),
        Err(TryLockError::WouldBlock) => BTreeMap::new(),
    });
    Mutex::new(known.unwrap_or_default())
}

/// Registers a device.
///
/// # Safety
/// `handle` is live.
pub unsafe fn insert(handle: vk::Device, entry: Entry) {
    // SAFETY: the caller's contract.
    let key = unsafe { dispatch_key(handle) };
    let registered = match &entry {
        Entry::Active(device) => Registered::Active(Arc::downgrade(device)),
        Entry::Inert { next } => Registered::Inert(*next),
    };
    owners().insert(key, entry);
    DEVICES.pin().insert(key, registered);
}

/// What is registered for a device.
///
/// # Safety
/// `handle` is live.
pub unsafe fn entry(handle: vk::Device) -> Option<Entry> {
    // SAFETY: the caller's contract.
    let key = unsafe { dispatch_key(handle) };
    if is_late() {
        return owners().get(&key).cloned();
    }
    match DEVICES.pin().get(&key)? {
        Registered::Active(device) => {
            let device = device.upgrade()?;
            let here = device.process == fork::now();
            Some(Entry::Active(if here { device } else { adopt(key, device) }))
        }
        Registered::Inert(next) => Some(Entry::Inert { next: *next }),
    }
}

/// A forked child goes on with its parent's device.
#[cold]
fn adopt(key: usize, parents: Arc<Device>) -> Arc<Device> {
    let mut owners = owners();
    if let Some(Entry::Active(known)) = owners.get(&key) {
        if known.process == fork::now() {
            return known.clone();
        }
    }
    let device = Arc::new(parents.in_child());
    DEVICES.pin().insert(key, Registered::Active(Arc::downgrade(&device)));
    // Neither reference to the parent's is ever dropped: what it holds is the parent's to close.
    std::mem::forget(owners.insert(key, Entry::Active(device.clone())));
    std::mem::forget(parents);
    device
}

/// The device, where the layer works on it.
///
/// # Safety
/// `handle` is live.
pub unsafe fn find(handle: vk::Device) -> Option<Arc<Device>> {
    // Every hook begins with it, and has nothing to fall back on before.
    // SAFETY: the caller's contract.
    let look_up = || unsafe {
        faults::here("device looked up");
        entry(handle)
    };
    // Everything fails without it, so there is a second way.
    // SAFETY: as above.
    let again = || owners().get(&unsafe { dispatch_key(handle) }).cloned();
    match guard("the look-up of a device", look_up, || guard("the look-up of a device", again, || None)) {
        Some(Entry::Active(device)) => Some(device),
        _ => None,
    }
}

/// Forgets a device; dropping what is returned ends its work.
///
/// # Safety
/// `handle` is live.
pub unsafe fn remove(handle: vk::Device) -> Option<Entry> {
    // SAFETY: the caller's contract.
    let (key, removed) = unsafe { (dispatch_key(handle), entry(handle)) };
    if !is_late() {
        DEVICES.pin().remove(&key);
    }
    // Not dropped under the lock: the caller holds a reference of its own.
    let owned = owners().remove(&key);
    drop(owned);
    removed
}

/// An instance is about to be destroyed, and with it the driver may be gone: the devices that the program leaves alive in it are not
/// called any more but by the program.
pub fn leave_all_of(instance: &Arc<Instance>) {
    let devices: Vec<_> = owners().values().cloned().collect();
    for entry in devices {
        if let Entry::Active(device) = entry {
            if Arc::ptr_eq(&device.instance, instance) && device.process == fork::now() {
                device.end_reading(|unread, origin| unread.leave(origin, END));
            }
        }
    }
}

/// What vkCreateDevice decided about a new device.
#[derive(Clone)]
pub struct Decided {
    /// FAIL_ON_COMPILE_REQUIRED may be used.
    pub cache_control: bool,
    /// Who answers for identifiers.
    pub identifiers: IdentifierMode,
    /// Artifacts are made of pipeline binaries.
    pub binaries: bool,
    /// The device as the program asked for it.
    pub setup: Setup,
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
        let blend = vk::StructureType::PHYSICAL_DEVICE_BLEND_OPERATION_ADVANCED_FEATURES_EXT.as_raw();
        let mut policy = policy::of(physical.driver);
        let switched_on = |s_type: i32| decided.setup.structures.iter().any(|s| s.s_type == s_type);
        // In this mode reading a cache changes it (contract 4.7).
        policy.artifacts &= !switched_on(INCREMENTAL_CACHES);
        let advanced_blend = switched_on(blend);
        let stats = DeviceStats { identity, part: OnceLock::new(), counters: Counters::default() };
        let (stats, harvests) = (Arc::new(stats), Arc::<Harvests>::default());
        let cache_data = CacheData::new(handle, &table, properties);
        Device {
            handle,
            next,
            table,
            policy,
            cache_control: decided.cache_control,
            cache_control_emulated: physical.emulates_cache_control,
            identifiers: decided.identifiers,
            binaries: decided.binaries.then(Binaries::default),
            has_libraries: decided.setup.enables(ash::khr::pipeline_library::NAME),
            advanced_blend,
            physical,
            modules: Objects::default(),
            conversions: Objects::default(),
            samplers: Objects::default(),
            set_layouts: Objects::default(),
            layouts: Objects::default(),
            render_passes: Objects::default(),
            libraries: Objects::default(),
            caches: Objects::default(),
            failures: OnceLock::new(),
            null: NullCache {
                beside: Beside::default(),
                filled: Filled::new(false),
                recent_hits: RecentHits::default(),
            },
            companions: Mutex::default(),
            pairs: papaya::HashMap::with_hasher(FxBuildHasher),
            origin: OnceLock::new(),
            cache_data,
            stats,
            instance,
            stored: OnceLock::new(),
            session: OnceLock::new(),
            harvests,
            deferred: Operations::default(),
            decided,
            process: fork::here(),
        }
    }

    /// The same device for a forked child of the process that created it: without what that process knows, whose
    /// locks may be held by threads that are not in this one.
    fn in_child(&self) -> Device {
        let (instance, physical) = (self.instance.clone(), self.physical.clone());
        Device::new(self.handle, self.next, self.table, instance, physical, self.decided.clone())
    }

    /// The counters.
    pub fn counters(&self) -> &Counters {
        &self.stats.counters
    }

    /// The device as the program asked for it.
    pub fn setup(&self) -> &Setup {
        &self.decided.setup
    }

    fn companions(&self) -> MutexGuard<'_, Vec<vk::PipelineCache>> {
        self.companions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A companion was made; it goes with the device at the latest.
    pub fn keep_companion(&self, companion: vk::PipelineCache) {
        self.companions().push(companion);
    }

    /// Destroys a companion that nobody uses any more.
    pub fn drop_companion(&self, companion: vk::PipelineCache) {
        self.companions().retain(|kept| *kept != companion);
        self.destroy_caches(&[companion]);
    }

    /// Destroys all of them: the program destroys the device, and is in no other call.
    pub fn drop_companions(&self) {
        let all = std::mem::take(&mut *self.companions());
        self.destroy_caches(&all);
    }

    fn destroy_caches(&self, caches: &[vk::PipelineCache]) {
        let Some(destroy) = self.table.destroy_pipeline_cache else { return };
        for &cache in caches {
            // SAFETY: a cache of the layer's own on this device, created without an allocator, and out of use.
            unsafe { destroy(self.handle, cache, std::ptr::null()) };
        }
    }

    /// The device, or its driver, is about to be gone.
    pub fn end_reading(&self, end: impl FnOnce(&Unread, &Arc<Origin>)) {
        if let (Some(session), Some(origin)) = (self.session.get(), self.origin.get()) {
            end(session.unread(), origin);
        }
    }

    /// Sees to it that the artifact of this key can be found, if it was compiled a moment ago.
    pub fn read_unread(&self, key: &Key) {
        if let (Some(session), Some(stored)) = (self.session.get(), self.stored()) {
            session.unread().read_one(&stored.device, key);
        }
    }

    /// Adds one to a counter.
    pub fn count(&self, what: Count) {
        self.stats.counters.count(what);
    }

    /// The store, opened by the first object or pipeline that needs it: a program that makes no pipelines
    /// never touches the disk. None where it cannot be used.
    pub fn stored(&self) -> Option<&Stored> {
        self.stored.get_or_init(|| self.open_store()).as_ref()
    }

    /// The session, opened by the first pipeline, so that its report knows this device and what it counts. For calls
    /// that create pipelines: a program that creates none gets no thread before its end.
    pub fn session(&self) -> &Session {
        let session = self.open_session();
        if !self.stats.counters.has_listener() {
            session.follow(&self.stats);
        }
        session
    }

    fn open_session(&self) -> &Session {
        self.session.get_or_init(|| {
            let session = Session::open(&self.instance.config, &self.instance.application.name);
            session.add_device(&self.stats);
            session
        })
    }

    fn open_store(&self) -> Option<Stored> {
        let stash = self.open_session().stash()?.clone();
        let header = self.header()?;
        match stash.device(&header) {
            Ok(device) => {
                // A device that is created again finds its part open already.
                let _ = self.stats.part.set(device.name().to_owned());
                let (harvests, stats) = (self.harvests.clone(), self.stats.clone());
                let _ = self.origin.set(Origin::new(self.cache_data, device.clone(), harvests, stats));
                if let Ok((digest, encoded)) = self.decided.setup.encoded() {
                    if !stash.portable().contains(Kind::Setup, &digest) {
                        stash.portable().put(Kind::Setup, &digest, encoded.into());
                    }
                }
                Some(Stored::new(stash, device))
            }
            Err(error) => {
                tracing::warn!("no artifacts in this run: {error}");
                None
            }
        }
    }

    fn header(&self) -> Option<DeviceHeader> {
        let properties = &self.physical.properties;
        Some(DeviceHeader {
            vendor_id: properties.vendor_id,
            device_id: properties.device_id,
            pipeline_cache_uuid: properties.pipeline_cache_uuid,
            driver_id: self.physical.driver.as_raw() as u32,
            driver_version: properties.driver_version,
            pointer_width: size_of::<usize>() as u8,
            schema: SCHEMA,
            features_digest: self.decided.setup.features_digest().ok()?,
        })
    }

    /// Whether artifacts of this driver are worth anything. Where not, the layer stands aside.
    pub fn keeps_artifacts(&self) -> bool {
        self.policy.artifacts
            && !is_late()
            && (self.gives(Family::Complete) || self.binaries.is_some())
            && self.table.create_pipeline_cache.is_some()
            && self.table.destroy_pipeline_cache.is_some()
            && self.table.get_pipeline_cache_data.is_some()
    }

    /// Whether calls have to be understood: for recipes, or because the layer answers for what the driver lacks.
    pub fn describes(&self) -> bool {
        let answers = self.identifiers == IdentifierMode::Emulated || self.cache_control_emulated;
        self.keeps_artifacts() || (answers && !is_late())
    }

    /// Whether an emulated identifier without an artifact is compiled from stored SPIR-V.
    pub fn rehydrates(&self) -> bool {
        self.instance.config.rehydrate && self.identifiers == IdentifierMode::Emulated && !is_late()
    }

    /// Whether the stash keeps the code of modules.
    pub fn keeps_modules(&self) -> bool {
        self.keeps_artifacts() || self.rehydrates()
    }

    /// Whether the driver's cache data is worth asking for after it made a pipeline of this family.
    pub fn gives(&self, family: Family) -> bool {
        self.harvests.give(family)
    }

    /// Whether the driver may be asked for a pipeline before anything is hashed.
    pub fn may_ask_driver_first(&self) -> bool {
        self.cache_control && self.identifiers != IdentifierMode::Emulated && self.keeps_artifacts()
    }

    /// Whether the stash has nothing to serve. A program whose driver, or whose own cache, has everything then pays
    /// next to nothing.
    pub fn has_no_artifacts(&self) -> bool {
        let unread = self.session.get().is_some_and(|session| !session.unread().is_empty());
        !unread && self.stored().is_some_and(|stored| !stored.device.has_any(Kind::Artifact))
    }

    /// Whether there are pipelines that the driver is known to answer with an error, and not known to make since.
    pub fn knows_failures(&self) -> bool {
        let Some(stored) = self.stored().filter(|stored| stored.device.has_any(Kind::Failed)) else {
            return false;
        };
        let count = || {
            let mut live = 0;
            stored.device.for_each(Kind::Failed, &mut |_, payload| live += i64::from(payload == [1]));
            AtomicI64::new(live)
        };
        self.failures.get_or_init(count).load(Ordering::Relaxed) > 0
    }

    /// It is noted that the driver answers a key with an error, or that it does no longer.
    pub fn count_failure(&self, fails: bool) {
        // Whoever counts later finds the note.
        if let Some(failures) = self.failures.get() {
            failures.fetch_add(if fails { 1 } else { -1 }, Ordering::Relaxed);
        }
    }

    /// Room for a module of this size that may be left unhashed.
    pub fn may_put_hashing_off(&self, bytes: usize) -> Option<Taken> {
        if self.may_ask_driver_first() && self.has_no_artifacts() { UNHASHED.take(bytes) } else { None }
    }

    /// Queues a module's record if the stash does not have it (code that it has is not copied), and learns
    /// what the driver calls it.
    ///
    /// # Safety
    /// A live module.
    pub unsafe fn keep_module(
        &self,
        module: vk::ShaderModule,
        identity: &Key,
        record: impl FnOnce() -> Option<Box<[u8]>>,
    ) {
        let Some(stored) = self.stored() else { return };
        if !stored.has_module(identity) {
            self.count(Count::ModulesNew);
            stored.put_module(self.counters(), identity, record());
        }
        if self.identifiers == IdentifierMode::Native {
            // SAFETY: the caller's contract; the program enabled the extension.
            if let Some(native) = unsafe { self.native_identifier(module) } {
                self.learn_pair(&native, identity);
            }
        }
    }

    /// Hashes what was put off. None: another thread took the code and has not come back from it.
    fn hash(&self, module: vk::ShaderModule, object: &Module, waiting: &Unhashed) -> Option<Key> {
        let mut record = waiting.record.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(identity) = object.identity.get() {
            return Some(*identity);
        }
        let (taken, _room) = record.take()?;
        let identity = identifier::module_identity(waiting.flags, taken.get(RECORD_FLAGS..)?);
        // SAFETY: the module that the program names in a call is alive.
        unsafe { self.keep_module(module, &identity, || Some(taken)) };
        Some(*object.identity.get_or_init(|| identity))
    }

    /// # Safety
    /// A live module of a device that enabled the extension natively.
    unsafe fn native_identifier(&self, module: vk::ShaderModule) -> Option<NativeIdentifier> {
        let mut identifier = vk::ShaderModuleIdentifierEXT::default();
        // SAFETY: the caller's contract.
        unsafe { (self.table.get_shader_module_identifier?)(self.handle, module, &mut identifier) };
        NativeIdentifier::new(identifier.identifier.get(..identifier.identifier_size as usize)?)
    }

    /// Learns what the driver calls code that never made a module: a program that passes its code inside the
    /// stages may still name it by identifier later.
    ///
    /// # Safety
    /// A valid create info.
    pub unsafe fn keep_inline_identifier(
        &self,
        flags: vk::ShaderModuleCreateFlags,
        code: &[u8],
        identity: &Key,
    ) {
        if self.identifiers != IdentifierMode::Native {
            return;
        }
        let Some(query) = self.table.get_shader_module_create_info_identifier else { return };
        // Flags and code alone: in a stage's chain, what follows the create info belongs to the stage.
        let info = vk::ShaderModuleCreateInfo {
            flags,
            code_size: code.len(),
            p_code: code.as_ptr().cast(),
            ..Default::default()
        };
        let mut identifier = vk::ShaderModuleIdentifierEXT::default();
        // SAFETY: a live device that enabled the extension natively, and the caller's contract.
        unsafe { query(self.handle, &info, &mut identifier) };
        let bytes = identifier.identifier.get(..identifier.identifier_size as usize);
        if let Some(native) = bytes.and_then(NativeIdentifier::new) {
            self.learn_pair(&native, identity);
        }
    }

    /// Learns that a driver's identifier stands for a module: the driver has just said so.
    fn learn_pair(&self, native: &NativeIdentifier, identity: &Key) {
        let before = self.pairs.pin().insert(*native, *identity).copied();
        if before == Some(*identity) {
            return;
        }
        if let Some(stored) = self.stored() {
            let digest = native.digest();
            // What was known before came from the stash, and is wrong.
            if before.is_some() || !stored.device.contains(Kind::IdentifierPair, &digest) {
                stored.device.put(Kind::IdentifierPair, &digest, Box::new(*identity));
            }
        }
    }

    fn pair(&self, native: &NativeIdentifier) -> Option<Key> {
        let pairs = self.pairs.pin();
        if let Some(identity) = pairs.get(native) {
            return Some(*identity);
        }
        let mut bytes = Vec::new();
        if !self.stored()?.device.read(Kind::IdentifierPair, &native.digest(), &mut bytes) {
            return None;
        }
        let identity = Key::try_from(bytes.as_slice()).ok()?;
        pairs.insert(*native, identity);
        Some(identity)
    }
}

fn unknown_object() -> Refusal {
    Refusal::plain(BypassReason::UnknownObject)
}

fn opaque(refusal: &Refusal) -> Refusal {
    Refusal { reason: BypassReason::OpaqueObject, s_type: refusal.s_type }
}

fn digest_of(objects: &Objects<EncodedObject>, handle: impl Handle) -> Result<Key, Refusal> {
    let read = |object: &EncodedObject| object.as_ref().map(|o| o.digest).map_err(opaque);
    objects.read(handle, read).unwrap_or_else(|| Err(unknown_object()))
}

impl capture::Objects for Device {
    fn module(&self, module: vk::ShaderModule) -> Result<Key, Refusal> {
        let read = |object: &Module| match (&object.refusal, &object.unhashed) {
            (Some(refusal), _) => Err(opaque(refusal)),
            (None, None) => object.identity.get().copied().ok_or(unknown_object()),
            (None, Some(waiting)) => match object.identity.get() {
                Some(identity) => Ok(*identity),
                None => self.hash(module, object, waiting).ok_or(unknown_object()),
            },
        };
        self.modules.read(module, read).unwrap_or_else(|| Err(unknown_object()))
    }

    fn inline_module(&self, flags: vk::ShaderModuleCreateFlags, code: &[u8]) -> Key {
        let identity = identifier::module_identity(flags, code);
        if self.rehydrates() {
            // Otherwise it is kept together with the artifact, if there is one.
            if let Some(stored) = self.stored().filter(|stored| !stored.has_module(&identity)) {
                stored.put_module(self.counters(), &identity, module_record(flags, code));
            }
        }
        identity
    }

    fn identified(&self, identifier: &NativeIdentifier) -> Option<Key> {
        match self.identifiers {
            IdentifierMode::Emulated => Key::try_from(identifier.as_bytes()).ok(),
            _ => self.pair(identifier),
        }
    }

    fn algorithm(&self) -> [u8; 16] {
        match self.identifiers {
            IdentifierMode::Emulated => identifier::ALGORITHM_UUID,
            _ => self.physical.algorithm,
        }
    }

    fn layout(&self, layout: vk::PipelineLayout) -> Result<Key, Refusal> {
        digest_of(&self.layouts, layout)
    }

    fn render_pass(&self, render_pass: vk::RenderPass, subpass: u32) -> Result<(Key, SubpassUse), Refusal> {
        let read = |object: &EncodedObject| match object {
            Err(refusal) => Err(opaque(refusal)),
            Ok(object) => match object.subpasses.get(subpass as usize) {
                Some(uses) => Ok((object.digest, *uses)),
                None => Err(Refusal::plain(BypassReason::WrongStructure)),
            },
        };
        self.render_passes.read(render_pass, read).unwrap_or_else(|| Err(unknown_object()))
    }

    fn library(&self, library: vk::Pipeline) -> Result<Library, Refusal> {
        let read = |object: &LibraryObject| object.as_ref().copied().map_err(opaque);
        self.libraries.read(library, read).unwrap_or_else(|| Err(unknown_object()))
    }

    fn advanced_blend(&self) -> bool {
        self.advanced_blend
    }

    fn looked_into(&self) -> vk::PipelineCreateFlags {
        self.policy.looked_into
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "system" fn next(_: vk::Device, _: *const std::ffi::c_char) -> vk::PFN_vkVoidFunction {
        None
    }

    #[test]
    fn a_child_has_its_parents_devices_and_waits_for_no_thread_of_its_parent() {
        let parents = Owners::new(BTreeMap::from([(1, Entry::Inert { next })]));
        let known = |owners: Owners| owners.into_inner().unwrap().len();
        assert_eq!(known(of_parents(Some(&parents))), 1);
        let _held = parents.lock().unwrap();
        assert_eq!(known(of_parents(Some(&parents))), 0);
        assert_eq!(known(of_parents(None)), 0);
    }
}
