//! Programs of Flatpak: each has its stash and its drivers in its own sandbox, so the service works in there, too.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::drivers;

/// The tool of the layer's extension, as a sandbox has it.
const TOOL: &str = "/usr/lib/extensions/vulkan/vkstash/bin/vkstash";
/// How often it is looked whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The service in the sandbox ends within a second when it is told to.
const TO_END: Duration = Duration::from_secs(10);

/// The programs with a stash in their sandbox.
pub(super) fn programs() -> Vec<String> {
    let Some(home) = home() else { return Vec::new() };
    let entries = fs::read_dir(home.join(".var/app")).into_iter().flatten().flatten();
    let has_stash = |entry: &fs::DirEntry| entry.path().join("cache/vkstash").is_dir();
    let mut programs: Vec<String> =
        entries.filter(has_stash).filter_map(|entry| entry.file_name().into_string().ok()).collect();
    programs.sort();
    programs
}

/// What changes when the drivers of sandboxes may have: Flatpak touches a file at each installation and update, and
/// some drivers are of the version that the host has.
pub(super) fn drivers() -> String {
    let data = env::var_os("XDG_DATA_HOME").filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = data.or_else(|| Some(home()?.join(".local/share")));
    let of_user = data.map(|data| data.join("flatpak"));
    let of_all = Some(PathBuf::from("/var/lib/flatpak"));
    let changed = |folder: PathBuf| {
        let metadata = fs::metadata(folder.join(".changed")).ok()?;
        Some(format!("{}.{:09}", metadata.mtime(), metadata.mtime_nsec()))
    };
    let changed = [of_user, of_all].map(|folder| folder.and_then(changed).unwrap_or_default());
    format!("{} {}", drivers::digest(), changed.join(" "))
}

fn home() -> Option<PathBuf> {
    env::var_os("HOME")
        .filter(|home| !home.is_empty())
        .map(PathBuf::from)
        .filter(|home| home != Path::new("/"))
}

/// The service in a program's sandbox.
pub(super) struct Inside(Child);

impl Inside {
    pub(super) fn start(program: &str) -> io::Result<Inside> {
        let mut command = Command::new("flatpak");
        command.arg("run").arg(format!("--command={TOOL}")).arg(program);
        command.args(["prewarm", "--after-update", "--until-input-ends"]);
        // The end of its input tells it to end: a signal would end the sandbox, and it as if by a crash.
        command.stdin(Stdio::piped());
        Ok(Inside(command.spawn()?))
    }

    /// Waits for its end, and tells it to end as soon as `is_to_stop` says so. Whether it has gone through everything.
    pub(super) fn wait(mut self, mut is_to_stop: impl FnMut() -> bool) -> io::Result<bool> {
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status.success());
            }
            if is_to_stop() {
                break;
            }
            sleep(LOOK_EVERY);
        }
        drop(self.0.stdin.take());
        let told = Instant::now();
        while self.0.try_wait()?.is_none() {
            if told.elapsed() > TO_END {
                self.0.kill()?;
            }
            sleep(LOOK_EVERY);
        }
        Ok(false)
    }
}
