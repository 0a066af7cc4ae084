//! What the benchmark says while it works.

/// A line of progress; the tables alone go to stdout.
pub(crate) fn progress(text: &str) {
    eprintln!("{text}");
}
