//! A small Vulkan client that keeps every result.
//!
//! - [`spirv`] modules, [`shaders`] those of the rarer stages
//! - [`graphics`] a plain graphics pipeline, [`rays`] stages and groups for ray tracing
//! - [`binaries`] VK_KHR_pipeline_binary
//! - [`shader_objects`] VK_EXT_shader_object
//! - [`allocator`] allocation callbacks
//! - [`core_features`] features by number
//! - [`executables`] what a driver says about a pipeline's code
//! - [`features`] features that real shaders need
//! - [`device`] a device and its objects, destroyed with it
//!
//! Creation calls use function pointers: ash's wrappers turn VK_PIPELINE_COMPILE_REQUIRED into an error, and lose
//! which pipelines of a batch were created (contract 3.1).

pub mod allocator;
pub mod binaries;
pub mod core_features;
pub mod device;
pub mod executables;
pub mod features;
pub mod graphics;
pub mod rays;
pub mod shader_objects;
pub mod shaders;
pub mod spirv;

use std::ffi::{CStr, CString, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use ash::{Entry, ext, vk};

pub use core_features::CoreFeatures;
pub use device::{Device, DeviceOptions};

/// The extension that the layer emulates.
pub const IDENTIFIER_EXTENSION: &CStr = ext::shader_module_identifier::NAME;

/// How an instance is created.
#[derive(Clone, Debug)]
pub struct InstanceOptions {
    /// apiVersion.
    pub api_version: u32,
    /// pApplicationName.
    pub application: String,
    /// Extensions.
    pub extensions: Vec<&'static CStr>,
    /// Collect the validation layer's messages; needs the layer.
    pub messages: bool,
}

impl Default for InstanceOptions {
    fn default() -> InstanceOptions {
        InstanceOptions {
            api_version: vk::API_VERSION_1_3,
            application: "vkstash-tests".to_owned(),
            extensions: Vec::new(),
            messages: false,
        }
    }
}

/// Message ids, in the order of arrival.
type Messages = Mutex<Vec<String>>;

/// An instance, made through the loader.
pub struct Instance {
    /// Entry points.
    pub entry: Entry,
    /// The instance.
    pub raw: ash::Instance,
    /// The apiVersion that the instance was created with.
    pub api_version: u32,
    messenger: Option<(ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    // Boxed because the messenger holds its address.
    messages: Box<Messages>,
}

impl Instance {
    /// Opens the loader and creates an instance.
    pub fn new(options: &InstanceOptions) -> Result<Arc<Instance>, vk::Result> {
        Instance::with_allocator(options, None)
    }

    /// [`Instance::new`] with allocation callbacks. The instance is never destroyed, because that would need the
    /// callbacks again.
    pub fn with_allocator(
        options: &InstanceOptions,
        allocator: Option<&vk::AllocationCallbacks<'_>>,
    ) -> Result<Arc<Instance>, vk::Result> {
        // SAFETY: libvulkan is the system's own loader; its initialisation has no preconditions.
        let entry = unsafe { Entry::load() }.expect("the Vulkan loader is installed");
        let name = CString::new(options.application.as_str()).expect("no NUL in a name");
        let application =
            vk::ApplicationInfo::default().application_name(&name).api_version(options.api_version);
        let mut extensions: Vec<_> = options.extensions.iter().map(|name| name.as_ptr()).collect();
        if options.messages {
            extensions.push(ext::debug_utils::NAME.as_ptr());
        }
        let messages: Box<Messages> = Box::default();
        let mut messenger = messenger(&messages);
        let mut info = vk::InstanceCreateInfo::default()
            .application_info(&application)
            .enabled_extension_names(&extensions);
        if options.messages {
            info = info.push_next(&mut messenger);
        }
        // SAFETY: a valid create info.
        let raw = unsafe { entry.create_instance(&info, allocator) }?;
        let messenger = options.messages.then(|| {
            let debug = ext::debug_utils::Instance::new(&entry, &raw);
            messenger.p_next = std::ptr::null();
            // SAFETY: a live instance with the extension; the list that the messenger points to lives as long as the
            // instance.
            let handle = unsafe { debug.create_debug_utils_messenger(&messenger, None) };
            (debug, handle.expect("a messenger"))
        });
        let api_version = options.api_version;
        Ok(Arc::new(Instance { entry, raw, api_version, messenger, messages }))
    }

    /// Every physical device.
    pub fn physical_devices(&self) -> Vec<vk::PhysicalDevice> {
        // SAFETY: a live instance.
        unsafe { self.raw.enumerate_physical_devices() }.unwrap_or_default()
    }

    /// The first physical device.
    pub fn physical_device(&self) -> vk::PhysicalDevice {
        *self.physical_devices().first().expect("a physical device")
    }

    /// Names of a device's extensions.
    pub fn device_extensions(&self, physical: vk::PhysicalDevice) -> Vec<CString> {
        // SAFETY: a live physical device.
        let list = unsafe { self.raw.enumerate_device_extension_properties(physical) };
        let name = |properties: &vk::ExtensionProperties| {
            properties.extension_name_as_c_str().expect("a NUL-terminated name").to_owned()
        };
        list.expect("a list of extensions").iter().map(name).collect()
    }

    /// Whether a device has an extension.
    pub fn has(&self, physical: vk::PhysicalDevice, extension: &CStr) -> bool {
        self.device_extensions(physical).iter().any(|name| name.as_c_str() == extension)
    }

    /// A device's core properties.
    pub fn properties(&self, physical: vk::PhysicalDevice) -> vk::PhysicalDeviceProperties {
        // SAFETY: a live physical device.
        unsafe { self.raw.get_physical_device_properties(physical) }
    }

    /// The identifier extension's feature and algorithm UUID, as vkGetPhysicalDevice*2 tell them.
    pub fn identifier_support(&self, physical: vk::PhysicalDevice) -> (bool, [u8; 16]) {
        let mut feature = vk::PhysicalDeviceShaderModuleIdentifierFeaturesEXT::default();
        let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut feature);
        let mut property = vk::PhysicalDeviceShaderModuleIdentifierPropertiesEXT::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut property);
        // SAFETY: a live physical device of an instance of 1.1 or later, and valid chains.
        unsafe {
            self.raw.get_physical_device_features2(physical, &mut features);
            self.raw.get_physical_device_properties2(physical, &mut properties);
        }
        (feature.shader_module_identifier != 0, property.shader_module_identifier_algorithm_uuid)
    }

    /// The ids of all messages so far, sorted, with repetitions.
    pub fn messages(&self) -> Vec<String> {
        let mut list = self.messages.lock().unwrap_or_else(PoisonError::into_inner).clone();
        list.sort();
        list
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: each device holds a reference to its instance, so no device is left.
        unsafe {
            if let Some((debug, messenger)) = &self.messenger {
                debug.destroy_debug_utils_messenger(*messenger, None);
            }
            self.raw.destroy_instance(None);
        }
    }
}

fn messenger(messages: &Messages) -> vk::DebugUtilsMessengerCreateInfoEXT<'static> {
    vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(
            vk::DebugUtilsMessageSeverityFlagsEXT::ERROR | vk::DebugUtilsMessageSeverityFlagsEXT::WARNING,
        )
        .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION)
        .pfn_user_callback(Some(collect))
        .user_data(std::ptr::from_ref(messages).cast_mut().cast())
}

unsafe extern "system" fn collect(
    _: vk::DebugUtilsMessageSeverityFlagsEXT,
    _: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    messages: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: the user data is the instance's list, and the callback data is valid during this call.
    unsafe {
        let messages = &*messages.cast::<Messages>();
        let id = match (*data).message_id_name_as_c_str() {
            Some(id) => id.to_string_lossy().into_owned(),
            None => (*data).message_id_number.to_string(),
        };
        messages.lock().unwrap_or_else(PoisonError::into_inner).push(id);
    }
    vk::FALSE
}
