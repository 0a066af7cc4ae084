//! Messages of the benchmark.

/// Prints a line of progress on stderr; only the tables go to stdout.
pub(crate) fn progress(text: &str) {
    eprintln!("{text}");
}
