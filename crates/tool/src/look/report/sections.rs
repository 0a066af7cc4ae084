//! The tables of the page: what the stash has saved, each run, and the slowest pipelines.

use std::fmt::Write as _;

use super::escape::text;
use super::model::{LongCall, Report, RunTimeline, SlowFrame, SlowPipeline};
use super::pieces::{Anchors, DIGITS, number, table, title};
use crate::term::time::span;
use crate::term::units::size;

fn cell(value: &str) -> String {
    format!("<td class=\"number\">{}</td>", text(value))
}

/// Without the stash, and with it.
pub(super) fn comparison(report: &Report) -> String {
    let mut html =
        "<section aria-labelledby=\"calls\">\n<h2 id=\"calls\">Without and with the stash</h2>\n".to_owned();
    let Some(comparison) = &report.comparison else {
        html += "<p>There is nothing to compare: of no pipeline are both the compile and a call of the last run \
                 known.</p>\n";
        return html + "</section>\n";
    };
    let (without, with) = (&comparison.without_stash, &comparison.last_run);
    let mut rows = String::new();
    for (name, without, with) in [
        ("Over 16 ms", number(without.over_16_ms), number(with.over_16_ms)),
        ("Over 4 ms", number(without.over_4_ms), number(with.over_4_ms)),
        ("The longest", span(without.longest_ns), span(with.longest_ns)),
        ("Together", span(without.took_ns), span(with.took_ns)),
    ] {
        let _ = writeln!(rows, "<tr><th scope=\"row\">{name}</th>{}{}</tr>", cell(&without), cell(&with));
    }
    let caption = format!(
        "{} pipelines of the last run: what compiling them took when it was measured, and the longest call for \
         each in that run",
        number(comparison.pipelines)
    );
    html += &table(&caption, &[("Calls", false), ("Without the stash", true), ("Last run", true)], &rows);
    if comparison.not_measured > 0 {
        let more = number(comparison.not_measured);
        let _ = writeln!(
            html,
            "<p class=\"quiet\">{more} more were created whose compile was never measured.</p>"
        );
    }
    html += "<p class=\"quiet\">What the driver's own caches would have saved without the stash is not known, so \
             the first column is an upper limit.</p>\n";
    html + "</section>\n"
}

/// One run of the timeline; the last one is open.
pub(super) fn run(run: &RunTimeline, is_last: bool, anchors: &Anchors) -> String {
    let (open, which) = if is_last { (" open", "Last run") } else { ("", "Run") };
    let mut html = format!("<details{open}>\n<summary>{which}: {}</summary>\n", text(&title(run)));
    if run.is_full {
        html += "<p class=\"notice\">The timeline of this run is full: later creations are not in it.</p>\n";
    }
    html += &slow_frames(run, anchors);
    let mut rows = String::new();
    for share in &run.sources {
        let percent = 100.0 * share.creations as f64 / run.creations.max(1) as f64;
        let _ = writeln!(
            rows,
            "<tr><th scope=\"row\">{}</th>{}{}{}</tr>",
            text(share.source),
            cell(&number(share.creations)),
            cell(&format!("{percent:.1} %")),
            cell(&span(share.took_ns))
        );
    }
    let columns = [("Source", false), ("Creations", true), ("Share", true), ("Together", true)];
    html += "<div class=\"columns\">\n<div>\n";
    html += &table("Where the pipelines came from", &columns, &rows);
    html += "</div>\n<div>\n";
    let calls = [
        ("Over 16 ms", number(run.calls.over_16_ms)),
        ("Over 4 ms", number(run.calls.over_4_ms)),
        ("The longest", span(run.calls.longest_ns)),
        ("Together", span(run.calls.took_ns)),
    ];
    let row =
        |(name, value): (&str, String)| format!("<tr><th scope=\"row\">{name}</th>{}</tr>\n", cell(&value));
    html += &table("Calls of this run", &[("Calls", false), ("Value", true)], &calls.map(row).concat());
    html += "</div>\n</div>\n";
    html += &longest_calls(run, anchors);
    html + "</details>\n"
}

