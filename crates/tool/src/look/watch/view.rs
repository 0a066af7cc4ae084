//! Content of the screen: the programs, and the chosen one.

use std::time::Instant;

use super::growth::Growth;
use super::program::Program;

/// The programs, and the chosen one.
#[derive(Default)]
pub(super) struct View {
    pub(super) programs: Vec<Program>,
    /// The chosen process, which stays chosen where others come and go.
    chosen: Option<u32>,
    growth: Growth,
}

impl View {
    /// The programs say this now.
    pub(super) fn update(&mut self, programs: Vec<Program>, now: Instant) {
        for program in &programs {
            if let Some(state) = &program.state {
                self.growth.note(program.pid, now, state.written_bytes);
            }
        }
        self.growth.keep(|pid| programs.iter().any(|program| program.pid == pid));
        self.programs = programs;
        if self.place().is_none() {
            self.chosen = self.programs.first().map(|program| program.pid);
        }
    }

    /// The place of the chosen program.
    pub(super) fn place(&self) -> Option<usize> {
        self.programs.iter().position(|program| Some(program.pid) == self.chosen)
    }

    /// The chosen program.
    pub(super) fn chosen(&self) -> Option<&Program> {
        self.programs.get(self.place()?)
    }

    /// Chooses the one so many places further down.
    pub(super) fn go(&mut self, by: isize) {
        let last = self.programs.len().saturating_sub(1);
        let place = self.place().unwrap_or_default().saturating_add_signed(by).min(last);
        self.chosen = self.programs.get(place).map(|program| program.pid);
    }

    /// Bytes per minute that the chosen program adds to the stash. None: not known yet.
    pub(super) fn growth(&self) -> Option<u64> {
        self.growth.per_minute(self.chosen?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::program::tests::program;
    use super::*;

    #[test]
    fn the_chosen_program_stays_chosen_and_keys_go_no_further_than_the_list() {
        let (mut view, now) = (View::default(), Instant::now());
        view.go(1);
        assert!(view.chosen().is_none() && view.growth().is_none());
        view.update([1, 2, 3].map(|pid| program(pid, "a")).into(), now);
        view.go(1);
        assert_eq!(view.chosen().unwrap().pid, 2);
        view.update([9, 2].map(|pid| program(pid, "a")).into(), now);
        assert_eq!((view.place(), view.chosen().unwrap().pid), (Some(1), 2));
        view.go(5);
        assert_eq!(view.place(), Some(1));
        view.go(-5);
        assert_eq!(view.place(), Some(0));
        view.update(Vec::new(), now);
        assert!(view.chosen().is_none());
    }
}
