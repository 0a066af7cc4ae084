//! After a driver update: has the tool compile what programs used, while this one runs (docs/prewarm.md).

use std::collections::VecDeque;
use std::ffi::{CStr, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::spawn::Program;
use super::trust;
use crate::background::pool;
use crate::state::device::Device;
use crate::state::process::name_of;
use vkstash_store::base::thread::{self, Stack};
use vkstash_store::forks::PerProcess;
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::format::record::Kind;
use vkstash_store::stash::inspect::{PartInfo, parts_of};

/// A part with at least this share (in tenths) of another driver version's artifacts is as good as complete: the rest
/// is what the program does not use any more, or what could not be made.
const NEARLY_ALL: u64 = 9;

/// Devices that a process looks at. No program has more.
const MOST: usize = 16;

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
    b"VKSTASH_LIBRARY",
    b"VKSTASH_LOG_FILE",
    b"VKSTASH_REPORT",
    b"VKSTASH_TRACE",
    b"VKSTASH_UPDATE",
];

/// A device of the program, and what its stash is called.
struct Look {
    root: PathBuf,
    folder: String,
    header: DeviceHeader,
    /// The tool that the user has named.
    tool: Option<PathBuf>,
    /// Read in vkCreateDevice, where the environment is read anyway: another thread would read it while the program may
    /// change it.
    environment: Vec<(OsString, OsString)>,
}

/// What this process has looked at: each application and device once, by one thread at a time.
#[derive(Default)]
struct Looks {
    known: Vec<(String, DeviceHeader)>,
    waiting: VecDeque<Look>,
    /// There is a thread that takes what waits.
    is_running: bool,
    /// The tool runs beside this process, or was asked to: it sees to all devices of the application.
    is_over: bool,
}

static LOOKS: PerProcess<Mutex<Looks>> = PerProcess::empty();

fn looks() -> MutexGuard<'static, Looks> {
    LOOKS.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks, on a thread of its own, whether the stash has pipelines of another version of this device's driver, and
/// starts the tool if it has. Does nothing unless the user has asked for it.
pub fn consider(device: &Device) {
    let instance = device.instance();
    let config = &instance.config;
    // A worker of the tool is not to start another one. A 32-bit program would need a tool of 32 bits, which is hardly
    // ever installed.
    if !config.update
        || cfg!(target_pointer_width = "32")
        || config.application.is_some()
        || !pool::is_allowed()
    {
        return;
    }
    let (Some(root), Some(header)) = (config.root.clone(), device.header()) else { return };
    let folder = name_of(config, &instance.application.name).folder;
    let mut looks = looks();
    let is_known = looks.known.iter().any(|(known, of)| *known == folder && *of == header);
    if is_known || looks.is_over || looks.known.len() >= MOST {
        return;
    }
    let environment = std::env::vars_os().filter(|(name, _)| !is_dropped(name.as_bytes())).collect();
    looks.known.push((folder.clone(), header.clone()));
    looks.waiting.push_back(Look { root, folder, header, tool: config.tool.clone(), environment });
    device.first_command.then(start);
}

/// Starts the thread if there is something to take. Without a thread nothing is done. It calls no driver, and the
/// library stays in memory: nobody waits for it.
fn start() {
    let mut looks = looks();
    if !looks.is_running && !looks.waiting.is_empty() {
        looks.is_running = thread::spawn("vkstash-update", Stack::Own, run).is_some();
    }
}

/// The thread: takes what waits, until nothing does.
fn run() {
    loop {
        let mut looks = looks();
        let Some(look) = looks.waiting.pop_front().filter(|_| !looks.is_over) else {
            looks.is_running = false;
            return;
        };
        drop(looks);
        let is_over = look.look();
        self::looks().is_over |= is_over;
    }
}

impl Look {
    /// True: nothing more is to be looked at in this process.
    fn look(self) -> bool {
        if !parts_of(&self.root, &self.folder).is_ok_and(|parts| is_behind(&parts, &self.header)) {
            tracing::debug!("no other version of the driver has made more pipelines");
            return false;
        }
        if let Some(reason) = obstacle() {
            tracing::info!("the driver was updated, and nothing is compiled beside this process: {reason}");
            return true;
        }
        let Some(library) = own_library() else { return true };
        let Some(found) = self.tool.clone().or_else(|| beside(&library)) else {
            tracing::info!("the driver was updated, and no vkstash is near {}", library.display());
            return true;
        };
        match trust::checked(&found) {
            Ok(tool) => self.start(&tool, &library),
            Err(reason) => tracing::warn!("{} is not started: {reason}", found.display()),
        }
        true
    }

