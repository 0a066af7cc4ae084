//! The hidden command `vkstash doctor-probe`: asks the Vulkan loader and the drivers of this machine what they offer,
//! and prints one line of JSON. It is a process of its own because a driver may crash or hang, and because the
//! environment of a process decides which layers its loader loads.

use std::ffi::{CStr, CString, c_char};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use ash::vk;
use serde::{Deserialize, Serialize};

use crate::system::start;

/// The hidden command of this tool that asks.
pub(crate) const COMMAND: &str = "doctor-probe";

/// A driver that has not answered by then hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProbeError {
    #[error("it cannot be started: {0}")]
    Start(#[from] io::Error),
    #[error("it did not answer within {} seconds", .0.as_secs())]
    Hangs(Duration),
    #[error("it ended with {0} and without an answer")]
    Ended(ExitStatus),
}

/// What the loader and the drivers answered.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// The loader's version of Vulkan. None: there is no loader that can be loaded.
    pub(crate) loader: Option<u32>,
    /// What failed, if anything did.
    pub(crate) failed: Option<String>,
    /// The loader has loaded the layer library that was named.
    pub(crate) has_layer: bool,
    pub(crate) devices: Vec<Device>,
}

/// A physical device, as its driver describes it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) driver: String,
    pub(crate) driver_id: i32,
    pub(crate) driver_version: u32,
    pub(crate) vendor_id: u32,
    pub(crate) device_id: u32,
    pub(crate) pipeline_cache_uuid: [u8; 16],
    pub(crate) version: u32,
    /// VK_EXT_shader_module_identifier.
    pub(crate) identifiers: bool,
    /// VK_EXT_graphics_pipeline_library.
    pub(crate) libraries: bool,
    /// VK_EXT_pipeline_creation_cache_control, or Vulkan 1.3: a cache can be asked without a compile.
    pub(crate) cache_control: bool,
}

/// Starts the process that asks, which looks for this layer, in an environment that `prepare` changes, and waits for
/// its answer.
pub(crate) fn ask(
    layer: Option<&Path>,
    patience: Duration,
    prepare: impl FnOnce(&mut Command),
) -> Result<Answer, ProbeError> {
    let mut command = Command::new(start::executable()?);
    command.arg(COMMAND).args(layer);
    // The process creates no pipeline, and nothing is to remember that it ran.
    command.env("VKSTASH_BACKGROUND", "disabled").env_remove("VKSTASH_REPORT").env_remove("VKSTASH_TRACE");
    prepare(&mut command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let die_with_parent = || {
        // SAFETY: the system call takes numbers.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        Ok(())
    };
    // SAFETY: the closure runs between fork and exec, and makes one async-signal-safe system call. A driver that hangs
    // does not notice that nobody waits any more.
    unsafe { command.pre_exec(die_with_parent) };
    let mut child = command.spawn()?;
    let status = wait(&mut child, patience)?;
    // An answer is shorter than what a pipe holds, so that the process never waited for its reader.
    let mut text = String::new();
    if let Some(mut output) = child.stdout.take().filter(|_| status.signal().is_none()) {
        let _ = output.read_to_string(&mut text);
    }
    serde_json::from_str(&text).map_err(|_| ProbeError::Ended(status))
}

fn wait(child: &mut Child, patience: Duration) -> Result<ExitStatus, ProbeError> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if began.elapsed() > patience {
            let _ = child.kill();
            let _ = child.wait();
            return Err(ProbeError::Hangs(patience));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn main(layer: Option<&Path>) -> ExitCode {
    match print(layer) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            crate::term::output::eprint_line(&error);
            ExitCode::FAILURE
        }
    }
}

fn print(layer: Option<&Path>) -> io::Result<()> {
    let mut output = File::from(vkstash_worker::output_for_answers()?);
    let mut answer = Answer::default();
    answer.failed = look(&mut answer, layer).err();
    writeln!(output, "{}", serde_json::to_string(&answer)?)
}

