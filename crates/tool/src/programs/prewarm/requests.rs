//! Requests of the program beside which pipelines are made: what it asks for next is made first.

use std::collections::{HashMap, VecDeque};

use vkstash_model::live::key_number;

use super::order::Task;
use crate::reports::live_pages::{self, Page};

/// The program, if it shows what it asks for (its live page).
pub(crate) struct Requests {
    page: Option<Page>,
    /// The places of keys in the order of use, by what a live page has of a key.
    places: HashMap<u64, usize>,
    at: Option<usize>,
}

impl Requests {
    /// `program`: its process. `tasks`: what is to be made.
    pub(crate) fn new<'a>(program: Option<u32>, tasks: impl Iterator<Item = &'a Task>) -> Requests {
        let page = program.and_then(live_pages::page_of);
        let places = if page.is_some() {
            tasks.map(|task| (key_number(&task.key), task.place)).collect()
        } else {
            HashMap::new()
        };
        Requests { page, places, at: None }
    }

    /// The place of the key that the program has asked for last, among those that are to be made. None: of none yet.
    pub(crate) fn at(&mut self) -> Option<usize> {
        let latest = self.page.as_ref().and_then(|page| page.read().ok()).and_then(|live| live.latest_key);
        if let Some(&place) = latest.and_then(|key| self.places.get(&key)) {
            self.at = Some(place);
        }
        self.at
    }
}

/// Which of these tasks a worker begins, among those that suit it. `at`: where the program is, and where it was when
/// the worker began what it has just made. While the worker makes another one, the program asks for as many more again:
/// what it asks for until then it has to compile itself. If nothing is left behind that, the last one is taken, which
/// the program is furthest from.
pub(crate) fn next(
    tasks: &VecDeque<Task>,
    at: Option<usize>,
    before: Option<usize>,
    suits: impl Fn(&Task) -> bool,
) -> Option<usize> {
    let Some(at) = at else { return tasks.iter().position(suits) };
    let went_on = at.saturating_sub(before.unwrap_or(at)).max(1);
    let is_in_time = |task: &Task| task.place > at.saturating_add(went_on);
    let in_time = tasks.iter().position(|task| suits(task) && is_in_time(task));
    in_time.or_else(|| tasks.iter().rposition(suits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_needs_next_is_begun_first() {
        let tasks: VecDeque<Task> = (0..10).map(|at| Task::new([at as u8; 32], at, 1)).collect();
        for (at, before, expected) in [
            (None, None, 0),
            // The next one it is about to ask for.
            (Some(0), None, 2),
            (Some(3), Some(3), 5),
            (Some(3), Some(2), 5),
            // It has asked for three while the worker made one.
            (Some(3), Some(0), 7),
            // It has gone back.
            (Some(1), Some(8), 3),
            (Some(8), Some(0), 9),
            (Some(9), Some(8), 9),
        ] {
            assert_eq!(next(&tasks, at, before, |_| true), Some(expected), "{at:?} {before:?}");
        }
        assert_eq!(next(&tasks, Some(2), None, |task| task.place == 1), Some(1), "what it has left behind");
        assert_eq!(next(&tasks, Some(2), None, |_| false), None);
        assert_eq!(next(&VecDeque::new(), None, None, |_| true), None);
    }
}
