//! Memory of the machine and of the control groups that this process belongs to.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::faults;
use vkstash_host::descriptor::read_system_file;

/// The bytes that the process's control groups (cgroups(7), version 2) still allow; the largest number without a limit.
pub fn left_of_groups() -> u64 {
    let groups = read_system_file(c"/proc/self/cgroup").unwrap_or_default();
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    own.map_or(u64::MAX, |own| left_of(Path::new("/sys/fs/cgroup"), Path::new(own)))
}

fn left_of(mount: &Path, group: &Path) -> u64 {
    let left = |group: &Path| {
        let text = |file: &str| {
            let path = CString::new(mount.join(group).join(file).as_os_str().as_bytes()).ok()?;
            read_system_file(&path).ok()
        };
        let number = |file: &str| -> Option<u64> { text(file)?.trim().parse().ok() };
        // "max" is no number.
        let most = number("memory.max")?;
        // The kernel takes back what it keeps of files before it ends a process.
        let of_files = text("memory.stat")
            .and_then(|stat| stat.lines().find_map(|line| line.strip_prefix("inactive_file ")?.parse().ok()));
        let used = number("memory.current").unwrap_or(0);
        Some(most.saturating_sub(used.saturating_sub(of_files.unwrap_or(0))))
    };
    group.ancestors().filter_map(left).min().unwrap_or(u64::MAX)
}

/// With less memory than this, parked pipelines that the program has not asked for are given back.
const LITTLE: u64 = 512 << 20;
/// With less than one part in so many of the machine's memory, too.
const SMALL_SHARE: u64 = 10;

/// Whether the machine, or a control group, has little memory left.
pub fn is_scarce() -> bool {
    faults::is_memory_scarce(|| {
        let said = read_system_file(c"/proc/meminfo").unwrap_or_default();
        is_little(&said) || left_of_groups() < LITTLE
    })
}

/// What /proc/meminfo says. Where it says nothing, there is enough.
fn is_little(said: &str) -> bool {
    let kibibytes = |name: &str| -> Option<u64> {
        let line = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    };
    match (kibibytes("MemTotal"), kibibytes("MemAvailable")) {
        (Some(all), Some(left)) => left < all / SMALL_SHARE || left < LITTLE >> 10,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_limit_of_any_group_above_counts() {
        let mount = tempfile::tempdir().unwrap();
        fs::create_dir_all(mount.path().join("user/game")).unwrap();
        let write = |file: &str, text: &str| fs::write(mount.path().join(file), text).unwrap();
        let left = || left_of(mount.path(), Path::new("user/game"));
        assert_eq!(left(), u64::MAX, "the root has none");
        write("user/game/memory.max", "max\n");
        write("user/game/memory.current", "5000\n");
        assert_eq!(left(), u64::MAX);
        write("user/memory.max", "10000\n");
        assert_eq!(left(), 10_000);
        write("user/memory.current", "4000\n");
        assert_eq!(left(), 6_000);
        write("user/memory.stat", "anon 1000\nfile 3000\ninactive_file 2500\nactive_file 500\n");
        assert_eq!(left(), 8_500);
        write("user/game/memory.max", "5500\n");
        assert_eq!(left(), 500);
    }

    #[test]
    fn a_tenth_of_the_machine_s_memory_is_little() {
        let said = |all: u64, left: u64| {
            is_little(&format!("MemTotal:       {all} kB\nMemFree: 1 kB\nMemAvailable:   {left} kB\n"))
        };
        assert!(!said(16 << 20, 2 << 20) && said(16 << 20, 1 << 20));
        assert!(!said(2 << 20, 600 << 10) && said(2 << 20, 400 << 10));
        assert!(!is_little("") && !is_little("MemTotal: 5 kB\n"));
    }
}
