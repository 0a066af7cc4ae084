//! The tool, started by the layer beside a program or at its end (docs/prewarm.md): what it gets, and where it is not
//! started.

use std::ffi::{CStr, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use ash::vk;

use super::spawn::Program;
use super::trust::{self, Untrusted};
use crate::background::{memory, pool, processors};
use crate::config::Config;
use crate::state::devices::device::Device;
use crate::state::process::session::name_of;
use vkstash_store::format::device::DeviceHeader;

/// Variables that the tool does not get: what is preloaded into the program, other layers, and the program's own
/// settings of this one.
const DROPPED: &[&[u8]] = &[
    b"LD_PRELOAD",
    b"MANGOHUD",
    b"VK_INSTANCE_LAYERS",
    b"VK_LOADER_LAYERS_ENABLE",
    b"VKSTASH",
    b"VKSTASH_APPLICATION",
    b"VKSTASH_BACKGROUND",
    b"VKSTASH_BACKGROUND_WORKERS",
    b"VKSTASH_DIR",
    b"VKSTASH_FINISH",
    b"VKSTASH_LIBRARY",
    b"VKSTASH_LOG_FILE",
    b"VKSTASH_REPORT",
    b"VKSTASH_TRACE",
    b"VKSTASH_UPDATE",
];

/// What a worker of the tool may have. Where a control group limits its memory, the program may be ended for what
/// workers use.
const WORKER_MEMORY: u64 = 1 << 30;
/// Workers after a program: usually there is little to be done.
const WORKERS_AFTER: u64 = 2;

/// When the tool is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// While the program runs, and it ends with the program.
    During,
    /// As the program ends, and it begins after that.
    After,
}

/// The stash of a device of the program, and what the tool needs to work on it.
pub struct Errand {
    pub root: PathBuf,
    pub folder: String,
    pub header: DeviceHeader,
    /// Also on battery.
    pub on_battery: bool,
    /// The tool that the user has named.
    tool: Option<PathBuf>,
    environment: Environment,
}

/// Variables and their values.
pub type Environment = Vec<(OsString, OsString)>;

/// What the tool gets of this process's environment. Read in vkCreateDevice, where the environment is read anyway:
/// another thread, or a later time, would read it while the program may change it.
pub fn environment() -> Environment {
    std::env::vars_os().filter(|(name, _)| !DROPPED.contains(&name.as_bytes())).collect()
}

/// Why the tool is not started.
#[derive(Debug, thiserror::Error)]
pub enum NotStarted {
    /// An orphan becomes the child of the first process of its namespace, or of the nearest process above it that has
    /// asked for orphans. If that is the program, it gets a child that it does not know of, and has to wait for it.
    #[error("this process adopts orphans")]
    AdoptsOrphans,
    /// A filter of system calls may end the program for what starts a process.
    #[error("the system calls of this process are filtered")]
    Filtered,
    /// The program may be ended for what the tool's workers use.
    #[error("little is left of the memory of this process's control group")]
    LittleMemory,
    /// Steam waits for all processes of a game, and shows the game as running until they have ended.
    #[error("Steam waits for all that a game has started")]
    Steam,
    /// The path of this library cannot be found out.
    #[error("the path of this library is not known")]
    NoLibrary,
    /// Packages may leave the tool out.
    #[error("no vkstash is near {}", .0.display())]
    NoTool(PathBuf),
    /// Other users can replace the file.
    #[error("{}: {reason}", path.display())]
    Untrusted { path: PathBuf, reason: Untrusted },
    /// The system has no room for another process, or no memory.
    #[error("the system starts no process")]
    Refused,
}

/// Whether the tool may ever be started from this process.
pub fn is_possible(config: &Config) -> bool {
    // A worker of the tool is not to start another one.
    config.application.is_none() && pool::is_allowed()
}

impl Errand {
    /// None: the device has no stash.
    pub fn of(device: &Device, on_battery: bool, environment: Environment) -> Option<Errand> {
        let instance = &device.instance;
        let config = &instance.config;
        let (root, header) = (config.root.clone()?, device.header()?);
        let folder = name_of(config, &instance.application.name).folder;
        Some(Errand { root, folder, header, on_battery, tool: config.tool.clone(), environment })
    }

    /// Starts the tool. It reads the disk, so no thread of the program calls it.
    pub fn start(self, when: When) -> Result<(), NotStarted> {
        self.check(when)?;
        let library = own_library().ok_or(NotStarted::NoLibrary)?;
        let found =
            self.tool.clone().or_else(|| near(&library)).ok_or(NotStarted::NoTool(library.clone()))?;
        let tool = match trust::checked(&found) {
            Ok(tool) => tool,
            Err(reason) => return Err(NotStarted::Untrusted { path: found, reason }),
        };
        let arguments = self.arguments(when, &tool, &library);
        let environment = self
            .environment
            .into_iter()
            .map(|(name, value)| [name.into_vec(), b"=".to_vec(), value.into_vec()].concat());
        let arguments = arguments.into_iter().map(OsString::into_vec);
        let program = Program::new(tool.as_os_str().as_bytes(), arguments, environment);
        if program.is_some_and(|program| program.start()) { Ok(()) } else { Err(NotStarted::Refused) }
    }

