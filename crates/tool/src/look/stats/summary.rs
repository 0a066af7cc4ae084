//! The line of an application that says how it does, and what wants attention.

use super::model::Application;
use crate::term::style::Style;
use crate::term::time::age;
use crate::term::units::{counted, size};

/// `Game: no stutters from compiling, longest wait 3 ms; 415 of 415 pipelines were ready; last run 2 h ago`. The
/// figures are those of the last session, or of all if its report is gone.
pub(super) fn summary(name: &str, application: &Application, now_unix_ms: u64) -> String {
    let name = Style::Strong.paint(name);
    let Some(last_use) = application.last_use_unix_ms else {
        return format!("{name}: no run known, {}", size(application.bytes));
    };
    let of_runs = match application.last_run {
        Some(_) => String::new(),
        None => format!(" in {}", counted(application.runs, "run")),
    };
    format!("{name}: {}{of_runs}; last run {}", application.session.sentence(), age(last_use, now_unix_ms))
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
