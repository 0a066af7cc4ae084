//! The environment of a program: driver, layer, folders. It hides the tester's own Vulkan settings.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::{paths, skip};

/// The layer's name.
pub const LAYER: &str = "VK_LAYER_VKSTASH_pipeline_cache";
/// The Khronos validation layer's name.
pub const VALIDATION: &str = "VK_LAYER_KHRONOS_validation";

/// Names the manifest of [`Driver::Machine`]; without the variable its tests do not exist.
pub const MACHINE_DRIVER: &str = "VKSTASH_TEST_DRIVER";

const DRIVER_FOLDERS: [&str; 3] =
    ["/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d"];
const VALIDATION_MANIFESTS: [&str; 2] = [
    "/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json",
    "/usr/local/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json",
];

/// The driver below the layer.
#[derive(Clone, Debug, PartialEq)]
pub enum Driver {
    /// The programmable test driver with this configuration.
    Test(Value),
    /// RADV on its null device: a real compiler without a GPU.
    Radv,
    /// RADV on Mesa's fake render node, with memory types, images and queues that do nothing.
    RadvOnShim,
    /// Mesa's CPU driver.
    Lavapipe,
    /// The driver whose manifest VKSTASH_TEST_DRIVER names: for test suites on a machine with a GPU.
    Machine,
}

impl Driver {
    /// A short name for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Driver::Test(_) => "test driver",
            Driver::Radv => "RADV",
            Driver::RadvOnShim => "RADV on a fake node",
            Driver::Lavapipe => "lavapipe",
            Driver::Machine => "the machine's driver",
        }
    }

    /// The manifest of an installed driver; None for the test driver.
    fn manifest(&self) -> Result<Option<PathBuf>, String> {
        let prefix = match self {
            Driver::Test(_) => return paths::test_driver_library().map(|_| None),
            Driver::RadvOnShim if shim().is_none() => {
                return Err(format!("no {SHIM}: is mesa-drm-shim installed?"));
            }
            Driver::Radv | Driver::RadvOnShim => "radeon_icd",
            Driver::Lavapipe => "lvp_icd",
            Driver::Machine => {
                let named = std::env::var_os(MACHINE_DRIVER).ok_or_else(|| format!("no {MACHINE_DRIVER}"))?;
                let path = PathBuf::from(named);
                let canonical = path.canonicalize();
                return canonical
                    .map(Some)
                    .map_err(|error| format!("{MACHINE_DRIVER} names {}: {error}", path.display()));
            }
        };
        let mut found: Vec<PathBuf> = DRIVER_FOLDERS
            .iter()
            .filter_map(|folder| fs::read_dir(folder).ok())
            .flat_map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())))
            .filter(|path| path.extension() == Some(OsStr::new("json")))
            .filter(|path| {
                path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
            })
            // The manifest of a 32-bit driver may lie beside it.
            .filter(|path| !path.to_string_lossy().contains(".i686."))
            .collect();
        found.sort();
        let first = found.into_iter().next();
        first
            .map(Some)
            .ok_or_else(|| format!("no manifest {prefix}*.json: is mesa-vulkan-drivers installed?"))
    }
}

/// How the layer is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// The layer is not loaded.
    Off,
    /// The layer is loaded by an implicit manifest, enabled by VKSTASH=1, as users have it.
    Implicit,
    /// The layer is loaded by VK_INSTANCE_LAYERS, from an explicit manifest in VK_LAYER_PATH.
    Explicit,
    /// The layer is loaded by both manifests.
    Both,
    /// The layer is loaded by two explicit manifests with different names, the other one below all other layers.
    TwoNames,
}

/// The environment of a program.
#[derive(Clone, Debug)]
pub struct Env {
    driver: Driver,
    layer: Layer,
    folder: PathBuf,
    validation: bool,
    driver_cache: bool,
    file_size: Option<u64>,
    address_space: Option<u64>,
    open_files: Option<u64>,
    variables: BTreeMap<OsString, Option<OsString>>,
}

