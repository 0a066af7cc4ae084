//! How far the work is: a bar on a terminal, a line now and then elsewhere.

use std::fmt::Display;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::crew::Watcher;
use crate::output::eprint_line;
use crate::units::plain;

/// Without a terminal a line is printed so often.
const EVERY: Duration = Duration::from_secs(10);

/// The progress of one phase.
pub(crate) struct Progress {
    verb: &'static str,
    total: u64,
    done: u64,
    started: Instant,
    told: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// `verb`: what becomes of pipelines, for instance "made".
    pub(crate) fn new(verb: &'static str, total: u64) -> Progress {
        let now = Instant::now();
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{msg} [{wide_bar}] {pos}/{len}  {per_sec}, {eta} left");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
            bar.set_message(verb);
            bar
        });
        Progress { verb, total, done: 0, started: now, told: now, bar }
    }

    fn line(&self) -> String {
        let seconds = self.started.elapsed().as_secs_f64().max(0.001);
        let rate = self.done as f64 / seconds;
        let left = if rate > 0.0 { (self.total.saturating_sub(self.done)) as f64 / rate } else { 0.0 };
        let left = humantime::format_duration(Duration::from_secs(left.ceil() as u64));
        format!("{} {} of {}, {rate:.1} a second, {left} left", self.verb, self.done, self.total)
    }
}

impl Watcher for Progress {
    fn done(&mut self) {
        self.done += 1;
        match &self.bar {
            Some(bar) => bar.set_position(self.done.min(self.total)),
            None if self.told.elapsed() >= EVERY => {
                self.told = Instant::now();
                eprint_line(&self.line());
            }
            None => {}
        }
    }

    fn tell(&mut self, line: &dyn Display) {
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
