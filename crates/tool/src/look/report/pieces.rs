//! Pieces of the page: numbers, tables, the title of a run, links to pipelines.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::escape::text;
use super::model::{Report, RunTimeline};
use crate::term::time::moment;

/// Digits of a key in the page, and in the anchor of its pipeline.
pub(super) const DIGITS: usize = 12;

/// The pipelines that have a row of their own, by the first digits of their keys.
pub(super) struct Anchors(HashSet<String>);

impl Anchors {
    pub(super) fn of(report: &Report) -> Anchors {
        Anchors(report.slowest.iter().map(|pipeline| pipeline.key[..DIGITS].to_owned()).collect())
    }

    /// A pipeline's first digits, as a link where the page describes it.
    pub(super) fn link(&self, key: &str) -> String {
        let digits = key.get(..DIGITS).unwrap_or(key);
        let shown = &digits[..digits.len().min(8)];
        if self.0.contains(digits) {
            format!("<a href=\"#p-{digits}\"><code>{shown}</code></a>")
        } else {
            format!("<code>{}</code>", text(shown))
        }
    }
}

/// `12,345`.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// A table: its caption, and the names of its columns, of which those with numbers are aligned to the right.
pub(super) fn table(caption: &str, columns: &[(&str, bool)], rows: &str) -> String {
    let mut html = format!("<table>\n<caption>{caption}</caption>\n<thead><tr>");
    for (name, is_number) in columns {
        let class = if *is_number { " class=\"number\"" } else { "" };
        let _ = write!(html, "<th scope=\"col\"{class}>{name}</th>");
    }
    let _ = write!(html, "</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n");
    html
}

/// `2026-11-21 05:10, 1,234 creations`.
pub(super) fn title(run: &RunTimeline) -> String {
    let started = run.started_unix_ms.unwrap_or(run.first_unix_us / 1000);
    let things = if run.creations == 1 { "creation" } else { "creations" };
    format!("{}, {} {things}", moment(started), number(run.creations))
}
