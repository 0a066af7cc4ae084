//! Live instances and what is known of their physical devices.

use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use ash::vk::{self, Handle};

use super::dispatch::InstanceTable;
use crate::config::{Config, Identifiers};
use crate::loader::{PhysicalDeviceProcAddr, dispatch_key};
use crate::pipeline_binary;
use vkstash_host::guard::guard;
use vkstash_model::payload::ShaderBinaries;
use vkstash_recipe::application::Application;

/// A live instance.
pub struct Instance {
    /// The handle that this layer gave out.
    pub handle: vk::Instance,
    /// The layer passes every call on: it is switched off, or the process is elevated.
    pub inert: bool,
    /// The next layer's look-up.
    pub next: vk::PFN_vkGetInstanceProcAddr,
    /// The next layer's look-up for physical-device commands.
    pub next_physical: Option<PhysicalDeviceProcAddr>,
    /// The next layer's commands.
    pub table: InstanceTable,
    /// What the program calls itself.
    pub application: Application,
    /// The environment.
    pub config: Config,
    /// Core 1.1 or VK_KHR_get_physical_device_properties2.
    pub properties2: bool,
    /// The instance was created with an allocator of the program's.
    pub has_allocator: bool,
    /// Debug messengers of the program.
    pub messengers: Messengers,
    /// The program has created nothing with the device that it destroyed last.
    pub last_device_was_idle: AtomicBool,
    is_kept: AtomicBool,
    is_left: AtomicBool,
    /// By handle; replaced as a whole.
    physical: ArcSwap<Vec<(u64, Arc<PhysicalDevice>)>>,
}

/// How many debug messengers and report callbacks an instance has. Those of its create info are called while it is
/// created and destroyed only, and do not count.
#[derive(Default)]
pub struct Messengers(AtomicU32);

impl Messengers {
    /// Counts a messenger or a callback that the program creates.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes back a messenger or a callback that the program has destroyed.
    pub fn remove(&self) {
        let less = |count: u32| count.checked_sub(1);
        // An error: the program destroys what it has not created.
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
    }

    /// Whether there is any.
    pub fn exist(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }
}

/// How a physical device offers pipelineCreationCacheControl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheControl {
    /// The device lacks the feature, or the program's instance cannot reach it.
    None,
    /// As a feature of Vulkan 1.3.
    Core,
    /// The feature of VK_EXT_pipeline_creation_cache_control.
    Extension,
}

/// What is known of a physical device.
pub struct PhysicalDevice {
    /// VkPhysicalDeviceProperties.
    pub properties: vk::PhysicalDeviceProperties,
    /// VkDriverId, 0 where it cannot be asked for.
    pub driver: vk::DriverId,
    /// The driver has VK_EXT_shader_module_identifier itself.
    pub native_identifiers: bool,
    /// The driver's shaderModuleIdentifierAlgorithmUUID; zero where it has none.
    pub algorithm: [u8; 16],
    /// The layer offers the extension in its own right.
    pub emulates: bool,
    /// The driver lists VK_KHR_pipeline_binary.
    pub lists_binaries: bool,
    /// What vkEnumerateDeviceExtensionProperties lists without the layer. None: it was not asked for, or cannot be
    /// listed.
    pub listed: Option<Vec<vk::ExtensionProperties>>,
    /// Cache control, of the driver.
    pub cache_control: CacheControl,
    /// The layer offers VK_EXT_pipeline_creation_cache_control in its own right: identifiers need it
    /// (contract 2.7), and the driver lacks it.
    pub emulates_cache_control: bool,
}

/// By dispatch key. A list that is replaced as a whole: a look-up waits for nobody, also in a forked child, whatever
/// its parent's threads did. It works without thread-local storage, which exit handlers may lack.
static INSTANCES: ArcSwapOption<Vec<(usize, Arc<Instance>)>> = ArcSwapOption::const_empty();

/// Replaces what is registered for a key.
fn register(key: usize, instance: Option<&Arc<Instance>>) {
    INSTANCES.rcu(|instances| {
        let others =
            instances.iter().flat_map(|instances| instances.iter()).filter(|(other, _)| *other != key);
        Some(Arc::new(
            others.cloned().chain(instance.map(|instance| (key, instance.clone()))).collect::<Vec<_>>(),
        ))
    });
}

