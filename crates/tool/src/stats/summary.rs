//! The line of an application that says how it does, and what wants attention.

use vkstash_model::counters::Count;

use super::model::{Application, Work};
use crate::term::style::Style;
use crate::term::time::{age, span};
use crate::units::{counted, size};

/// `Game: 412 of 415 pipelines ready (398 before it asked), 12 s saved; last run 2 h ago`. The figures are those of the
/// last run, or of all if its report is gone.
pub(super) fn summary(name: &str, application: &Application, now_unix_ms: u64) -> String {
    let name = Style::Strong.paint(name);
    let Some(last_use) = application.last_use_unix_ms else {
        return format!("{name}: no run known, {}", size(application.bytes));
    };
    let figures = match &application.last_run {
        Some(run) => figures(&run.work, ""),
        None => figures(&application.work, &format!(" in {}", counted(application.runs, "run"))),
    };
    format!("{name}: {figures}; last run {}", age(last_use, now_unix_ms))
}

/// What came of the pipelines; what is 0 or unknown is left out.
pub(super) fn figures(work: &Work, of_runs: &str) -> String {
    if work.pipelines == 0 {
        return match work.requests {
            0 => format!("no pipelines{of_runs}"),
            requests => format!("{} left to the driver{of_runs}", counted(requests, "pipeline")),
        };
    }
    let mut text = format!("{} of {} ready{of_runs}", work.ready, counted(work.pipelines, "pipeline"));
    let before = work.get(Count::Parked);
    if before > 0 {
        text += &format!(" ({before} before it asked)");
    }
    let ahead = work.get(Count::AheadNanos);
    match (work.get(Count::SavedNanos).saturating_sub(ahead), ahead) {
        (0, 0) => {}
        (0, ahead) => text += &format!(", {} compiled ahead", span(ahead)),
        (saved, _) => text += &format!(", {} saved", span(saved)),
    }
    text
}

/// The lines below the summary: the first one only, or all of them.
pub(super) fn attention(lines: &[String], all: bool) -> Vec<String> {
    let most = if all { lines.len() } else { 1 };
    let more = lines.len().saturating_sub(most);
    let shown = lines.iter().take(most).map(|line| match more {
        0 => format!("  {}", Style::Warning.paint(line)),
        more => format!("  {} (and {more} more: vkstash stats NAME)", Style::Warning.paint(line)),
    });
    shown.collect()
}
