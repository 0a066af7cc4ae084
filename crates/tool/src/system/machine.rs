//! The machine: its processors, its memory, and whether it runs on battery.

use std::fs;
use std::path::Path;

/// Processors that this process may use.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Bytes of memory; 0 where it cannot be told.
pub(crate) fn memory() -> u64 {
    of_meminfo("MemTotal:")
}

/// Bytes of memory that processes can have without anything being swapped out; 0 where it cannot be told.
pub(crate) fn available_memory() -> u64 {
    of_meminfo("MemAvailable:")
}

fn of_meminfo(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kibibytes.unwrap_or(0).saturating_mul(1024)
}

/// As the kernel says. False where it cannot tell.
pub(crate) fn is_on_battery() -> bool {
    is_any_discharging(Path::new("/sys/class/power_supply"))
}

/// Batteries of mice and headsets have the scope "Device".
fn is_any_discharging(supplies: &Path) -> bool {
    let Ok(supplies) = fs::read_dir(supplies) else { return false };
    supplies.flatten().any(|supply| {
        let says = |file: &str, wanted: &str| {
            fs::read_to_string(supply.path().join(file)).is_ok_and(|text| text.trim() == wanted)
        };
        says("type", "Battery") && says("status", "Discharging") && !says("scope", "Device")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_memory_and_processors() {
        assert!(memory() > available_memory() && available_memory() > 0 && processors() > 0);
    }

    #[test]
    fn only_a_battery_of_the_machine_that_discharges_counts() {
        let supplies = tempfile::tempdir().unwrap();
        let is = |name: &str, files: [(&str, &str); 3]| {
            let folder = supplies.path().join(name);
            fs::create_dir_all(&folder).unwrap();
            for (file, text) in files {
                fs::write(folder.join(file), format!("{text}\n")).unwrap();
            }
            is_any_discharging(supplies.path())
        };
        assert!(!is("AC", [("type", "Mains"), ("status", "Discharging"), ("scope", "")]));
        assert!(!is("mouse", [("type", "Battery"), ("status", "Discharging"), ("scope", "Device")]));
        assert!(!is("BAT0", [("type", "Battery"), ("status", "Charging"), ("scope", "System")]));
        assert!(is("BAT0", [("type", "Battery"), ("status", "Discharging"), ("scope", "System")]));
        assert!(!is_any_discharging(Path::new("/nowhere")));
    }
}
