//! Device that is live. What it keeps and serves is in `kept`, its part of the stash in `stash`.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ash::vk;
use rustc_hash::FxBuildHasher;

use super::decided::Decided;
use super::deferred::Operations;
use super::estimates::Estimates;
use super::failures::Failures;
use super::width::Width;
use crate::state::ahead::of_device::WorkOfDevice;
use crate::state::caches::of_device::CachesOfDevice;
use crate::state::caches::private_cache::CacheCommands;
use crate::state::objects::of_device::ObjectsOfDevice;
use crate::state::process::device_stats::DeviceStats;
use crate::state::process::dispatch::DeviceTable;
use crate::state::process::frames::Frames;
use crate::state::process::instance::{Instance, PhysicalDevice};
use crate::state::process::policy::{self, Policy};
use crate::state::process::session::{self, Session};
use crate::state::process::stored::Stored;
use crate::state::process::waits::Waits;
use crate::stats::Counters;
use vkstash_host::forks as fork;
use vkstash_host::once::OnceLock;
use vkstash_model::counters::Count;
use vkstash_model::identifier::NativeIdentifier;
use vkstash_model::record::Key;
use vkstash_store::reports::model::DeviceReport;

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
    /// The program's pipeline caches, and what is known of them and kept beside them.
    pub caches: CachesOfDevice,
    /// Pipelines that the driver is known to answer with an error.
    pub failures: Failures,
    /// How many threads at a time enter the driver with served calls.
    pub width: Width,
    /// What asking the sources of pipelines has brought lately, from the first request on.
    pub(super) estimates: OnceLock<Estimates>,
    /// Its background work.
    pub work: WorkOfDevice,
    /// Driver identifiers to module identities, as far as met in this process.
    pairs: OnceLock<papaya::HashMap<NativeIdentifier, Key, FxBuildHasher>>,
    pub(super) stats: Arc<DeviceStats>,
    /// The instance that it was created from.
    pub instance: Arc<Instance>,
    /// What vkCreateDevice has decided about it.
    pub decided: Decided,
    // Declared before the session: the parts go first, then the session may close the stash.
    pub(super) stored: OnceLock<Option<Stored>>,
    pub(super) session: OnceLock<Arc<Session>>,
    /// Deferred operations under way.
    pub deferred: Operations,
    /// The device of the process that this one was forked from. Never dropped.
    pub(super) parents: Option<Arc<Device>>,
    /// The process, as [`fork::now`] numbers it, in which the device was created.
    process: u32,
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
            number: session::number_device(&instance.application.name),
            counters: Counters::default(),
            frames: Frames::default(),
            waits: Waits::default(),
            is_left: AtomicBool::new(false),
        };
        let stats = Arc::new(stats);
        let api_version = instance.application.api_version.min(properties.api_version);
        let layouts_may_go =
            api_version >= vk::API_VERSION_1_3 || decided.configuration.enables(ash::khr::maintenance4::NAME);
        let commands = CacheCommands::new(handle, &table, properties, decided.cache_control);
        Device {
            handle,
            next,
            table,
            policy,
            has_libraries: decided.configuration.enables(ash::khr::pipeline_library::NAME),
            physical,
            objects: ObjectsOfDevice::default(),
            caches: CachesOfDevice::new(commands, incremental),
            failures: Failures::default(),
            width: Width::new(instance.config.served_width.or(policy.served_width)),
            estimates: OnceLock::new(),
            work: WorkOfDevice::new(layouts_may_go && !decided.calls_back),
            pairs: OnceLock::new(),
            stats,
            instance,
            stored: OnceLock::new(),
            session: OnceLock::new(),
            deferred: Operations::default(),
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

    /// Driver identifiers to module identities. Made when the first one is met.
    pub(super) fn pairs(&self) -> &papaya::HashMap<NativeIdentifier, Key, FxBuildHasher> {
        self.pairs.get_or_init(Default::default)
    }

    /// Adds one to a counter.
    pub fn count(&self, what: Count) {
        self.stats.counters.count(what);
    }

    /// Whether the driver may call the program back from a thread of the program's that calls the driver.
    pub fn calls_back(&self) -> bool {
        self.decided.calls_back || self.instance.messengers.exist()
    }

    /// Whether workers may call the driver on this device. Messengers of the program hear nothing of what they do
    /// (hooks/messengers.rs).
    pub fn is_open_to_workers(&self) -> bool {
        !self.decided.calls_back && !self.work.is_closed()
    }

    /// The program destroys it: no background work begins for it any more.
    pub fn leave(&self) {
        self.stats.leave();
    }

    /// Whether the program destroys it.
    pub fn is_left(&self) -> bool {
        self.stats.is_left()
    }
}
