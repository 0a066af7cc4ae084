//! The page: one HTML file. Its policy allows its own style and script, which have digests, and nothing else.

use std::fmt::Write as _;

use serde::Serialize;

use super::escape::{self, text};
use super::model::{Mark, Report, RunTimeline, SOURCES};
use super::pieces::{Anchors, number, title};
use super::{charts, sections};
use crate::term::time::moment;
use crate::term::units::{counted, size};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("timeline.js");
/// What the script draws.
#[derive(Serialize)]
struct Picture<'a> {
    sources: [&'static str; SOURCES.len()],
    kinds: &'a [String],
    runs: Vec<PictureOfRun<'a>>,
}

#[derive(Serialize)]
struct PictureOfRun<'a> {
    span_us: u64,
    marks: &'a [Mark],
    bins: &'a [super::model::Bin],
    /// Begin and length in microseconds, and the number.
    frames: Vec<(u64, u64, u32)>,
}

/// The whole page.
pub(super) fn page(report: &Report) -> Result<String, serde_json::Error> {
    let anchors = Anchors::of(report);
    let name = text(&report.application);
    let policy = format!(
        "default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action 'none'",
        escape::policy_source(STYLE),
        escape::policy_source(SCRIPT)
    );
    let mut page = String::new();
    page += "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
    page += &format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n");
    page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
    page += "<meta name=\"color-scheme\" content=\"light dark\">\n";
    page += &format!("<title>{name}: vkstash report</title>\n<style>{STYLE}</style>\n</head>\n<body>\n");
    page += "<a class=\"skip\" href=\"#slowest\">To the slowest pipelines</a>\n";
    page += &format!("<header>\n<h1><bdi>{name}</bdi></h1>\n");
    let written = moment(report.written_unix_ms);
    page += &format!("<p class=\"quiet\">vkstash report, written {written}</p>\n</header>\n<main>\n");
    page += &facts(report);
    page += &notices(report);
    page += &charts::history(report);
    page += &sections::comparison(report);
    page += &timeline(report);
    for (place, run) in report.timelines.iter().enumerate() {
        page += &sections::run(run, place == 0, &anchors);
    }
    page += &sections::slowest(report);
    page += "</main>\n";
    if !report.timelines.is_empty() {
        page += &script(report)?;
    }
    page += "</body>\n</html>\n";
    Ok(page)
}

fn facts(report: &Report) -> String {
    let last = report.history.last().map(|last| &last.row.session);
    let ready = last.filter(|last| last.pipelines > 0).map_or_else(
        || "not known".to_owned(),
        |last| format!("{} of {}", number(last.ready), number(last.pipelines)),
    );
    let facts = [
        ("Pipelines in the stash", number(report.pipelines)),
        ("Size of the stash", size(report.bytes).to_string()),
        ("Runs", number(report.runs)),
        ("Ready in the last session", ready),
    ];
    let mut html = String::new();
    if let Some(last) = last {
        let _ = writeln!(html, "<p>The last session: {}.</p>", text(&last.sentence()));
    }
    html += "<dl class=\"facts\">\n";
    for (name, value) in facts {
        let _ = writeln!(html, "<div><dt>{name}</dt><dd>{}</dd></div>", text(&value));
    }
    html + "</dl>\n"
}

/// What the page lacks.
fn notices(report: &Report) -> String {
    let mut notices = Vec::new();
    if report.timelines.is_empty() {
        notices.push("No run has noted how it got its pipelines: there is no timeline.".to_owned());
    }
    if report.unreadable_timelines > 0 {
        let timelines = counted(report.unreadable_timelines, "timeline");
        notices.push(format!("{timelines} cannot be read: damaged, or of another version of vkstash."));
    }
    let damaged = report.timelines.iter().fold(0_u64, |sum, run| sum.saturating_add(run.damaged));
    if damaged > 0 {
        notices.push(format!("{} in the timelines cannot be read.", counted(damaged, "damaged place")));
    }
    let line = |notice: &String| format!("<p class=\"notice\">{}</p>\n", text(notice));
    notices.iter().map(line).collect()
}

/// The frame of the picture, which the script fills.
fn timeline(report: &Report) -> String {
    if report.timelines.is_empty() {
        return String::new();
    }
    let mut html = "<section aria-labelledby=\"timeline\">\n<h2 id=\"timeline\">Timeline</h2>\n".to_owned();
    html += "<noscript><p class=\"notice\">The picture needs JavaScript. The tables below have its longest \
             calls and frames.</p></noscript>\n";
    html += "<figure id=\"picture\" hidden>\n<div class=\"controls\">\n<label for=\"run\">Run</label>\n";
    html += "<select id=\"run\">\n";
    for (place, run) in report.timelines.iter().enumerate() {
        let _ = writeln!(html, "<option value=\"{place}\">{}</option>", text(&title(run)));
    }
    html += "</select>\n";
    for (id, shown, label) in [
        ("closer", "+", "Zoom in"),
        ("farther", "\u{2212}", "Zoom out"),
        ("earlier", "\u{2190}", "Earlier"),
        ("later", "\u{2192}", "Later"),
        ("whole", "All", "The whole run"),
    ] {
        let _ = writeln!(html, "<button type=\"button\" id=\"{id}\" aria-label=\"{label}\">{shown}</button>");
    }
    html += "</div>\n<div id=\"view\" tabindex=\"0\" role=\"application\" aria-roledescription=\"timeline\" \
             aria-label=\"Pipeline creations of the run\" aria-describedby=\"range keys\">\
             <svg aria-hidden=\"true\"></svg></div>\n";
    html += "<figcaption>\n<p id=\"range\"></p>\n<p id=\"detail\" aria-live=\"polite\"></p>\n";
    html += "<p id=\"keys\">One mark is one creation; the higher it is, the longer the call took. Keys: left and \
             right arrow move, + and \u{2212} zoom, 0 shows all, up and down arrow read the creations one after \
             the other. The lists below have the longest calls as text.</p>\n</figcaption>\n</figure>\n";
    html + "</section>\n"
}

fn script(report: &Report) -> Result<String, serde_json::Error> {
    let frames = |run: &RunTimeline| {
        let frame = |frame: &super::model::SlowFrame| (frame.at_us, frame.length_ns / 1000, frame.number);
        run.slow_frames.iter().map(frame).collect()
    };
    let runs = report.timelines.iter().map(|run| PictureOfRun {
        span_us: run.span_us,
        marks: &run.marks,
        bins: &run.bins,
        frames: frames(run),
    });
    let picture = Picture { sources: SOURCES, kinds: &report.kinds, runs: runs.collect() };
    let data = escape::json(&serde_json::to_string(&picture)?);
    Ok(format!(
        "<script type=\"application/json\" id=\"picture-data\">{data}</script>\n<script>{SCRIPT}</script>\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_numbers_have_commas() {
        assert_eq!([0, 999, 8120, 1_234_567].map(number), ["0", "999", "8,120", "1,234,567"]);
    }

    #[test]
    fn the_script_and_the_style_end_no_element() {
        for inline in [STYLE, SCRIPT] {
            assert!(!inline.contains("</") && !inline.contains("<!--") && !inline.contains("http"));
        }
    }
}
