//! The environment of a child process: the driver, its disk cache, the layer.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::failure::Failure;
use crate::options::Driver;

/// Variables of the caller that would change what is measured. Removed on both sides of every pair.
const REMOVED: [&str; 29] = [
    "VKSTASH_BASE",
    "VKSTASH_ASK_FIRST",
    "VKSTASH_SERVED_WIDTH",
    "VKSTASH_BACKGROUND",
    "VKSTASH_BACKGROUND_WORKERS",
    "VKSTASH_FINISH",
    "VKSTASH_UPDATE",
    "VKSTASH_TOOL",
    "VKSTASH_TEST_ICD",
    "VKSTASH",
    "VKSTASH_DIR",
    "VKSTASH_REPORT",
    "VKSTASH_LOG",
    "VKSTASH_CONFIG",
    "VK_INSTANCE_LAYERS",
    "VK_LAYER_PATH",
    "VK_ADD_LAYER_PATH",
    "VK_IMPLICIT_LAYER_PATH",
    "VK_ADD_IMPLICIT_LAYER_PATH",
    "VK_LOADER_LAYERS_ENABLE",
    "VK_LOADER_LAYERS_DISABLE",
    "VK_LOADER_DEBUG",
    "MESA_SHADER_CACHE_DISABLE",
    "MESA_SHADER_CACHE_DIR",
    "MESA_SHADER_CACHE_MAX_SIZE",
    "__GL_SHADER_DISK_CACHE",
    "__GL_SHADER_DISK_CACHE_PATH",
    "RADV_DEBUG",
    "RADV_PERFTEST",
];

/// The environment of one child process.
#[derive(Clone, Copy)]
pub(crate) struct Environment<'a> {
    /// The driver.
    pub(crate) driver: Driver,
    /// The manifest of another version of the driver.
    pub(crate) manifest: Option<&'a Path>,
    /// Folder of the driver's disk cache; None: switched off.
    pub(crate) disk: Option<&'a Path>,
    /// Folder of the stash; None: no layer.
    pub(crate) stash: Option<&'a Path>,
    /// Whether background work may run. Benchmarks of what a call costs do without it: workers make some of the
    /// pipelines before the program asks, more or fewer in each run, and calls for these cost less.
    pub(crate) background: bool,
    /// Whether the table of drivers says who is asked first. Where not, the stash is.
    pub(crate) usual_order: bool,
    /// Whether the layer has the tool record what a program leaves at its end. The run is over when the tool has ended;
    /// its time counts for nobody.
    pub(crate) finish: bool,
    /// Whether the layer has the tool compile again while the program runs, after an update. The tool ends with the
    /// program, and the run with the tool.
    pub(crate) update: bool,
    /// VKSTASH_SERVED_WIDTH; None: not set.
    pub(crate) width: Option<u32>,
}

impl<'a> Environment<'a> {
    /// No layer, no disk cache.
    pub(crate) fn bare(driver: Driver) -> Self {
        Self {
            driver,
            manifest: None,
            disk: None,
            stash: None,
            background: false,
            usual_order: false,
            finish: false,
            update: false,
            width: None,
        }
    }

    /// This environment with the layer, whose stash is in `folder`.
    pub(crate) fn with_stash(self, folder: &'a Path) -> Self {
        Self { stash: Some(folder), ..self }
    }

    /// This environment with the driver that this manifest names.
    pub(crate) fn with_manifest(self, manifest: &'a Path) -> Self {
        Self { manifest: Some(manifest), ..self }
    }

    /// This environment with background work.
    pub(crate) fn with_background(self) -> Self {
        Self { background: true, ..self }
    }

    /// This environment without background work.
    pub(crate) fn without_background(self) -> Self {
        Self { background: false, ..self }
    }

    /// This environment with the driver's own disk cache, which is in `folder`.
    pub(crate) fn with_disk(self, folder: &'a Path) -> Self {
        Self { disk: Some(folder), ..self }
    }

    /// The test driver's script. With a disk cache it takes the times of NVIDIA's, whose disk is slow beside a cache
    /// (docs/evidence/measurements.md).
    fn script(&self) -> serde_json::Value {
        // Both sides should use the same extension, which the layer would otherwise offer alone.
        let mut script = json!({ "identifiers": true });
        if let Some(folder) = self.disk {
            script = json!({
                "identifiers": true,
                "driver_id": 4,
                "compile_us": 3000,
                "disk_cache": true,
                "disk_cache_dir": folder,
                "disk_entry_beside_us": 500,
                "shader_entries": true,
                "serialises": true,
            });
        }
        script
    }