fn longest_calls(run: &RunTimeline, anchors: &Anchors) -> String {
    let mut rows = String::new();
    for call in &run.longest_calls {
        let LongCall { key, what, at_us, took_ns, source, frame, next_run } = call;
        let frame = if *frame > 0 { format!(", frame {}", number((*frame).into())) } else { String::new() };
        let next_run = next_run.map_or_else(String::new, |next| format!("; {next}"));
        let _ = writeln!(
            rows,
            "<tr>{}<td>{} <span class=\"quiet\">after {}{frame}</span></td>\
             <td class=\"wide\">{}</td><td>{source}{next_run}</td></tr>",
            cell(&span(*took_ns)),
            anchors.link(key),
            span(at_us.saturating_mul(1000)),
            text(what),
        );
    }
    let columns = "<th scope=\"col\" class=\"number\">Call</th><th scope=\"col\">Pipeline</th>\
                   <th scope=\"col\" class=\"wide\">Made of</th><th scope=\"col\">Source</th>";
    format!(
        "<table>\n<caption>The longest calls</caption>\n<thead><tr>{columns}</tr></thead>\n<tbody>\n{rows}</tbody>\n\
         </table>\n"
    )
}

fn slow_frames(run: &RunTimeline, anchors: &Anchors) -> String {
    if run.slow_frames.is_empty() {
        return "<p>No frame of this run is known in which a creation took 1 ms or more.</p>\n".to_owned();
    }
    let mut html = "<h3>Slow frames</h3>\n<ul class=\"frames\">\n".to_owned();
    for frame in &run.slow_frames {
        let _ = writeln!(html, "<li>{}</li>", slow_frame(frame, anchors));
    }
    html += "</ul>\n";
    let more = run.slow_frame_count.saturating_sub(run.slow_frames.len() as u64);
    if more > 0 {
        let _ = writeln!(html, "<p class=\"quiet\">and {} shorter ones</p>", number(more));
    }
    html
}

/// `frame 8,120: 212 ms, 180 ms of it pipeline 3f2a91c4, vertex + fragment; ready in the next run`.
fn slow_frame(frame: &SlowFrame, anchors: &Anchors) -> String {
    let SlowFrame { number: of_frame, length_ns, creations, longest, .. } = frame;
    let what = longest.what.replace(": ", ", ");
    let more = match creations.saturating_sub(1) {
        0 => String::new(),
        1 => ", and 1 more creation".to_owned(),
        more => format!(", and {} more creations", number(more)),
    };
    let next_run =
        longest.next_run.map_or_else(|| format!("; {}", longest.source), |next| format!("; {next}"));
    format!(
        "frame {}: {}, {} of it pipeline {}, {}{more}{next_run}",
        number((*of_frame).into()),
        span(*length_ns),
        span(longest.took_ns.min(*length_ns)),
        anchors.link(&longest.key),
        text(&what),
    )
}

/// The slowest pipelines, each with a row that says what it is made of.
pub(super) fn slowest(report: &Report) -> String {
    let mut html =
        "<section aria-labelledby=\"slowest\">\n<h2 id=\"slowest\">The slowest pipelines</h2>\n".to_owned();
    if report.slowest.is_empty() {
        html += "<p>Of no pipeline is it known how long it took.</p>\n";
        return html + "</section>\n";
    }
    let rows: String = report.slowest.iter().map(slow_pipeline).collect();
    let shown = report.slowest.len() as u64;
    let caption = if shown < report.pipelines {
        format!("The slowest {} of {}", number(shown), number(report.pipelines))
    } else {
        "By the compile, or by the call in the last run if that took longer".to_owned()
    };
    let columns = [("Pipeline", false), ("Compile", true), ("Last run", true)];
    html += &table(&caption, &columns, &rows);
    html + "</section>\n"
}

fn slow_pipeline(pipeline: &SlowPipeline) -> String {
    let SlowPipeline { key, what, compile_ns, last_call_ns, last_source, bytes, description } = pipeline;
    let or_dash = |nanos: &Option<u64>| nanos.map_or_else(|| "\u{2013}".to_owned(), span);
    let source = last_source.map_or_else(String::new, |source| format!("<br>{source}"));
    let mut lines = vec![key.clone()];
    lines.extend(bytes.map(|bytes| format!("artifact of {}", size(bytes))));
    lines.extend(description.iter().cloned());
    let lines: Vec<String> = lines.iter().map(|line| text(line)).collect();
    format!(
        "<tr id=\"p-{}\" class=\"first\"><th scope=\"row\"><code>{}</code> {}</th>{}\
         <td class=\"number\">{}<span class=\"quiet\">{source}</span></td></tr>\n\
         <tr><td colspan=\"3\"><details><summary>What it is made of</summary>\n<pre>{}</pre></details></td></tr>\n",
        &key[..DIGITS],
        &key[..8],
        text(what),
        cell(&or_dash(compile_ns)),
        text(&or_dash(last_call_ns)),
        lines.join("\n"),
    )
}
