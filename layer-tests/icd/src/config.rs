//! The driver's configuration: the JSON script, its defaults, and changes at run time.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::record;

/// The answer of vkGetPipelineCacheData.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum CacheData {
    /// Header and entries.
    Full,
    /// That of an empty cache.
    HeaderOnly,
    /// No data: the size is 0.
    Empty,
    /// VK_ERROR_OUT_OF_HOST_MEMORY.
    Error,
    /// VK_SUCCESS, and the size stays as the caller left it.
    SizeUntouched,
}

/// What happens to work that a program asks to defer.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Deferral {
    /// The work is done in the call.
    Never,
    /// The threads that join the operation do the work.
    Always,
    /// The work is deferred, fails with `deferral_error`, and gives no pipelines.
    Fails,
}

/// How a fault ends the process.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Death {
    /// abort().
    Abort,
    /// A write through a NULL pointer.
    Segv,
    /// SIGKILL, as a user sends it.
    Kill,
    /// exit(3), with exit handlers.
    Exit,
}

/// What vkGetShaderBinaryDataEXT gives.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum ShaderData {
    /// The binary.
    Full,
    /// No data: the size is 0.
    Empty,
    /// The size that it is asked for is too large; the data tells the true one.
    Shrinks,
    /// The size that it is asked for is too small, so the data is VK_INCOMPLETE.
    Grows,
    /// As `grows`, but with VK_SUCCESS: as much as there is room for, and the true size.
    GrowsUnsaid,
    /// Other bytes each time, which the driver takes.
    Changes,
}

/// What a shader object is made of.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum ShaderCode {
    /// SPIR-V.
    Spirv,
    /// A binary.
    Binary,
}

/// One scripted fault.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// The command to which it applies.
    pub command: String,
    /// The number of the call, from 1; every call if absent.
    pub call: Option<u64>,
    /// Only compiles of pipelines with a module whose code has this word.
    pub word: Option<u32>,
    /// Only shader objects that are made of this.
    pub code: Option<ShaderCode>,
    /// With `code`: only the shader at this place of its call, from 0.
    pub shader: Option<usize>,
    /// The result to return without doing anything; outputs become NULL.
    pub result: Option<i32>,
    /// Ends the process.
    pub die: Option<Death>,
    /// The file to make before anything else, which says that the driver has the call.
    pub touch: Option<PathBuf>,
    /// Milliseconds to sleep first.
    pub hang_ms: Option<u64>,
    /// The file for which to wait first.
    pub until: Option<PathBuf>,
    /// Milliseconds of processor time to spend first.
    pub burn_ms: Option<u64>,
}

/// What messengers and report callbacks are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Messages {
    /// Nothing.
    Never,
    /// That pipelines are made.
    Making,
    /// That a command has begun, each.
    All,
}