impl Env {
    /// The layer as users have it, over this driver, with a stash and a report folder below `folder`. The driver's
    /// own disk cache is off.
    pub fn new(driver: Driver, folder: &Path) -> Env {
        let env = Env {
            driver,
            layer: Layer::Implicit,
            folder: folder.to_path_buf(),
            validation: false,
            driver_cache: false,
            file_size: None,
            address_space: None,
            open_files: None,
            variables: BTreeMap::new(),
        };
        let (stash, report) = (env.folder.join("stash"), env.folder.join("report"));
        env.stash(stash).report(report)
    }

    /// Loads the layer in another way.
    pub fn layer(mut self, layer: Layer) -> Env {
        self.layer = layer;
        self
    }

    /// The environment without the layer.
    pub fn without_layer(self) -> Env {
        self.layer(Layer::Off)
    }

    /// Whether the layer is loaded.
    pub fn has_layer(&self) -> bool {
        self.layer != Layer::Off
    }

    /// Another stash folder.
    pub fn stash(self, folder: impl AsRef<OsStr>) -> Env {
        self.var("VKSTASH_DIR", folder)
    }

    /// Another report folder.
    pub fn report(self, folder: impl AsRef<OsStr>) -> Env {
        self.var("VKSTASH_REPORT", folder)
    }

    /// The driver's own disk cache on, in a private folder.
    pub fn driver_cache(mut self) -> Env {
        self.driver_cache = true;
        self
    }

    /// The Khronos validation layer, below ours.
    pub fn validation(mut self) -> Env {
        self.validation = true;
        self
    }

    /// Limits the size of every file, as a full disk would.
    pub fn file_size_limit(mut self, bytes: u64) -> Env {
        self.file_size = Some(bytes);
        self
    }

    /// Limits the address space, in bytes.
    pub fn address_space_limit(mut self, bytes: u64) -> Env {
        self.address_space = Some(bytes);
        self
    }

    /// Limits the number of open files.
    pub fn open_files_limit(mut self, files: u64) -> Env {
        self.open_files = Some(files);
        self
    }

    /// Sets a variable.
    pub fn var(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Env {
        self.variables.insert(name.as_ref().to_owned(), Some(value.as_ref().to_owned()));
        self
    }

    /// Removes a variable that this environment would set.
    pub fn without_var(mut self, name: impl AsRef<OsStr>) -> Env {
        self.variables.insert(name.as_ref().to_owned(), None);
        self
    }

    /// The driver.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// The value of a variable that this environment sets.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name))?.as_deref()
    }

    /// The stash folder.
    pub fn stash_folder(&self) -> PathBuf {
        self.get("VKSTASH_DIR").map(PathBuf::from).expect("every environment has a stash folder")
    }

    /// The user's home, in which a program keeps files of its own.
    pub fn home(&self) -> PathBuf {
        self.folder.join("home")
    }

    /// The report folder.
    pub fn report_folder(&self) -> PathBuf {
        self.get("VKSTASH_REPORT").map(PathBuf::from).expect("every environment has a report folder")
    }

    /// Writes the manifests and gives `command` this environment in place of the tester's own.
    pub fn apply(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os() {
            if leaks(&name) {
                command.env_remove(name);
            }
        }
        let home = self.home();
        fs::create_dir_all(&home).expect("a private home");
        for (name, folder) in [
            ("HOME", ""),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_DATA_HOME", "data"),
            ("XDG_CACHE_HOME", "cache"),
        ] {
            command.env(name, home.join(folder));
        }
        // However busy the machine is: the stash is open when a program asks for a pipeline, and complete when it has
        // ended.
        command.env("VKSTASH_OPEN_MS", "100000").env("VKSTASH_END_MS", "100000");
        // What tests count does not depend on how far workers have come; tests of workers switch them on.
        command.env("VKSTASH_BACKGROUND_WORKERS", "0");
        // Nor on the order that a driver has in the table of drivers; tests of that switch it on.
        command.env("VKSTASH_ASK_FIRST", "stash");
        // Nor is anything left behind; tests of the tool that the layer starts switch it on.
        command.env("VKSTASH_FINISH", "0").env("VKSTASH_UPDATE", "0");
        // Nor on how long anything takes on a busy machine.
        command.env("VKSTASH_TEST_UNHURRIED", "1");
        // Mesa's own layer asks the windowing system which device is preferred.
        command.env("NODEVICE_SELECT", "1");
        self.apply_driver(command);
        self.apply_layers(command);
        self.apply_limits(command);
        for (name, value) in &self.variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
    }