/// Registers an instance.
///
/// # Safety
/// `instance.handle` is live.
pub unsafe fn insert(instance: Arc<Instance>) {
    // SAFETY: `instance.handle` was just created, so it begins with the loader's dispatch table pointer.
    let key = unsafe { dispatch_key(instance.handle) };
    register(key, Some(&instance));
}

/// The instance of a dispatchable handle: itself or one of its physical devices.
///
/// # Safety
/// `handle` is a live instance, or a physical device of one.
pub unsafe fn find(handle: impl Handle) -> Option<Arc<Instance>> {
    // SAFETY: `handle` is a live instance or physical device, which both begin with the instance's dispatch
    // table pointer.
    let key = unsafe { dispatch_key(handle) };
    guard("the look-up of an instance", || known(key), || None)
}

fn known(key: usize) -> Option<Arc<Instance>> {
    let instances = INSTANCES.load();
    instances.as_ref()?.iter().find(|(other, _)| *other == key).map(|(_, instance)| instance.clone())
}

/// Forgets an instance.
///
/// # Safety
/// `handle` is a live instance.
pub unsafe fn remove(handle: vk::Instance) -> Option<Arc<Instance>> {
    // SAFETY: `handle` is live: vkDestroyInstance goes down only after the instance was removed here.
    let key = unsafe { dispatch_key(handle) };
    let removed = known(key);
    register(key, None);
    removed
}

/// Programs that ask for Vulkan 1.0 cannot ask which driver they run on; Mesa writes it into the device's name.
fn driver_by_name(properties: &vk::PhysicalDeviceProperties) -> vk::DriverId {
    let name = properties.device_name_as_c_str().map(|name| name.to_bytes()).unwrap_or_default();
    let says = |text: &[u8]| name.windows(text.len()).any(|part| part == text);
    if says(b"(RADV ") {
        vk::DriverId::MESA_RADV
    } else if says(b"llvmpipe") {
        vk::DriverId::MESA_LLVMPIPE
    } else {
        vk::DriverId::default()
    }
}

/// Features that a driver offers.
struct OffersOfDriver {
    identifiers: bool,
    cache_control: bool,
}

/// What a physical device is known to have before it is asked for more.
struct Known<'a> {
    listed: &'a [vk::ExtensionProperties],
    api_version: u32,
}

impl Known<'_> {
    fn lists(&self, name: &CStr) -> bool {
        self.listed.iter().any(|listed| listed.extension_name_as_c_str() == Ok(name))
    }

    /// Whether the device has what the extension offers: it lists the extension, or has this version of Vulkan.
    fn has(&self, name: &CStr, version: u32) -> bool {
        self.api_version >= version || self.lists(name)
    }
}

impl Instance {
    /// A live instance of which nothing has been asked yet.
    #[allow(clippy::too_many_arguments, reason = "what is known when an instance is created")]
    pub fn new(
        handle: vk::Instance,
        inert: bool,
        next: vk::PFN_vkGetInstanceProcAddr,
        next_physical: Option<PhysicalDeviceProcAddr>,
        table: InstanceTable,
        application: Application,
        config: Config,
        properties2: bool,
        has_allocator: bool,
    ) -> Instance {
        Instance {
            handle,
            inert,
            next,
            next_physical,
            table,
            application,
            config,
            properties2,
            has_allocator,
            messengers: Messengers::default(),
            last_device_was_idle: AtomicBool::new(false),
            is_kept: AtomicBool::new(false),
            is_left: AtomicBool::new(false),
            physical: ArcSwap::default(),
        }
    }

    /// A device of it must not be destroyed, so neither may it.
    pub fn keep(&self) {
        self.is_kept.store(true, Ordering::SeqCst);
    }

