//! An application in a few lines: what it runs on, its sessions, and what was saved.

use vkstash_model::counters::Count;

use super::model::{Application, Device};
use super::summary::attention;
use super::table;
use super::view::View;
use crate::config::in_force;
use crate::reports::names;
use crate::reports::played::{Driver, Session};
use crate::term::style::Style;
use crate::term::time::{age, span};
use crate::term::units::{counted, plain, size};

pub(super) fn describe(lines: &mut Vec<String>, name: &str, application: &Application, view: View) {
    lines.push(header(name, application, view));
    if application.session.has_anything() {
        lines.push(format!("  {}", application.session.sentence()));
    }
    lines.extend(attention(&application.attention, true));
    lines.extend(table::lines(application, view));
    lines.extend(saved(application));
}

/// `Game: Test GPU, MESA_RADV 25.0.7; 1.2 GiB of 4.0 GiB; last run 2 h ago`.
fn header(name: &str, application: &Application, view: View) -> String {
    let mut parts = devices(&application.session);
    let mut used = in_force::used(application.bytes, application.keep.limit_bytes);
    if application.sessions.caches > 0 {
        let caches = counted(application.sessions.caches, "session cache");
        used += &format!(", and {caches}, {}", size(application.sessions.bytes));
    }
    parts.push(used);
    parts.push(match application.last_use_unix_ms {
        Some(last_use) => format!("last run {}", age(last_use, view.now_unix_ms)),
        None => "no run known".to_owned(),
    });
    format!("{}: {}", Style::Strong.paint(name), parts.join("; "))
}

fn devices(session: &Session) -> Vec<String> {
    let title = |driver: &Driver| format!("{}, {}", plain(&driver.device), driver.name);
    session.drivers.iter().map(title).collect()
}

/// Time that serving has saved. An upper bound: the driver's own disk cache might have saved some of it too.
fn saved(application: &Application) -> Option<String> {
    let (all, ahead) = (application.work.get(Count::SavedNanos), application.work.get(Count::AheadNanos));
    let waiting = all.saturating_sub(ahead);
    let mut parts = Vec::new();
    if waiting > 0 {
        parts.push(format!("up to {} of waiting", span(waiting)));
    }
    if ahead > 0 {
        // The program's call did not take it, but the processors did.
        parts.push(format!("{} of compiling done ahead", span(ahead)));
    }
    let runs = counted(application.runs, "run");
    (!parts.is_empty()).then(|| format!("  saved so far: {} in {runs}", parts.join(", ")))
}

/// `NVIDIA H200 (NVIDIA_PROPRIETARY 580.159.3)`.
pub(super) fn title(device: &Device) -> String {
    format!("{} ({})", plain(&device.name), names::driver(device.driver_id, device.driver_version))
}
