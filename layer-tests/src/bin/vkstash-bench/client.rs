//! Runs the client as child processes: with and without the layer, cold and warm.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use VkLayer_vkstash::stats::RunReport;
use VkLayer_vkstash::store::runs;
use serde::Deserialize;
use tempfile::TempDir;

/// A driver and what is set for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// RADV without a GPU.
    RadvNull,
    /// Mesa's CPU driver.
    Lavapipe,
    /// Whatever the machine has.
    Gpu,
}

/// The driver's own disk cache.
#[derive(Clone, Copy)]
pub enum DiskCache<'a> {
    /// Switched off.
    Off,
    /// In this folder.
    In(&'a Path),
}

/// What a client printed.
#[derive(Clone, Default, Deserialize)]
pub struct Figures {
    pub device: String,
    pub driver: String,
    pub pipelines: Vec<u64>,
    pub modules: Vec<u64>,
    pub wall: u64,
}

/// One run of a client.
#[derive(Clone)]
pub struct Run {
    pub figures: Figures,
    pub wall: Duration,
    pub cpu: Duration,
    pub reports: Vec<RunReport>,
}

impl Run {
    /// Sum of a counter over the devices of the run.
    pub fn count(&self, name: &str) -> u64 {
        let devices = self.reports.iter().flat_map(|report| &report.devices);
        devices.filter_map(|device| device.counters.get(name)).sum()
    }

    /// What each pipeline cost, module included, in nanoseconds.
    pub fn with_modules(&self) -> Vec<u64> {
        let Figures { pipelines, modules, .. } = &self.figures;
        pipelines.iter().zip(modules).map(|(pipeline, module)| pipeline + module).collect()
    }
}

/// What every run has in common.
pub struct Bench {
    corpus: PathBuf,
    skip_list: PathBuf,
    count: usize,
    pub rounds: usize,
    /// Everything that is written goes here.
    pub scratch: TempDir,
    manifests: PathBuf,
}

impl Bench {
    pub fn new(corpus: &Path, skip_list: &Path, count: usize, rounds: usize) -> Bench {
        let scratch = tempfile::tempdir().unwrap();
        let manifests = scratch.path().join("data");
        let folder = manifests.join("vulkan/implicit_layer.d");
        fs::create_dir_all(&folder).unwrap();
        let library = beside_me("libVkLayer_vkstash.so");
        assert!(library.exists(), "{} is missing: cargo build --release", library.display());
        let manifest = serde_json::json!({
            "file_format_version": "1.2.0",
            "layer": {
                "name": "VK_LAYER_VKSTASH_pipeline_cache",
                "type": "INSTANCE",
                "library_path": library,
                "api_version": "1.3.0",
                "implementation_version": "1",
                "description": "Persistent pipeline stash",
                "disable_environment": { "VKSTASH_DISABLE": "1" },
                "enable_environment": { "VKSTASH": "1" }
            }
        });
        fs::write(folder.join("vkstash.json"), manifest.to_string()).unwrap();
        Bench { corpus: corpus.into(), skip_list: skip_list.into(), count, rounds, scratch, manifests }
    }

    /// A new, empty folder.
    pub fn fresh(&self) -> PathBuf {
        tempfile::tempdir_in(self.scratch.path()).unwrap().keep()
    }

    /// Runs the client; `stash` switches the layer on.
    pub fn run(&self, driver: Driver, disk: DiskCache<'_>, stash: Option<&Path>, arguments: &[&str]) -> Run {
        let reports = stash.map(|_| self.fresh());
        let mut command = Command::new(beside_me("vkstash-corpus"));
        command.arg("--json").arg("--corpus").arg(&self.corpus).arg("--skip-list").arg(&self.skip_list);
        command.arg("--count").arg(self.count.to_string()).args(arguments);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if ["VKSTASH", "MESA_", "__GL_SHADER"].iter().any(|prefix| text.starts_with(prefix)) {
                command.env_remove(&name);
            }
        }
        self.set_driver(&mut command, driver, disk);
        if let (Some(stash), Some(reports)) = (stash, &reports) {
            let data = format!("{}:/usr/local/share:/usr/share", self.manifests.display());
            command.env("XDG_DATA_DIRS", data).env("VKSTASH", "1");
            command.env("VKSTASH_DIR", stash).env("VKSTASH_REPORT", reports);
        }
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let before = children_cpu();
        let started = Instant::now();
        let output = command.output().expect("vkstash-corpus beside this program");
        let (wall, cpu) = (started.elapsed(), children_cpu() - before);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
        let figures = serde_json::from_slice(&output.stdout).unwrap();
        let reports = reports.map(|folder| runs::read_all(&folder)).unwrap_or_default();
        Run { figures, wall, cpu, reports }
    }

    fn set_driver(&self, command: &mut Command, driver: Driver, disk: DiskCache<'_>) {
        let manifest = match driver {
            Driver::RadvNull => Some(icd("radeon_icd")),
            Driver::Lavapipe => Some(icd("lvp_icd")),
            Driver::Gpu => None,
        };
        if driver == Driver::RadvNull {
            command.env("RADV_FORCE_FAMILY", "navi21");
        }
        if let Some(manifest) = manifest {
            command.env("VK_DRIVER_FILES", &manifest).env("VK_ICD_FILENAMES", &manifest);
        }
        match disk {
            DiskCache::Off => {
                command.env("MESA_SHADER_CACHE_DISABLE", "1").env("__GL_SHADER_DISK_CACHE", "0")
            }
            DiskCache::In(folder) => command
                .env("MESA_SHADER_CACHE_DIR", folder)
                .env("__GL_SHADER_DISK_CACHE", "1")
                .env("__GL_SHADER_DISK_CACHE_PATH", folder),
        };
    }
}

/// A program or library of the same build.
fn beside_me(name: &str) -> PathBuf {
    std::env::current_exe().unwrap().with_file_name(name)
}

fn icd(name: &str) -> PathBuf {
    let folder = Path::new("/usr/share/vulkan/icd.d");
    let found = fs::read_dir(folder).ok().and_then(|mut entries| {
        entries.find_map(|entry| {
            let path = entry.unwrap().path();
            path.file_name()?.to_str()?.starts_with(name).then_some(path)
        })
    });
    found.unwrap_or_else(|| panic!("no {name}*.json in {}: scripts/setup.sh installs it", folder.display()))
}

fn children_cpu() -> Duration {
    // SAFETY: getrusage fills the structure it is given.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let time = |value: libc::timeval| {
        Duration::from_secs(value.tv_sec as u64) + Duration::from_micros(value.tv_usec as u64)
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}