fn look(answer: &mut Answer, layer: Option<&Path>) -> Result<(), String> {
    let entry = load().ok_or("libvulkan.so.1 cannot be loaded")?;
    // SAFETY: the entry's function is the loader's, which stays loaded; the call takes no other argument.
    let version = unsafe { entry.try_enumerate_instance_version() };
    let version = version.map_err(|error| error.to_string())?.unwrap_or(vk::API_VERSION_1_0);
    answer.loader = Some(version);
    let application = vk::ApplicationInfo::default().application_name(c"vkstash doctor").api_version(version);
    let create_info = vk::InstanceCreateInfo::default().application_info(&application);
    // SAFETY: the structures live during the call, and name no layers and no extensions.
    let instance = unsafe { entry.create_instance(&create_info, None) };
    let instance = instance.map_err(|error| format!("vkCreateInstance: {error}"))?;
    answer.has_layer = layer.is_some_and(is_loaded);
    // SAFETY: the instance was created above, and is destroyed below only.
    let devices = unsafe { instance.enumerate_physical_devices() };
    let devices = devices.map_err(|error| format!("vkEnumeratePhysicalDevices: {error}"));
    for device in devices.iter().flatten() {
        answer.devices.push(describe(&instance, *device));
    }
    // SAFETY: nothing that was made of the instance is left, and no other thread knows it.
    unsafe { instance.destroy_instance(None) };
    devices.map(|_| ())
}

/// The loader's entry points. The loader is never unloaded.
fn load() -> Option<ash::Entry> {
    // SAFETY: both names end with a zero; the loader's initialisers have no preconditions, and the specification gives
    // the function this type.
    unsafe {
        let handle = libc::dlopen(c"libvulkan.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        if handle.is_null() {
            return None;
        }
        let symbol = libc::dlsym(handle, c"vkGetInstanceProcAddr".as_ptr());
        if symbol.is_null() {
            return None;
        }
        let get_instance_proc_addr =
            std::mem::transmute::<*mut libc::c_void, vk::PFN_vkGetInstanceProcAddr>(symbol);
        Some(ash::Entry::from_static_fn(ash::StaticFn { get_instance_proc_addr }))
    }
}

/// Whether this library, whatever its path was, is in the process.
fn is_loaded(library: &Path) -> bool {
    let Ok(path) = CString::new(library.as_os_str().as_bytes()) else { return false };
    // SAFETY: the path ends with a zero. With RTLD_NOLOAD nothing is loaded and no initialiser runs.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    !handle.is_null()
}

fn describe(instance: &ash::Instance, device: vk::PhysicalDevice) -> Device {
    // SAFETY: the device is of this live instance.
    let properties = unsafe { instance.get_physical_device_properties(device) };
    // SAFETY: the physical device is of this live instance, and no layer is named.
    let extensions = unsafe { instance.enumerate_device_extension_properties(device) }.unwrap_or_default();
    let has = |name: &CStr| extensions.iter().any(|found| found.extension_name_as_c_str() == Ok(name));
    let is_at_least = |version| properties.api_version >= version;
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    let has_properties2 = is_at_least(vk::API_VERSION_1_1);
    if is_at_least(vk::API_VERSION_1_2) || has_properties2 && has(ash::khr::driver_properties::NAME) {
        let mut chain = vk::PhysicalDeviceProperties2::default().push_next(&mut driver);
        // SAFETY: the device is of this live instance and of Vulkan 1.1, and knows the structure in the chain.
        unsafe { instance.get_physical_device_properties2(device, &mut chain) };
    }
    Device {
        name: text(&properties.device_name),
        driver: [text(&driver.driver_name), text(&driver.driver_info)].join(" ").trim().to_owned(),
        driver_id: driver.driver_id.as_raw(),
        driver_version: properties.driver_version,
        vendor_id: properties.vendor_id,
        device_id: properties.device_id,
        pipeline_cache_uuid: properties.pipeline_cache_uuid,
        version: properties.api_version,
        identifiers: has(ash::ext::shader_module_identifier::NAME),
        libraries: has(ash::ext::graphics_pipeline_library::NAME),
        cache_control: is_at_least(vk::API_VERSION_1_3)
            || has(ash::ext::pipeline_creation_cache_control::NAME),
    }
}

/// The text of an array that a zero ends.
fn text(array: &[c_char]) -> String {
    let bytes: Vec<u8> = array.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