/// The script.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// "major.minor" or "major.minor.patch".
    pub api_version: String,
    /// driverVersion, in the driver's own packing.
    pub driver_version: u32,
    /// vendorID, a PCI vendor.
    pub vendor_id: u32,
    /// PCI device of the first physical device; the others count up.
    pub device_id: u32,
    /// 32 hex digits.
    pub pipeline_cache_uuid: String,
    /// VkDriverId; 0 is no existing driver.
    pub driver_id: u32,
    /// deviceName.
    pub device_name: String,
    /// Number of physical devices.
    pub physical_devices: u32,
    /// Device extensions beside those that the other fields imply.
    pub extensions: Vec<String>,
    /// Device extensions to leave out, and with them their features.
    pub without: Vec<String>,
    /// VK_KHR_pipeline_binary.
    pub pipeline_binary: bool,
    /// VK_EXT_shader_object.
    pub shader_object: bool,
    /// shaderBinaryUUID: 32 hex digits.
    pub shader_binary_uuid: String,
    /// shaderBinaryVersion.
    pub shader_binary_version: u32,
    /// The answer of vkGetShaderBinaryDataEXT.
    pub shader_data: ShaderData,
    /// What happens to deferred work.
    pub deferral: Deferral,
    /// The result of deferred work that fails; default: VK_ERROR_OUT_OF_HOST_MEMORY.
    pub deferral_error: i32,
    /// Milliseconds that a join waits after it has completed an operation.
    pub join_lingers_ms: u64,
    /// Milliseconds that a call waits after its work was deferred.
    pub defer_lingers_ms: u64,
    /// Whether caches hold pipeline libraries.
    pub caches_libraries: bool,
    /// Whether caches hold pipelines that are linked without link time optimization.
    pub caches_fast_links: bool,
    /// Whether pipelines from caches answer queries for statistics and internal representations as compiled ones do.
    pub caches_statistics: bool,
    /// Whether the handle of a destroyed object is used for the next new one.
    pub reuse_handles: bool,
    /// Whether equal modules, samplers and layouts of a device share a handle.
    pub equal_handles: bool,
    /// VK_EXT_shader_module_identifier.
    pub identifiers: bool,
    /// Size of identifiers in bytes: 8 to 32.
    pub identifier_size: usize,
    /// pipelineCreationCacheControl and its extension.
    pub cache_control: bool,
    /// VK_EXT_pipeline_creation_feedback; false: feedback is not written either.
    pub creation_feedback: bool,
    /// VK_KHR_maintenance5 and with it 64-bit flags.
    #[serde(alias = "flags2")]
    pub maintenance5: bool,
    /// The answer of vkGetPipelineCacheData.
    pub cache_data: CacheData,
    /// vkGetPipelineCacheData writes all data into a buffer of 36 bytes or more in which no entry fits.
    pub overruns: bool,
    /// When the size of a cache's data was told, and another call is using the cache, an entry comes in.
    pub grows_in_use: bool,
    /// Cache data has the number of entries behind its header: that of an empty cache has 36 bytes.
    pub counts_entries: bool,
    /// Cache data has a few bytes more once a pipeline was found in the cache.
    pub pads_used: bool,
    /// Creation calls that forbid compiling are answered with VK_PIPELINE_COMPILE_REQUIRED, whatever the driver has.
    pub denies: bool,
    /// A shader object points to the binary that it was made of for as long as it lives.
    pub keeps_shader_code: bool,
    /// Size in bytes that the driver reports for a cache or the binary of a shader object, instead of the true one.
    pub claims_bytes: Option<u64>,
    /// Microseconds that a compile takes.
    pub compile_us: u64,
    /// Bytes of a pipeline's code; default: 256 to 1279, by its key. As many more does the binary of a shader object
    /// have.
    pub code_bytes: Option<usize>,
    /// What messengers and report callbacks are told, on the calling thread.
    pub messages: Messages,
    /// Simulates a driver's own disk cache.
    pub disk_cache: bool,
    /// Folder that keeps this cache after the process.
    pub disk_cache_dir: Option<PathBuf>,
    /// Microseconds that a look into it takes.
    pub disk_cache_us: u64,
    /// Microseconds that reading an entry of it takes where a pipeline cache is passed.
    pub disk_entry_beside_us: u64,
    /// Microseconds that finding a pipeline in a pipeline cache takes.
    pub cache_hit_us: u64,
    /// Caches have an entry for each shader, and none for pipelines: a cache that has met all shaders of a pipeline
    /// has the pipeline.
    pub shader_entries: bool,
    /// One thread at a time creates pipelines.
    pub serialises: bool,
    /// Microseconds that the driver needs to write an entry there that a cache was loaded with; vkDestroyInstance waits
    /// for that.
    pub disk_cache_write_us: u64,
    /// Whether links of graphics pipeline libraries without optimisation compile nothing.
    pub fast_linking: bool,
    /// Whether initial data of pipeline caches is ignored.
    pub ignore_blobs: bool,
    /// Scripted faults.
    pub faults: Vec<Fault>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            api_version: "1.3".into(),
            driver_version: 1,
            vendor_id: 0x7E57,
            device_id: 1,
            pipeline_cache_uuid: "766b73746173682d746573742d696364".into(),
            driver_id: 0,
            device_name: "vkstash test driver".into(),
            physical_devices: 1,
            extensions: Vec::new(),
            without: Vec::new(),
            pipeline_binary: false,
            shader_object: false,
            shader_binary_uuid: "766b73746173682d736861646572732d".into(),
            shader_binary_version: 1,
            shader_data: ShaderData::Full,
            deferral: Deferral::Never,
            deferral_error: ash::vk::Result::ERROR_OUT_OF_HOST_MEMORY.as_raw(),
            join_lingers_ms: 0,
            defer_lingers_ms: 0,
            caches_libraries: true,
            caches_fast_links: false,
            caches_statistics: true,
            reuse_handles: false,
            equal_handles: false,
            identifiers: false,
            identifier_size: 32,
            cache_control: true,
            creation_feedback: true,
            maintenance5: true,
            cache_data: CacheData::Full,
            overruns: true,
            grows_in_use: false,
            counts_entries: true,
            pads_used: false,
            denies: false,
            keeps_shader_code: true,
            claims_bytes: None,
            compile_us: 0,
            code_bytes: None,
            messages: Messages::Never,
            disk_cache: false,
            disk_cache_dir: None,
            disk_cache_us: 0,
            disk_entry_beside_us: 0,
            cache_hit_us: 0,
            shader_entries: false,
            serialises: false,
            disk_cache_write_us: 0,
            fast_linking: true,
            ignore_blobs: false,
            faults: Vec::new(),
        }
    }
}

