//! The machine of a run.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// f_type of tmpfs and ramfs.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// File systems by their f_type.
const FILE_SYSTEMS: [(i64, &str); 4] =
    [(0xef53, "ext4"), (0x5846_5342, "XFS"), (0x9123_683e, "btrfs"), (0x794c_7630, "overlayfs")];

/// A description of a machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    pub processor: String,
    pub cores: usize,
    pub memory_bytes: u64,
    pub kernel: String,
    pub file_system: String,
    /// Seconds since the Unix epoch.
    pub unix_time: u64,
    /// The command line, without the program's path.
    pub command: Vec<String>,
}

impl Machine {
    /// This machine; `folder` holds the stores.
    pub fn here(folder: &Path) -> Result<Machine, Failure> {
        let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let magic = magic(folder)?;
        let known = FILE_SYSTEMS.iter().find(|(number, _)| *number == magic);
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
        Ok(Machine {
            processor: model.map_or("unknown processor", |(_, name)| name).to_owned(),
            cores: std::thread::available_parallelism()?.get(),
            memory_bytes: meminfo("MemTotal:")?,
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            file_system: known
                .map_or_else(|| format!("file system {magic:#x}"), |(_, name)| (*name).to_owned()),
            unix_time: since.as_secs(),
            command: without_paths(std::env::args().skip(1)),
        })
    }
}

/// The arguments without the options that only name output files.
fn without_paths(arguments: impl Iterator<Item = String>) -> Vec<String> {
    const PATHS: [&str; 3] = ["--folder", "--json", "--docs"];
    let mut kept = Vec::new();
    let mut skipped = false;
    for argument in arguments {
        let name = argument.split('=').next().unwrap_or_default();
        let is_path = PATHS.contains(&name);
        if !is_path && !skipped {
            kept.push(argument.clone());
        }
        skipped = is_path && !argument.contains('=');
    }
    kept
}

fn magic(folder: &Path) -> Result<i64, Failure> {
    // The field's type depends on the architecture.
    Ok(rustix::fs::statfs(folder)?.f_type as i64)
}

/// Whether files there are kept in memory only.
pub fn is_in_memory(folder: &Path) -> Result<bool, Failure> {
    Ok(IN_MEMORY.contains(&magic(folder)?))
}

/// Free bytes of the disk that `folder` is on.
pub fn free_disk(folder: &Path) -> Result<u64, Failure> {
    let disk = rustix::fs::statvfs(folder)?;
    Ok(disk.f_bavail * disk.f_frsize)
}

/// Bytes of memory available to programs and the page cache.
pub fn free_memory() -> Result<u64, Failure> {
    meminfo("MemAvailable:")
}

fn meminfo(name: &str) -> Result<u64, Failure> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let line =
        text.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such line in /proc/meminfo")?;
    let kilobytes = line.split_whitespace().next().ok_or("an empty line in /proc/meminfo")?;
    Ok(kilobytes.parse::<u64>()? * 1024)
}
