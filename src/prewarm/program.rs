//! Program that the worker plays: the loader, an instance and a device.

use std::ffi::{CString, c_char, c_void};
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;

use ash::vk;

use super::configuration::Wanted;
use crate::background::objects::{DeviceTraits, OwnObjects};
use crate::state::devices::decided::IdentifierMode;
use crate::state::devices::device::Device;
use crate::state::devices::live_devices::{self, Entry};
use crate::state::process::dispatch::{DeviceTable, InstanceTable, device_resolver, instance_resolver};
use vkstash_recipe::application::Application;
use vkstash_recipe::device_configuration::DeviceConfiguration;
use vkstash_recipe::rebuild::Limits;

/// Why the worker could not create its instance or device.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// No libvulkan.so.1, or no such symbol in it.
    #[error("the Vulkan loader cannot be loaded")]
    NoLoader,
    /// A call before the first pipeline failed.
    #[error("{0} answers {1:?}")]
    Call(&'static str, vk::Result),
    /// The number of a physical device that is not there.
    #[error("there is no such device any more")]
    NoDevice,
    /// The loader has not enabled the layer.
    #[error("the layer is not enabled in the worker")]
    NoLayer,
}

/// The Vulkan loader.
pub struct Loader {
    get_instance_proc_addr: vk::PFN_vkGetInstanceProcAddr,
}

impl Loader {
    /// Loads it. It stays loaded.
    pub fn open() -> Result<Loader, ProgramError> {
        // SAFETY: both names end with a zero; the loader's initialisers have no preconditions; the symbol is the
        // command of that name.
        unsafe {
            let library = libc::dlopen(c"libvulkan.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            if library.is_null() {
                return Err(ProgramError::NoLoader);
            }
            let symbol = libc::dlsym(library, c"vkGetInstanceProcAddr".as_ptr());
            if symbol.is_null() {
                return Err(ProgramError::NoLoader);
            }
            let get_instance_proc_addr =
                std::mem::transmute::<*mut c_void, vk::PFN_vkGetInstanceProcAddr>(symbol);
            Ok(Loader { get_instance_proc_addr })
        }
    }

    /// An instance of a program that says this of itself. `properties2`: it asks for features by structures.
    pub fn instance(&self, application: &Application, properties2: bool) -> Result<Instance, ProgramError> {
        let static_fn = ash::StaticFn { get_instance_proc_addr: self.get_instance_proc_addr };
        let text = |bytes: &[u8]| CString::new(bytes).ok().filter(|text| !text.is_empty());
        let (name, engine) = (text(&application.name), text(&application.engine));
        let pointer = |text: &Option<CString>| text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
        let said = vk::ApplicationInfo {
            p_application_name: pointer(&name),
            application_version: application.version,
            p_engine_name: pointer(&engine),
            engine_version: application.engine_version,
            api_version: application.api_version,
            ..Default::default()
        };
        let before_1_1 = application.api_version < vk::API_VERSION_1_1;
        let by_extension: [*const c_char; 1] = [ash::khr::get_physical_device_properties2::NAME.as_ptr()];
        let names = if before_1_1 && properties2 { &by_extension[..] } else { &[] };
        let info = vk::InstanceCreateInfo::default().application_info(&said).enabled_extension_names(names);
        // SAFETY: the look-up is the loader's; the create info and what it points to live until the call is over.
        unsafe {
            let entry = ash::Entry::from_static_fn(static_fn);
            let raw = entry
                .create_instance(&info, None)
                .map_err(|result| ProgramError::Call("vkCreateInstance", result))?;
            let table = InstanceTable::load(instance_resolver(self.get_instance_proc_addr, raw.handle()));
            let get_features2 = if before_1_1 {
                table.get_physical_device_features2_khr.filter(|_| properties2)
            } else {
                table.get_physical_device_features2
            };
            Ok(Instance { raw, get_features2 })
        }
    }
}

/// A live instance.
pub struct Instance {
    raw: ash::Instance,
    get_features2: Option<vk::PFN_vkGetPhysicalDeviceFeatures2>,
}

impl Instance {
    /// Its physical devices.
    pub fn devices(&self) -> Result<Vec<(vk::PhysicalDevice, vk::PhysicalDeviceProperties)>, ProgramError> {
        // SAFETY: a live instance and its own physical devices.
        unsafe {
            let devices = self.raw.enumerate_physical_devices();
            let devices =
                devices.map_err(|result| ProgramError::Call("vkEnumeratePhysicalDevices", result))?;
            let with_properties = |device| (device, self.raw.get_physical_device_properties(device));
            Ok(devices.into_iter().map(with_properties).collect())
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: its devices were destroyed before it (`Program`), and nothing else refers to it.
        unsafe { self.raw.destroy_instance(None) };
    }
}

/// A device with everything that pipelines need, as the program had it.
pub struct Program {
    /// The layer's own view of the device. Dropped before the device is destroyed: the last reference joins threads.
    layer: ManuallyDrop<Arc<Device>>,
    /// The commands, as the loader gives them to programs: they begin in this layer.
    pub table: DeviceTable,
    /// The handle.
    pub handle: vk::Device,
    /// Layouts, render passes and modules of recipes.
    pub objects: OwnObjects,
    raw: ash::Device,
    // After the device.
    _instance: Instance,
}

impl Program {
    /// Makes the device number `index` as it was recorded.
    pub fn open(
        loader: &Loader,
        recorded: &DeviceConfiguration,
        index: usize,
    ) -> Result<Program, ProgramError> {
        let instance = loader.instance(&recorded.application, !recorded.structures.is_empty())?;
        let (physical, properties) =
            instance.devices()?.into_iter().nth(index).ok_or(ProgramError::NoDevice)?;
        let failed = |result| ProgramError::Call("vkCreateDevice", result);
        // SAFETY: a live instance, its own physical device, and create infos that live until the calls are over.
        let raw = unsafe {
            let mut wanted =
                Wanted::of(recorded, &instance.raw, instance.get_features2, physical).map_err(failed)?;
            let create = |info: &vk::DeviceCreateInfo<'_>| instance.raw.create_device(physical, info, None);
            let bare = wanted.needs_no_queue().then(|| wanted.create(false, create)).and_then(Result::ok);
            match bare {
                Some(device) => device,
                None => wanted.create(true, create).map_err(failed)?,
            }
        };
        let handle = raw.handle();
        // SAFETY: the device was just created, through the loader's look-up.
        unsafe {
            let Some(Entry::Active(layer)) = live_devices::entry(handle) else {
                raw.destroy_device(None);
                return Err(ProgramError::NoLayer);
            };
            let look_up = instance.raw.fp_v1_0().get_device_proc_addr;
            let table = DeviceTable::load(device_resolver(look_up, handle));
            let native = layer.decided.identifiers == IdentifierMode::Native;
            let traits = DeviceTraits {
                algorithm: native.then_some(layer.physical.algorithm),
                advanced_blend: layer.decided.advanced_blend(),
                limits: Limits::of(&properties.limits),
                immutable_samplers: true,
            };
            let objects = OwnObjects::new(handle, table, traits);
            Ok(Program { layer: ManuallyDrop::new(layer), table, handle, objects, raw, _instance: instance })
        }
    }

    /// The layer's own view of the device.
    pub fn layer(&self) -> &Device {
        &self.layer
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the reference is not used after this; the pipelines that were made on the device are destroyed
        // (`Pipelines` is dropped first), and so nothing uses the objects and the device any more.
        unsafe {
            ManuallyDrop::drop(&mut self.layer);
            self.objects.destroy();
            self.raw.destroy_device(None);
        }
    }
}
