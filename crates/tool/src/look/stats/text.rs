//! The statistics as text: the list of applications, or each of them with what it is asked to show.

use super::model::{Application, Selection, Stash};
use super::summary::{attention, summary};
use super::view::View;
use super::{details, full};
use crate::config::in_force;
use crate::drivers::caches::limits::DriverLimit;
use crate::term::style::Style;
use crate::term::units::{counted, plain, size};
use crate::term::wrap;

/// So many applications are listed without `--all`.
const MOST_LISTED: usize = 10;
/// Further lines of a text are indented by so much.
const HANGING: usize = 4;

/// The whole report.
pub(super) fn of(stash: &Stash, view: View) -> String {
    let mut lines = Vec::new();
    let applications: Vec<_> =
        stash.applications.iter().filter(|application| counts(stash, application)).collect();
    if stash.applications.is_empty() {
        lines.push(format!("nothing recorded yet in {}", plain(&stash.root)));
    } else if applications.is_empty() {
        lines.push("no run since then is known".to_owned());
    }
    let most = if view.all || view.is_named { applications.len() } else { MOST_LISTED };
    for (place, application) in applications.iter().take(most).enumerate() {
        if place > 0 && view.verbosity > 0 {
            lines.push(String::new());
        }
        describe(&mut lines, stash, application, view);
    }
    let more = applications.len().saturating_sub(most);
    if more > 0 {
        lines.push(format!("and {more} more: vkstash stats --all"));
    }
    if view.verbosity > 0 && !stash.applications.is_empty() {
        lines.extend(driver_limits(&stash.keep.driver_limits));
    }
    describe_stash(&mut lines, stash, view);
    wrap::all(&lines, HANGING, view.width)
}

/// Whether the application has something of what is asked for.
fn counts(stash: &Stash, application: &Application) -> bool {
    let is_chosen = matches!(stash.selection, Selection::Since { .. });
    !is_chosen || application.runs > 0 || application.runs_not_told_apart > 0
}

fn describe(lines: &mut Vec<String>, stash: &Stash, application: &Application, view: View) {
    let has_namesake = stash.applications.iter().filter(|other| other.name == application.name).count() > 1;
    // Commands need the folder where several applications have a name.
    let name = if has_namesake { &application.folder } else { &application.name };
    let in_detail = view.is_named || view.verbosity > 0;
    if in_detail {
        details::describe(lines, name, application, view);
    } else {
        lines.push(summary(name, application, view.now_unix_ms));
        lines.extend(attention(&application.attention, false));
    }
    if has_namesake && !application.program.is_empty() {
        lines.push(format!("  {}", Style::Faint.paint(&application.program)));
    }
    if application.runs_not_told_apart > 0 {
        let older = counted(application.runs_not_told_apart, "older run");
        lines.push(format!("  not counted: {older} of which only sums are kept, and no dates"));
    }
    if view.verbosity > 0 {
        full::describe_sources(lines, application, view);
    }
    if view.verbosity > 1 {
        full::describe_all(lines, application, view);
    }
}

/// What concerns all applications.
fn describe_stash(lines: &mut Vec<String>, stash: &Stash, view: View) {
    for ignored in &stash.keep.ignored_settings {
        lines.push(format!("setting ignored: {}", plain(ignored)));
    }
    for unreadable in &stash.unreadable {
        // The reason names the folder.
        lines.push(format!("left out: {}", plain(&unreadable.reason)));
    }
    let missing = stash.keep.missing_space_bytes;
    if missing > 0 && !stash.applications.is_empty() {
        let (missing, floor) = (size(missing), size(stash.keep.free_space_bytes));
        let line = format!(
            "the disk is nearly full: {missing} less are free than the {floor} that are to stay free"
        );
        lines.extend(attention(&[line], true).iter().map(|line| line.trim_start().to_owned()));
    }
    if let Some(told) = stash.told_of_updates.as_ref().filter(|_| !view.is_named) {
        let is_to_do = stash.not_ready.is_some();
        lines.push(if is_to_do { Style::Warning.paint(told).to_string() } else { told.clone() });
    }
    let pulled = stash.pulled_bases_bytes;
    if (!stash.applications.is_empty() || pulled > 0) && !view.is_named {
        let used = in_force::used(stash.bytes.saturating_add(pulled), stash.keep.limit_bytes);
        let bases =
            if pulled == 0 { String::new() } else { format!(" with {} of pulled bases", size(pulled)) };
        lines.push(format!("the whole stash{bases}: {used}, in {}", plain(&stash.root)));
    }
}

/// The limits of the drivers' own caches that `vkstash run` raises, on a line of their own.
fn driver_limits(limits: &[DriverLimit]) -> Vec<String> {
    let raised = |limit: &DriverLimit| {
        limit.raised_to_bytes.map(|bytes| format!("{} to {} ({})", limit.vendor, size(bytes), limit.variable))
    };
    let raised: Vec<_> = limits.iter().filter_map(raised).collect();
    if raised.is_empty() {
        return Vec::new();
    }
    let list = raised.join(", ");
    vec![String::new(), format!("`vkstash run` raises the limits of the drivers' own caches: {list}")]
}
