//! Progress of work: a bar on standard error where that is a terminal, once the work has taken a second.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal as _, Read, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::term::output::eprint_line;
use crate::term::units::plain;

/// Nobody needs a bar for what takes less.
const PATIENCE: Duration = Duration::from_secs(1);
/// Where lines are printed in place of a bar, so often.
const EVERY: Duration = Duration::from_secs(10);

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Things,
    Bytes,
}

impl Unit {
    fn template(self) -> &'static str {
        match self {
            Unit::Things => "{msg} [{wide_bar}] {pos}/{len}, {eta} left",
            Unit::Bytes => "{msg} [{wide_bar}] {bytes}/{total_bytes}, {eta} left",
        }
    }
}

/// The progress of one piece of work. The bar is removed when this is dropped.
pub(crate) struct Progress {
    /// What is done to the things, for instance "verifying".
    doing: Cow<'static, str>,
    unit: Unit,
    began: Instant,
    told: Instant,
    has_lines: bool,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// `doing`: what is done to the things, for instance "verifying".
    pub(crate) fn new(doing: &'static str, unit: Unit) -> Progress {
        let now = Instant::now();
        Progress { doing: Cow::Borrowed(doing), unit, began: now, told: now, has_lines: false, bar: None }
    }

    /// Prints a line now and then where standard error is no terminal: for work of many minutes.
    pub(crate) fn or_lines(mut self) -> Progress {
        self.has_lines = true;
        self
    }

    /// What is done from now on.
    pub(crate) fn goes_on(&mut self, doing: String) {
        if let Some(bar) = &self.bar {
            bar.set_message(doing.clone());
        }
        self.doing = Cow::Owned(doing);
    }

    /// So much of it is done.
    pub(crate) fn set(&mut self, done: u64, total: u64) {
        let is_due = self.bar.is_none() && self.began.elapsed() >= PATIENCE;
        if is_due && io::stderr().is_terminal() {
            self.bar = Some(self.new_bar());
        }
        match &self.bar {
            Some(bar) => {
                bar.set_length(total);
                bar.set_position(done.min(total));
            }
            None if self.has_lines && is_due && self.told.elapsed() >= EVERY => {
                self.told = Instant::now();
                eprint_line(&self.line(done, total));
            }
            None => {}
        }
    }

    fn new_bar(&self) -> ProgressBar {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        // Time that passed before the bar was drawn counts for what is left.
        let bar = bar.with_elapsed(self.began.elapsed());
        let style = ProgressStyle::with_template(self.unit.template());
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
        bar.set_message(self.doing.clone());
        bar
    }

    fn line(&self, done: u64, total: u64) -> String {
        let seconds = self.began.elapsed().as_secs_f64().max(0.001);
        let rate = done as f64 / seconds;
        let left = if rate > 0.0 { total.saturating_sub(done) as f64 / rate } else { 0.0 };
        let left = humantime::format_duration(Duration::from_secs(left.ceil() as u64));
        format!("{} {done} of {total}, {rate:.1} a second, {left} left", self.doing)
    }

    /// Prints a line above the bar.
    pub(crate) fn tell(&self, line: &dyn Display) {
        match &self.bar {
            Some(bar) => bar.println(format!("vkstash: {}", plain(&line.to_string()))),
            None => eprint_line(line),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A reader or a writer whose bytes are the progress.
pub(crate) struct Metered<T> {
    inner: T,
    progress: Progress,
    done: u64,
    total: u64,
}

impl<T> Metered<T> {
    /// `total`: the bytes that pass, as far as it is known before.
    pub(crate) fn new(inner: T, doing: &'static str, total: u64) -> Metered<T> {
        Metered { inner, progress: Progress::new(doing, Unit::Bytes), done: 0, total }
    }

    fn passed(&mut self, bytes: usize) -> usize {
        self.done += bytes as u64;
        self.progress.set(self.done, self.total);
        bytes
    }
}

impl<T: Read> Read for Metered<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        Ok(self.passed(bytes))
    }
}

impl<T: Write> Write for Metered<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        Ok(self.passed(written))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
