//! Progress of the work, for people.

use std::fmt::Display;

use super::crew::Watcher;
use crate::term::progress::{Progress, Unit};

/// The progress of the keys that are made.
pub(crate) struct Keys {
    progress: Progress,
    total: u64,
    done: u64,
}

impl Keys {
    pub(crate) fn new(total: u64) -> Keys {
        Keys { progress: Progress::new("made", Unit::Things).or_lines(), total, done: 0 }
    }
}

impl Watcher for Keys {
    fn done(&mut self) {
        self.done += 1;
        self.progress.set(self.done, self.total);
    }

    fn tell(&mut self, line: &dyn Display) {
        self.progress.tell(line);
    }
}