impl Config {
    /// The version in Vulkan's packing; 1.0 if it cannot be parsed.
    pub fn api(&self) -> u32 {
        let mut parts = self.api_version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        let mut next = || parts.next().unwrap_or(0);
        let (major, minor, patch) = (next().max(1), next(), next());
        ash::vk::make_api_version(0, major, minor, patch)
    }

    /// The 16 bytes of pipelineCacheUUID; missing digits are zero.
    pub fn uuid(&self) -> [u8; 16] {
        bytes(&self.pipeline_cache_uuid)
    }

    /// The 16 bytes of shaderBinaryUUID; missing digits are zero.
    pub fn shader_uuid(&self) -> [u8; 16] {
        bytes(&self.shader_binary_uuid)
    }

    /// The reported size for `true_bytes` bytes.
    pub fn claimed(&self, true_bytes: usize) -> usize {
        self.claims_bytes.map_or(true_bytes, |claim| usize::try_from(claim).unwrap_or(usize::MAX))
    }

    /// Length of an identifier.
    pub fn identifier_bytes(&self) -> usize {
        self.identifier_size.clamp(1, 32)
    }
}

fn bytes(text: &str) -> [u8; 16] {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    std::array::from_fn(|i| {
        let digit = |at: usize| digits.get(at).copied().unwrap_or(0);
        digit(2 * i) << 4 | digit(2 * i + 1)
    })
}

struct Running {
    source: Option<String>,
    fields: Map<String, Value>,
    config: Arc<Config>,
}

static RUNNING: LazyLock<Mutex<Running>> = LazyLock::new(|| {
    Mutex::new(Running { source: None, fields: Map::new(), config: Arc::new(Config::default()) })
});

/// The current script.
pub fn current() -> Arc<Config> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner).config.clone()
}

/// Merges `text`'s fields into the script; a null field returns to its default. `is_command` says whether the driver
/// has the command that a fault names.
///
/// # Errors
/// An error in the text; the script stays as it was.
pub fn merge(text: &str, is_command: impl Fn(&str) -> bool) -> Result<(), String> {
    let Value::Object(changes) = serde_json::from_str(text).map_err(|error| error.to_string())? else {
        return Err("not a JSON object".into());
    };
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let resets_counts = changes.contains_key("faults");
    let mut fields = running.fields.clone();
    for (name, value) in changes {
        if value.is_null() {
            fields.remove(&name);
        } else {
            fields.insert(name, value);
        }
    }
    let config: Config =
        serde_json::from_value(Value::Object(fields.clone())).map_err(|error| error.to_string())?;
    if let Some(fault) = config.faults.iter().find(|fault| !is_command(&fault.command)) {
        return Err(format!("no command {}", fault.command));
    }
    running.fields = fields;
    running.config = Arc::new(config);
    drop(running);
    if resets_counts {
        record::reset_counts();
    }
    Ok(())
}

/// The script of this library alone: a file beside it with its name and the extension `.json`.
fn beside_the_library() -> Option<PathBuf> {
    let own: fn() -> Option<PathBuf> = beside_the_library;
    // SAFETY: dladdr gets the address of a function of this library, and fills the structure in; its string lives as
    // long as the library, and is copied before this function of it returns.
    let library = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(own as *const libc::c_void, &mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        PathBuf::from(OsStr::from_bytes(CStr::from_ptr(info.dli_fname).to_bytes()))
    };
    Some(library.with_extension("json")).filter(|path| path.exists())
}

/// Reads the script beside the library, or else VKSTASH_TEST_ICD, text or a path, and replaces the script if it changed
/// since the last time. Otherwise changes at run time stay. `is_command`: as for [`merge`].
///
/// # Errors
/// An error in the text.
pub fn load(is_command: impl Fn(&str) -> bool) -> Result<(), String> {
    let read =
        |path: &Path| std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    let text = match (beside_the_library(), std::env::var("VKSTASH_TEST_ICD")) {
        (Some(path), _) => read(&path)?,
        (None, Ok(value)) if value.trim_start().starts_with('{') => value,
        (None, Ok(value)) => read(Path::new(&value))?,
        (None, Err(_)) => return Ok(()),
    };
    {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        if running.source.as_ref() == Some(&text) {
            return Ok(());
        }
        running.source = Some(text.clone());
        running.fields = Map::new();
    }
    merge(&text, is_command)
}