    /// Sets the variables. The layer writes its report into `reports`.
    pub(crate) fn apply(&self, command: &mut Command, home: &Home, reports: &Path) {
        for name in REMOVED {
            command.env_remove(name);
        }
        match self.driver {
            Driver::Radv => {
                command.env("RADV_FORCE_FAMILY", "navi21");
                name_driver(command, "radeon");
            }
            Driver::Lavapipe => {
                command.env_remove("RADV_FORCE_FAMILY");
                name_driver(command, "lvp");
            }
            Driver::Gpu => {
                command.env_remove("RADV_FORCE_FAMILY");
            }
            Driver::Test => {
                command.env_remove("RADV_FORCE_FAMILY");
                name_manifest(command, &home.test_driver);
                command.env("VKSTASH_TEST_ICD", self.script().to_string());
            }
        }
        if let Some(manifest) = self.manifest {
            name_manifest(command, manifest);
        }
        match self.disk {
            Some(folder) => {
                command.env("MESA_SHADER_CACHE_DIR", folder);
                command.env("__GL_SHADER_DISK_CACHE", "1");
                command.env("__GL_SHADER_DISK_CACHE_PATH", folder);
                // Otherwise NVIDIA's driver trims the folder to its default size during the measurement.
                command.env("__GL_SHADER_DISK_CACHE_SKIP_CLEANUP", "1");
            }
            None => {
                command.env("MESA_SHADER_CACHE_DISABLE", "1");
                command.env("__GL_SHADER_DISK_CACHE", "0");
            }
        }
        // A manifest installed for this user must not load a second layer of the same name.
        command.env("XDG_DATA_HOME", &home.empty);
        // Mesa's device selection layer would run a search in every process.
        command.env("NODEVICE_SELECT", "1");
        if let Some(stash) = self.stash {
            command.env_remove("VKSTASH_DISABLE");
            command.env("VKSTASH", "1").env("VKSTASH_DIR", stash).env("VKSTASH_REPORT", reports);
            command.env("XDG_DATA_DIRS", &home.data_dirs);
            if let Some(width) = self.width {
                command.env("VKSTASH_SERVED_WIDTH", width.to_string());
            }
            if !self.background {
                command.env("VKSTASH_BACKGROUND_WORKERS", "0");
            }
            let switch = |is_on: bool| if is_on { "1" } else { "0" };
            command.env("VKSTASH_UPDATE", switch(self.update)).env("VKSTASH_FINISH", switch(self.finish));
            if !self.usual_order {
                command.env("VKSTASH_ASK_FIRST", "stash");
            }
        } else {
            command.env("VKSTASH_DISABLE", "1");
        }
    }
}

/// Names the driver to old and new loaders.
fn name_driver(command: &mut Command, name: &str) {
    name_manifest(command, &driver_manifest(name));
}

fn name_manifest(command: &mut Command, manifest: &Path) {
    command.env("VK_DRIVER_FILES", manifest).env("VK_ICD_FILENAMES", manifest);
}

/// The test driver's library beside this program.
fn test_driver() -> Result<PathBuf, Failure> {
    Ok(std::env::current_exe()?.with_file_name("libvkstash_test_icd.so"))
}

/// The manifest of an installed driver. Distributions name the file with or without the architecture.
pub(crate) fn driver_manifest(name: &str) -> PathBuf {
    let folder = Path::new("/usr/share/vulkan/icd.d");
    let with = folder.join(format!("{name}_icd.{}.json", std::env::consts::ARCH));
    let without = folder.join(format!("{name}_icd.json"));
    if with.exists() { with } else { without }
}

/// Why a driver cannot be used here.
pub(crate) fn check(driver: Driver) -> Result<(), Failure> {
    let name = match driver {
        Driver::Radv => "radeon",
        Driver::Lavapipe => "lvp",
        Driver::Gpu => return Ok(()),
        Driver::Test => {
            let library = test_driver()?;
            let missing = || format!("no driver: {} (cargo build --workspace)", library.display());
            return if library.exists() { Ok(()) } else { Err(missing().into()) };
        }
    };
    let manifest = driver_manifest(name);
    if manifest.exists() { Ok(()) } else { Err(format!("no driver: {}", manifest.display()).into()) }
}

/// The private folders of every child process.
pub(crate) struct Home {
    /// An empty folder.
    empty: PathBuf,
    /// XDG_DATA_DIRS, with the layer's manifest first. This way of loading an implicit layer works with every version
    /// of the loader (contract 1.3).
    data_dirs: OsString,
    /// The test driver's manifest.
    test_driver: PathBuf,
}

impl Home {
    /// Writes the manifest for `library` below `folder`.
    pub(crate) fn new(folder: &Path, library: Option<&Path>) -> Result<Self, Failure> {
        let empty = folder.join("empty");
        fs::create_dir_all(&empty)?;
        let share = folder.join("share");
        let layers = share.join("vulkan/implicit_layer.d");
        fs::create_dir_all(&layers)?;
        if let Some(library) = library {
            let manifest = json!({
                "file_format_version": "1.2.0",
                "layer": {
                    "name": "VK_LAYER_VKSTASH_pipeline_cache",
                    "type": "INSTANCE",
                    "library_path": library,
                    "api_version": "1.4.328",
                    "implementation_version": "1",
                    "description": "Persistent pipeline stash",
                    "enable_environment": { "VKSTASH": "1" },
                    "disable_environment": { "VKSTASH_DISABLE": "1" },
                },
            });
            fs::write(layers.join("vkstash.json"), serde_json::to_vec_pretty(&manifest)?)?;
        }
        let driver = folder.join("test_icd.json");
        let icd = json!({ "library_path": test_driver()?, "api_version": "1.4.305" });
        fs::write(&driver, serde_json::to_vec(&json!({ "file_format_version": "1.0.0", "ICD": icd }))?)?;
        let mut data_dirs = share.into_os_string();
        data_dirs.push(":");
        match std::env::var_os("XDG_DATA_DIRS") {
            Some(rest) if !rest.is_empty() => data_dirs.push(rest),
            _ => data_dirs.push("/usr/local/share:/usr/share"),
        }
        Ok(Self { empty, data_dirs, test_driver: driver })
    }
}