    fn apply_limits(&self, command: &mut Command) {
        let bytes = |limit: u64| libc::rlim_t::try_from(limit).unwrap_or(libc::RLIM_INFINITY);
        let (file_size, address_space) = (self.file_size.map(bytes), self.address_space.map(bytes));
        let open_files = self.open_files.map(bytes);
        // Without CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, permissions bind root as they bind other users, who may
        // not drop these. The right to read stays if nothing under test could be found without it.
        let dropped: &[libc::c_ulong] = if paths::are_private() { &[1] } else { &[1, 2] };
        let limit = move || {
            // SAFETY: only system calls, as required between fork and exec; the limit is a valid structure.
            unsafe {
                for &capability in dropped {
                    libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
                }
                if let Some(bytes) = file_size {
                    // A full disk gives an error, not a signal.
                    libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
                    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
                    libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit);
                    limit.rlim_cur = bytes;
                    libc::setrlimit(libc::RLIMIT_FSIZE, &limit);
                }
                if let Some(bytes) = address_space {
                    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
                    libc::setrlimit(libc::RLIMIT_AS, &limit);
                }
                if let Some(files) = open_files {
                    let limit = libc::rlimit { rlim_cur: files, rlim_max: files };
                    libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
                }
            }
            Ok(())
        };
        // SAFETY: the closure makes only system calls, which are async-signal-safe.
        unsafe { command.pre_exec(limit) };
    }

    fn apply_driver(&self, command: &mut Command) {
        let manifest = match (&self.driver, self.driver.manifest()) {
            (_, Err(reason)) => panic!("{}: {reason}", self.driver.name()),
            (_, Ok(Some(manifest))) => manifest,
            (_, Ok(None)) => {
                let library = paths::test_driver_library().expect("looked for just before");
                let manifest = self.folder.join("driver/test_icd.json");
                let api = json!({ "library_path": library, "api_version": "1.4.305" });
                // The loader does not read the script; the tool takes another one for another driver.
                let script = match &self.driver {
                    Driver::Test(script) => script,
                    _ => &Value::Null,
                };
                let text = json!({ "file_format_version": "1.0.0", "ICD": api, "script": script });
                write_json(&manifest, &text);
                manifest
            }
        };
        command.env("VK_DRIVER_FILES", &manifest).env("VK_ICD_FILENAMES", &manifest);
        if let Driver::Test(configuration) = &self.driver {
            command.env("VKSTASH_TEST_ICD", configuration.to_string());
        }
        if self.driver == Driver::Radv {
            command.env("RADV_FORCE_FAMILY", "navi21");
        }
        if let Some(shim) = shim().filter(|_| self.driver == Driver::RadvOnShim) {
            command.env("LD_PRELOAD", shim).env("AMDGPU_GPU_ID", "navi21");
        }
        if self.driver_cache {
            let cache = self.folder.join("driver-cache");
            fs::create_dir_all(&cache).expect("a private folder");
            command.env("MESA_SHADER_CACHE_DIR", &cache);
            command.env("__GL_SHADER_DISK_CACHE", "1").env("__GL_SHADER_DISK_CACHE_PATH", &cache);
        } else {
            command.env("MESA_SHADER_CACHE_DISABLE", "1").env("__GL_SHADER_DISK_CACHE", "0");
        }
    }

    fn apply_layers(&self, command: &mut Command) {
        let mut named = Vec::new();
        let mut path = Vec::new();
        if matches!(self.layer, Layer::Implicit | Layer::Both) {
            let data = self.folder.join("xdg");
            write_implicit_manifest(&data.join("vulkan/implicit_layer.d"));
            // In front of the default folders: the loader searches nothing else once the variable is set.
            let mut list = data.into_os_string();
            list.push(":/usr/local/share:/usr/share");
            command.env("XDG_DATA_DIRS", list).env("VKSTASH", "1");
        }
        if matches!(self.layer, Layer::Explicit | Layer::Both | Layer::TwoNames) {
            let folder = self.folder.join("explicit");
            let manifest = include_str!("../../manifest/VkLayer_vkstash.explicit.json.in");
            write_manifest(&folder.join("VkLayer_vkstash.json"), manifest);
            named.push(LAYER);
            path.push(folder);
        }
        if self.validation {
            // A folder of its own behind the layer's: loaders before 1.3.268 order layers by the folder they were
            // found in, newer ones by the list of names.
            let folder = self.folder.join("validation");
            fs::create_dir_all(&folder).expect("a private folder");
            let manifest = validation_manifest().expect("the validation layer is installed");
            fs::copy(manifest, folder.join("VkLayer_khronos_validation.json")).expect("a readable manifest");
            named.push(VALIDATION);
            path.push(folder);
        }
        if self.layer == Layer::TwoNames {
            let folder = self.folder.join("other");
            let manifest = include_str!("../../manifest/VkLayer_vkstash.explicit.json.in");
            write_manifest(&folder.join("VkLayer_vkstash.json"), &manifest.replace(LAYER, OTHER_NAME));
            named.push(OTHER_NAME);
            path.push(folder);
        }
        if !named.is_empty() {
            let path = std::env::join_paths(path).expect("no colon in a temporary folder");
            command.env("VK_LAYER_PATH", path).env("VK_INSTANCE_LAYERS", named.join(":"));
        }
    }
}