    fn start(self, tool: &Path, library: &Path) {
        let pid = std::process::id().to_string();
        let arguments: [&OsStr; 11] = [
            tool.as_os_str(),
            OsStr::new("prewarm"),
            OsStr::new(&self.folder),
            OsStr::new("--if-driver-changed"),
            OsStr::new("--background"),
            OsStr::new("--while"),
            OsStr::new(&pid),
            OsStr::new("--library"),
            library.as_os_str(),
            OsStr::new("--dir"),
            self.root.as_os_str(),
        ];
        let environment = self
            .environment
            .into_iter()
            .map(|(name, value)| [name.into_vec(), b"=".to_vec(), value.into_vec()].concat());
        let arguments = arguments.iter().map(|argument| argument.as_bytes().to_vec());
        let program = Program::new(tool.as_os_str().as_bytes(), arguments, environment);
        if program.is_some_and(|program| program.start()) {
            tracing::info!("the driver was updated: its pipelines are compiled again in the background");
        }
    }
}

/// Why a process that this one starts would not go unnoticed. None: nothing speaks against it.
fn obstacle() -> Option<&'static str> {
    // An orphan becomes the child of the first process of its namespace, or of the nearest process above it that has
    // asked for orphans. If that is the program, it gets a child that it does not know of, and has to wait for it.
    let mut adopts: libc::c_int = 0;
    // SAFETY: prctl writes one int to this stack frame.
    let asked = unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &mut adopts) };
    if std::process::id() == 1 || asked != 0 || adopts != 0 {
        return Some("it adopts orphans");
    }
    // A filter of system calls may end the program for what starts a process.
    match std::fs::read_to_string("/proc/thread-self/status") {
        Ok(status) if status.lines().any(|line| line == "Seccomp:\t0") => None,
        _ => Some("its system calls are filtered"),
    }
}

fn is_dropped(name: &[u8]) -> bool {
    DROPPED.contains(&name)
}

/// Whether another version of the driver has made more pipelines for this device than this one.
fn is_behind(parts: &[PartInfo], header: &DeviceHeader) -> bool {
    let artifacts = |part: &PartInfo| -> u64 {
        let of = |kind: Kind| part.records.get(kind.name()).copied().unwrap_or(0);
        of(Kind::Artifact) + of(Kind::Same)
    };
    let same_device = |other: &DeviceHeader| {
        (other.vendor_id, other.device_id, other.driver_id, other.pointer_width, &other.features_digest)
            == (
                header.vendor_id,
                header.device_id,
                header.driver_id,
                header.pointer_width,
                &header.features_digest,
            )
    };
    let of = |wanted: &dyn Fn(&DeviceHeader) -> bool| {
        let of_device = parts.iter().filter(|part| part.device.as_ref().is_some_and(wanted));
        of_device.map(artifacts).max().unwrap_or(0)
    };
    let current = of(&|other| other == header);
    let others = of(&|other| same_device(other) && other != header);
    current * 10 < others * NEARLY_ALL
}

/// The path of this library.
fn own_library() -> Option<PathBuf> {
    // SAFETY: dladdr gets the address of a function of this library, and fills the structure in; its string lives as
    // long as the library, which is never unloaded.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let own: fn(&Device) = consider;
        if libc::dladdr(own as *const libc::c_void, &mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        let path = OsStr::from_bytes(CStr::from_ptr(info.dli_fname).to_bytes());
        std::path::absolute(path).ok()
    }
}

/// The tool that came with this library: in the same folder, as cargo builds both, or in `bin` beside `lib`.
fn beside(library: &Path) -> Option<PathBuf> {
    let folder = library.parent()?;
    let above = folder.ancestors().skip(1).take(3).map(|above| above.join("bin"));
    let candidates = [folder.to_owned()].into_iter().chain(above).map(|folder| folder.join("vkstash"));
    candidates.into_iter().find(|tool| tool.is_file())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::{Duration, Instant};

    use super::*;

    fn header(version: u32, features: u8) -> DeviceHeader {
        DeviceHeader {
            vendor_id: 1,
            device_id: 2,
            pipeline_cache_uuid: [version as u8; 16],
            driver_id: 3,
            driver_version: version,
            pointer_width: 8,
            schema: 2,
            features_digest: [features; 32],
        }
    }

    fn part(header: DeviceHeader, artifacts: u64, same: u64) -> PartInfo {
        let records = BTreeMap::from([("artifact".to_owned(), artifacts), ("same".to_owned(), same)]);
        PartInfo {
            name: String::new(),
            device: Some(header),
            segments: 1,
            sealed: 1,
            bytes: 0,
            records,
            payload_bytes: BTreeMap::new(),
            damaged: 0,
            refused: Vec::new(),
        }
    }

    #[test]
    fn only_another_version_of_the_same_driver_with_more_pipelines_counts() {
        let now = header(2, 0);
        assert!(!is_behind(&[], &now));
        assert!(!is_behind(&[part(header(2, 0), 100, 0)], &now));
        assert!(is_behind(&[part(header(1, 0), 100, 0)], &now));
        assert!(is_behind(&[part(header(1, 0), 60, 40), part(header(2, 0), 89, 0)], &now));
        assert!(!is_behind(&[part(header(1, 0), 60, 40), part(header(2, 0), 50, 41)], &now));
        assert!(!is_behind(&[part(header(1, 1), 100, 0)], &now), "other features");
        let other_device = DeviceHeader { device_id: 9, ..header(1, 0) };
        assert!(!is_behind(&[part(other_device, 100, 0)], &now));
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