    /// Whether the instance must not be destroyed.
    pub fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::SeqCst)
    }

    /// The program destroys it: no background work begins for its devices any more.
    pub fn leave(&self) {
        self.is_left.store(true, Ordering::SeqCst);
    }

    /// Whether the program destroys it, or has.
    pub fn is_left(&self) -> bool {
        self.is_left.load(Ordering::SeqCst)
    }

    /// What is known of a physical device. Kept once it was asked for.
    pub fn physical_device(&self, device: vk::PhysicalDevice) -> Arc<PhysicalDevice> {
        let find = |known: &[(u64, Arc<PhysicalDevice>)]| {
            known.iter().find(|(other, _)| *other == device.as_raw()).map(|(_, known)| known.clone())
        };
        if let Some(known) = find(&self.physical.load()) {
            return known;
        }
        // Two threads may ask at once: the driver may call the program, so none waits for the other.
        let asked = Arc::new(self.ask(device));
        self.physical.rcu(|known| {
            let mut all = known.to_vec();
            if find(known).is_none() {
                all.push((device.as_raw(), asked.clone()));
            }
            all
        });
        find(&self.physical.load()).unwrap_or(asked)
    }

    /// A structure is passed only to a driver that has it, by its version or by an extension that it lists: others
    /// would skip it, but layers below complain.
    fn ask(&self, device: vk::PhysicalDevice) -> PhysicalDevice {
        let mut properties = vk::PhysicalDeviceProperties::default();
        if let Some(get) = self.table.get_physical_device_properties {
            // SAFETY: a live physical device and a structure to fill.
            unsafe { get(device, &mut properties) };
        }
        let api_version = self.application.api_version.min(properties.api_version);

        let asks = self.get_features2().is_some() || self.get_properties2().is_some();
        let listed = asks.then(|| self.listed(device)).flatten();
        let known = Known { listed: listed.as_deref().unwrap_or_default(), api_version };
        let offers = self.ask_for_features(device, &known);
        let native_identifiers = offers.identifiers;
        let (driver, algorithm) = self.ask_for_properties(device, &known);
        let cache_control = match offers.cache_control {
            true if api_version >= vk::API_VERSION_1_3 => CacheControl::Core,
            true => CacheControl::Extension,
            false => CacheControl::None,
        };
        let wanted = match self.config.identifiers {
            Identifiers::Auto => !native_identifiers,
            Identifiers::Emulate => true,
            Identifiers::Off => false,
        };
        // A device of 1.3 must have the feature (contract 2.7): one that says no says so in two structures,
        // and is better left alone. Who cannot ask for features cannot switch any on.
        let emulates_cache_control = wanted
            && cache_control == CacheControl::None
            && properties.api_version < vk::API_VERSION_1_3
            && self.get_features2().is_some();
        let emulates = wanted && (cache_control != CacheControl::None || emulates_cache_control);
        let driver = if driver.as_raw() == 0 { driver_by_name(&properties) } else { driver };
        PhysicalDevice {
            properties,
            driver,
            native_identifiers,
            algorithm,
            emulates,
            lists_binaries: known.lists(pipeline_binary::NAME),
            listed,
            cache_control,
            emulates_cache_control,
        }
    }

    fn ask_for_features(&self, device: vk::PhysicalDevice, known: &Known<'_>) -> OffersOfDriver {
        let mut identifiers = vk::PhysicalDeviceShaderModuleIdentifierFeaturesEXT::default();
        let mut control = vk::PhysicalDevicePipelineCreationCacheControlFeatures::default();
        if let Some(get) = self.get_features2() {
            let mut chain = vk::PhysicalDeviceFeatures2::default();
            if known.lists(ash::ext::shader_module_identifier::NAME) {
                chain = chain.push_next(&mut identifiers);
            }
            if known.has(ash::ext::pipeline_creation_cache_control::NAME, vk::API_VERSION_1_3) {
                chain = chain.push_next(&mut control);
            }
            if !chain.p_next.is_null() {
                // SAFETY: a live physical device and a chain of output structures.
                unsafe { get(device, &mut chain) };
            }
        }
        OffersOfDriver {
            identifiers: identifiers.shader_module_identifier != 0,
            cache_control: control.pipeline_creation_cache_control != 0,
        }
    }

    fn ask_for_properties(
        &self,
        device: vk::PhysicalDevice,
        known: &Known<'_>,
    ) -> (vk::DriverId, [u8; vk::UUID_SIZE]) {
        let mut driver = vk::PhysicalDeviceDriverProperties::default();
        let mut algorithm = vk::PhysicalDeviceShaderModuleIdentifierPropertiesEXT::default();
        if let Some(get) = self.get_properties2() {
            let mut chain = vk::PhysicalDeviceProperties2::default();
            if known.has(ash::khr::driver_properties::NAME, vk::API_VERSION_1_2) {
                chain = chain.push_next(&mut driver);
            }
            if known.lists(ash::ext::shader_module_identifier::NAME) {
                chain = chain.push_next(&mut algorithm);
            }
            if !chain.p_next.is_null() {
                // SAFETY: a live physical device, and a chain of structures that the driver knows.
                unsafe { get(device, &mut chain) };
            }
        }
        (driver.driver_id, algorithm.shader_module_identifier_algorithm_uuid)
    }

    /// Whether the driver can be told at vkCreateDevice to do without its own cache
    /// (pipelineBinaryInternalCacheControl). Asked for only where that is wanted: validation layers that are older than
    /// the extension warn of its structures.
    pub fn controls_internal_cache(&self, device: vk::PhysicalDevice, known: &PhysicalDevice) -> bool {
        let api_version = self.application.api_version.min(known.properties.api_version);
        // VK_KHR_maintenance5, which the extension needs, needs 1.3.
        if !known.lists_binaries || api_version < vk::API_VERSION_1_3 {
            return false;
        }
        let Some(get) = self.get_properties2() else { return false };
        let mut of_binaries = pipeline_binary::Properties::default();
        let mut chain = vk::PhysicalDeviceProperties2 {
            p_next: (&raw mut of_binaries).cast(),
            ..vk::PhysicalDeviceProperties2::default()
        };
        // SAFETY: a live physical device, and a structure of an extension that it lists.
        unsafe { get(device, &mut chain) };
        of_binaries.internal_cache_control != 0
    }

    /// Which binaries of shader objects a physical device that lists the extension takes.
    pub fn shader_binaries(&self, device: vk::PhysicalDevice) -> Option<ShaderBinaries> {
        let get = self.get_properties2()?;
        let mut of_shaders = vk::PhysicalDeviceShaderObjectPropertiesEXT::default();
        let mut chain = vk::PhysicalDeviceProperties2::default().push_next(&mut of_shaders);
        // SAFETY: a live physical device, and a structure of an extension that it lists.
        unsafe { get(device, &mut chain) };
        let uuid = of_shaders.shader_binary_uuid;
        // A layer below may not have passed the structure on.
        let version = of_shaders.shader_binary_version;
        (uuid != [0; 16]).then_some(ShaderBinaries { uuid, version, options: self.config.driver_options })
    }

    /// What a physical device lists without the layer. Costs about 100 us, once: the loader reads the manifests of
    /// implicit layers again for it.
    fn listed(&self, device: vk::PhysicalDevice) -> Option<Vec<vk::ExtensionProperties>> {
        let enumerate = self.table.enumerate_device_extension_properties?;
        let mut list: Vec<vk::ExtensionProperties> = Vec::new();
        // More than any driver has, so that one call does; a list that grows meanwhile is asked for again.
        let mut count = 512;
        for _ in 0..3 {
            // The buffer is not initialized: 512 elements are 33 pages, of which most stay untouched.
            list.reserve_exact(count as usize);
            let room = count;
            // SAFETY: a live physical device, and room for as many as the count says.
            match unsafe { enumerate(device, std::ptr::null(), &mut count, list.as_mut_ptr()) } {
                vk::Result::SUCCESS => {
                    // SAFETY: there is room for `room`, and the driver has written as many as it says.
                    unsafe { list.set_len(count.min(room) as usize) };
                    list.shrink_to_fit();
                    return Some(list);
                }
                vk::Result::INCOMPLETE => count = room * 2,
                _ => return None,
            }
        }
        None
    }

    /// vkGetPhysicalDeviceFeatures2 under the name that this instance may call it by.
    fn get_features2(&self) -> Option<vk::PFN_vkGetPhysicalDeviceFeatures2> {
        let core = self.table.get_physical_device_features2;
        let core = core.filter(|_| self.application.api_version >= vk::API_VERSION_1_1);
        core.or(self.table.get_physical_device_features2_khr).filter(|_| self.properties2)
    }

    /// vkGetPhysicalDeviceProperties2 under the name that this instance may call it by.
    fn get_properties2(&self) -> Option<vk::PFN_vkGetPhysicalDeviceProperties2> {
        let core = self.table.get_physical_device_properties2;
        let core = core.filter(|_| self.application.api_version >= vk::API_VERSION_1_1);
        core.or(self.table.get_physical_device_properties2_khr).filter(|_| self.properties2)
    }
}