/// A second name of the layer.
const OTHER_NAME: &str = "VK_LAYER_VKSTASH_other";

const SHIM: &str = "libamdgpu_noop_drm_shim.so";

/// Mesa's fake render node (Debian's mesa-drm-shim), for programs of this architecture.
fn shim() -> Option<PathBuf> {
    let multiarch = format!(
        "/usr/lib/{}-linux-gnu",
        if cfg!(target_arch = "x86") { "i386" } else { std::env::consts::ARCH }
    );
    [multiarch.as_str(), "/usr/lib64", "/usr/lib"]
        .iter()
        .map(|folder| Path::new(folder).join(SHIM))
        .find(|path| path.exists())
}

/// Path of the Khronos validation layer's manifest, if it is installed.
pub fn validation_manifest() -> Option<&'static Path> {
    VALIDATION_MANIFESTS.iter().map(Path::new).find(|path| path.exists())
}

/// Whether this driver can be started here; the error says why not.
pub fn installed(driver: &Driver) -> Result<(), String> {
    driver.manifest().map(drop)
}

/// The manifest of an installed driver.
pub fn installed_manifest(driver: &Driver) -> Option<PathBuf> {
    driver.manifest().ok().flatten()
}

/// Puts the layer's implicit manifest into a folder.
pub fn write_implicit_manifest(folder: &Path) {
    let manifest = include_str!("../../manifest/VkLayer_vkstash.implicit.json.in");
    write_manifest(&folder.join("VkLayer_vkstash.json"), manifest);
}

/// Whether a variable of the tester's environment would change what a test sees.
fn leaks(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let kept = [
        paths::LAYER_VARIABLE,
        paths::TEST_DRIVER_VARIABLE,
        MACHINE_DRIVER,
        skip::REQUIRE_DRIVERS,
        skip::SKIPPED,
    ];
    let prefixes = ["VK_", "VKSTASH", "MESA", "RADV_", "LVP_", "LP_", "XDG_", "ENABLE_VK", "DISABLE_VK"];
    !kept.contains(&name) && prefixes.iter().any(|prefix| name.starts_with(prefix))
}

fn write_manifest(path: &Path, template: &str) {
    let library = paths::layer_library();
    let bits = if cfg!(target_pointer_width = "64") { "64" } else { "32" };
    let library = library.to_str().expect("a readable path");
    let text = template.replace("@LIBRARY_PATH@", library).replace("@LIBRARY_ARCH@", bits);
    write(path, &text);
}

fn write_json(path: &Path, value: &Value) {
    write(path, &value.to_string());
}

fn write(path: &Path, text: &str) {
    // A program that was started before may be about to read it.
    if fs::read(path).is_ok_and(|there| there == text.as_bytes()) {
        return;
    }
    fs::create_dir_all(path.parent().expect("a file has a folder")).expect("a private folder");
    fs::write(path, text).expect("a private file");
}
