//! An application in a few lines: its runs, its devices and its size.

use vkstash_model::counters::Count;

use super::model::{Application, Device};
use super::summary::figures;
use crate::in_force;
use crate::savings::saved;
use crate::units::{counted, plain, size};

pub(super) fn describe(lines: &mut Vec<String>, application: &Application) {
    if application.runs > 1 {
        let runs = counted(application.runs, "run");
        lines.push(format!("  all {runs}: {}", figures(&application.work, "")));
    }
    for device in &application.devices {
        lines.push(format!("  {}: {}", title(device), describe_device(device)));
    }
    let mut line = format!("  size: {}", in_force::used(application.bytes, application.keep.limit_bytes));
    if application.sessions.caches > 0 {
        let caches = counted(application.sessions.caches, "session cache");
        line += &format!(", and {caches}, {}", size(application.sessions.bytes));
    }
    lines.push(line);
}

fn describe_device(device: &Device) -> String {
    let work = &device.work;
    let Some(percent) = in_force::percent(work.ready, work.pipelines) else { return figures(work, "") };
    let text = format!("{percent:.1} % of {} ready", counted(work.pipelines, "pipeline"));
    match work.get(Count::SavedNanos) {
        0 => text,
        nanos => format!("{text}, {}", saved(nanos, work.get(Count::AheadNanos))),
    }
}

/// `NVIDIA H200 (NVIDIA_PROPRIETARY 580.159.3)`.
pub(super) fn title(device: &Device) -> String {
    format!("{} ({})", plain(&device.name), driver(device.driver.as_deref(), &device.driver_version_text))
}

/// A driver and its version.
pub(super) fn driver(name: Option<&str>, version: &str) -> String {
    match name.and_then(|name| name.strip_prefix("VK_DRIVER_ID_")) {
        Some(name) => format!("{name} {version}"),
        None => format!("driver {version}"),
    }
}