    fn arguments(&self, when: When, tool: &Path, library: &Path) -> Vec<OsString> {
        let pid = std::process::id().to_string();
        let mut arguments: Vec<OsString> =
            vec![tool.into(), "prewarm".into(), self.folder.clone().into(), "--background".into()];
        match when {
            When::During => arguments.extend(["--if-driver-changed", "--while", &pid].map(OsString::from)),
            When::After => {
                let header: String = self.header.encode().iter().map(|byte| format!("{byte:02x}")).collect();
                arguments.extend(["--finish", &header, "--after", &pid].map(OsString::from));
            }
        }
        let half = processors::usable() as u64 / 2;
        let most = if when == When::After { half.min(WORKERS_AFTER) } else { half };
        let jobs = most.min(memory::left_of_groups() / WORKER_MEMORY).max(1);
        arguments.extend(["--jobs", &jobs.to_string(), "--memory", "1GiB"].map(OsString::from));
        // Its disk cache knows programs by their names (crates/tool/src/programs/prewarm/named.rs).
        let is_nvidia = self.header.driver_id == vk::DriverId::NVIDIA_PROPRIETARY.as_raw() as u32;
        let own = std::fs::read_link("/proc/self/exe").ok().filter(|_| is_nvidia);
        if let Some(name) = own.as_deref().and_then(Path::file_name) {
            arguments.extend(["--as".into(), name.into()]);
        }
        if !self.on_battery {
            arguments.push("--unless-on-battery".into());
        }
        arguments.extend(["--library".into(), library.into(), "--dir".into(), self.root.clone().into()]);
        arguments
    }

    /// Whether a process that this one starts goes unnoticed.
    fn check(&self, when: When) -> Result<(), NotStarted> {
        let mut adopts: libc::c_int = 0;
        // SAFETY: prctl writes one int to this stack frame.
        let asked = unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &mut adopts) };
        if std::process::id() == 1 || asked != 0 || adopts != 0 {
            return Err(NotStarted::AdoptsOrphans);
        }
        match std::fs::read_to_string("/proc/thread-self/status") {
            Ok(status) if status.lines().any(|line| line == "Seccomp:\t0") => {}
            _ => return Err(NotStarted::Filtered),
        }
        if memory::left_of_groups() < WORKER_MEMORY {
            return Err(NotStarted::LittleMemory);
        }
        let is_of_steam = |(name, _): &(OsString, OsString)| name == "SteamAppId" || name == "SteamGameId";
        if when == When::After && self.environment.iter().any(is_of_steam) {
            return Err(NotStarted::Steam);
        }
        Ok(())
    }
}

/// The path of this library.
fn own_library() -> Option<PathBuf> {
    // SAFETY: dladdr gets the address of a function of this library, and fills the structure in; its string lives as
    // long as the library, which is never unloaded.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let own: fn(&Path) -> Option<PathBuf> = near;
        if libc::dladdr(own as *const libc::c_void, &mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        let path = OsStr::from_bytes(CStr::from_ptr(info.dli_fname).to_bytes());
        std::path::absolute(path).ok()
    }
}

/// The tool that came with this library. Steam's container loads the library by a link to the host's folders.
fn near(library: &Path) -> Option<PathBuf> {
    near_path(library).or_else(|| near_path(&std::fs::canonicalize(library).ok()?))
}

/// In the same folder, as cargo builds both, or in `bin` beside `lib`.
fn near_path(library: &Path) -> Option<PathBuf> {
    let folder = library.parent()?;
    let above = folder.ancestors().skip(1).take(3).map(|above| above.join("bin"));
    let candidates = [folder.to_owned()].into_iter().chain(above).map(|folder| folder.join("vkstash"));
    candidates.into_iter().find(|tool| tool.is_file())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_tool_is_found_beside_the_library_that_a_link_names() {
        let folder = tempfile::tempdir().unwrap();
        let (host, overrides) = (folder.path().join("host/usr"), folder.path().join("overrides/lib/0"));
        for folder in [&host.join("bin"), &host.join("lib/x86_64-linux-gnu"), &overrides] {
            std::fs::create_dir_all(folder).unwrap();
        }
        let library = host.join("lib/x86_64-linux-gnu/library.so");
        std::fs::write(&library, "").unwrap();
        let link = overrides.join("library.so");
        std::os::unix::fs::symlink(&library, &link).unwrap();
        assert_eq!(near(&link), None);
        std::fs::write(host.join("bin/vkstash"), "").unwrap();
        assert_eq!(near(&link), Some(std::fs::canonicalize(host.join("bin/vkstash")).unwrap()));
        assert_eq!(near(&library), Some(host.join("bin/vkstash")));
    }

    #[test]
    fn a_process_is_started_that_is_nobody_s_child_and_inherits_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("said");
        // Without a pipeline: the shell would have its pipe open, or not any more. The fourth is the folder that `ls`
        // reads.
        let script = format!(
            "ls /proc/self/fd > {0}.fd; echo $(cat {0}.fd) \"$X $(pwd)\" > {0}.tmp; mv {0}.tmp {0}",
            file.display()
        );
        let arguments = ["sh", "-c", &script].map(|argument| argument.as_bytes().to_vec());
        let environment = [b"X=yes".to_vec(), b"PATH=/usr/bin:/bin".to_vec()];
        let program = Program::new(b"/bin/sh", arguments.into_iter(), environment.into_iter()).unwrap();
        assert!(program.start());
        let deadline = Instant::now() + Duration::from_secs(500);
        while !file.exists() {
            assert!(Instant::now() < deadline, "the process has not said anything");
            std::thread::sleep(Duration::from_millis(5));
        }
        let said = std::fs::read_to_string(&file).unwrap();
        assert_eq!(said.trim(), "0 1 2 3 yes /");
    }
}
