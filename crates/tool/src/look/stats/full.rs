//! Lines that `-v` and `-vv` show of an application beyond the few.

use vkstash_model::counters::{Class, Count, Unit};

use super::details::title;
use super::model::{Application, Keep, Work};
use super::view::View;
use super::{parts, store};
use crate::config::in_force;
use crate::reports::names;
use crate::reports::played::Session;
use crate::term::time::{age, moment, span};
use crate::term::units::{counted, plain, size};

/// The classes of `-v`, with their titles.
const OF_SOURCES: [(Class, &str); 5] = [
    (Class::Source, "pipelines"),
    (Class::Miss, "not ready before the program asked"),
    (Class::Trouble, "trouble"),
    (Class::Shader, "shader objects"),
    (Class::Time, "times"),
];

/// Where the pipelines came from, what went wrong, and the times.
pub(super) fn describe_sources(lines: &mut Vec<String>, application: &Application, view: View) {
    let mut when = |what: &str, unix_ms: Option<u64>| {
        lines
            .extend(unix_ms.map(|unix_ms| {
                format!("  {what}: {} ({})", moment(unix_ms), age(unix_ms, view.now_unix_ms))
            }));
    };
    when("first run began", application.since_unix_ms);
    when("last run began", application.last_run.as_ref().map(|run| run.started_unix_ms));
    when("last run ended", application.last_use_unix_ms);
    lines.extend(frames(&application.session));
    if application.runs > 1 {
        let Work { ready, pipelines, .. } = application.work;
        let runs = counted(application.runs, "run");
        lines.push(format!("  all {runs}: {ready} of {} ready", counted(pipelines, "pipeline")));
    }
    for device in &application.devices {
        let share = in_force::percent(device.work.ready, device.work.pipelines);
        let pipelines = counted(device.work.pipelines, "pipeline");
        let share = share.map_or(pipelines.clone(), |share| format!("{share:.1} % of {pipelines} ready"));
        lines.push(format!("  {}: {share}", title(device)));
    }
    for (class, title) in OF_SOURCES {
        let rows = rows(&application.work, |what| what.class() == class, false);
        if !rows.is_empty() {
            lines.push(format!("  {title} in {}:", counted(application.runs, "run")));
            lines.extend(rows);
        }
    }
    lines.extend(bypassed(&application.work));
    describe_modules(lines, &application.keep);
    store::describe_store(lines, &application.store);
}

/// The frames of the last session.
fn frames(session: &Session) -> Option<String> {
    let shown = session.presents().then(|| counted(session.frames, "frame"))?;
    let mut words = format!("  last session: {shown} in {}", span(session.played_ns));
    if let Some(most) = session.shorter_ns(99) {
        words += &format!(", 99 % of them shorter than {}", span(most));
    }
    Some(words)
}

/// Every counter of each device, and the parts.
pub(super) fn describe_all(lines: &mut Vec<String>, application: &Application, view: View) {
    for device in &application.devices {
        lines.push(format!("  {}, all counters:", title(device)));
        if !device.parts.is_empty() {
            lines.push(format!("    parts: {}", plain(&device.parts.join(", "))));
        }
        lines.extend(rows(&device.work, |_| true, view.zero));
        lines.extend(newer(&device.work));
        lines.extend(bypassed(&device.work));
    }
    parts::describe(lines, application);
}

/// A row for each of these counters.
fn rows(work: &Work, is_shown: impl Fn(Count) -> bool, zero: bool) -> Vec<String> {
    let shown = Count::ALL.iter().filter(|&&what| is_shown(what) && (zero || work.get(what) > 0));
    let row = |&what: &Count| match what.unit() {
        Unit::Count => row(what.label(), &work.get(what).to_string(), what.text()),
        Unit::Nanoseconds => row(what.label(), &span(work.get(what)), what.text()),
    };
    shown.map(row).collect()
}

fn row(label: &str, value: &str, text: &str) -> String {
    format!("    {label:<18}  {value:>8}  {text}").trim_end().to_owned()
}

/// Counters of newer versions, by their names.
fn newer(work: &Work) -> Vec<String> {
    let is_known = |name: &str| Count::ALL.iter().any(|what| what.name() == name);
    let newer = work.counters.iter().filter(|(name, value)| !is_known(name) && **value > 0);
    newer.map(|(name, value)| row(&plain(name), &value.to_string(), "of a newer version")).collect()
}

/// Why pipelines bypassed the stash.
fn bypassed(work: &Work) -> Vec<String> {
    let title = (!work.bypassed.is_empty()).then(|| "  left to the driver, because:".to_owned());
    let rows = work.bypassed.iter().map(|bypass| {
        row("", &bypass.count.to_string(), &plain(&names::bypass(&bypass.reason, bypass.s_type)))
    });
    title.into_iter().chain(rows).collect()
}

/// The module policy and its cost.
fn describe_modules(lines: &mut Vec<String>, keep: &Keep) {
    let kept = match keep.modules.as_str() {
        "all" if keep.module_bytes == 0 => return,
        "all" => "all are kept".to_owned(),
        "none" => "none are kept".to_owned(),
        runs => format!("those of the last {runs} runs are kept"),
    };
    let share = keep.module_percent.map_or(String::new(), |percent| format!(", {percent:.1} % of the stash"));
    lines.push(format!("  shaders: {kept}; {}{share}", size(keep.module_bytes)));
}
