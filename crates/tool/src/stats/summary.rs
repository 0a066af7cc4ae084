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

/// What came of the pipelines and shader objects; what is 0 or unknown is left out.
pub(super) fn figures(work: &Work, of_runs: &str) -> String {
    let mut parts = Vec::new();
    let shaders = work.get(Count::ShadersServed).saturating_add(work.get(Count::ShadersCompiled));
    if work.pipelines > 0 {
        parts.push(format!("{} of {} ready", work.ready, counted(work.pipelines, "pipeline")));
    } else if work.requests > 0 {
        parts.push(format!("{} left to the driver", counted(work.requests, "pipeline")));
    } else if shaders == 0 {
        return format!("no pipelines{of_runs}");
    }
    if shaders > 0 {
        let served = work.get(Count::ShadersServed);
        parts.push(format!("{served} of {} ready", counted(shaders, "shader object")));
    }
    let mut text = parts.join(" and ") + of_runs;
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn shader_objects_are_told_beside_pipelines_and_alone() {
        let of = |pipelines: u64, requests: u64, served: u64, compiled: u64| {
            let counters = [(Count::ShadersServed, served), (Count::ShadersCompiled, compiled)];
            let counters: BTreeMap<_, _> = counters.map(|(what, n)| (what.name().to_owned(), n)).into();
            let (hit_percent, driver_percent, bypassed) = (None, None, Vec::new());
            let ready = pipelines;
            let work = Work { hit_percent, driver_percent, ready, pipelines, counters, bypassed, requests };
            figures(&work, "")
        };
        assert_eq!(of(0, 0, 0, 0), "no pipelines");
        assert_eq!(of(0, 0, 8, 1), "8 of 9 shader objects ready");
        assert_eq!(of(2, 2, 0, 1), "2 of 2 pipelines ready and 0 of 1 shader object ready");
        assert_eq!(of(0, 3, 1, 0), "3 pipelines left to the driver and 1 of 1 shader object ready");
    }
}
