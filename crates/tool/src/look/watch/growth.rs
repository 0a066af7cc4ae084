//! Growth of the stash, from what the writers of programs have written.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Time that the growth is taken from.
const WINDOW: Duration = Duration::from_secs(60);
/// What was seen for less says nothing.
const LEAST: Duration = Duration::from_secs(2);

/// What the programs had written at the last moments.
#[derive(Default)]
pub(super) struct Growth(BTreeMap<u32, VecDeque<(Instant, u64)>>);

impl Growth {
    /// The program has written so many bytes by now.
    pub(super) fn note(&mut self, pid: u32, now: Instant, bytes: u64) {
        let seen = self.0.entry(pid).or_default();
        // The number belongs to another process by now.
        if seen.back().is_some_and(|(_, before)| *before > bytes) {
            seen.clear();
        }
        while seen.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) > WINDOW) {
            seen.pop_front();
        }
        seen.push_back((now, bytes));
    }

    /// Forgets programs that have ended.
    pub(super) fn keep(&mut self, is_alive: impl Fn(u32) -> bool) {
        self.0.retain(|pid, _| is_alive(*pid));
    }

    /// Bytes per minute. None: not known yet.
    pub(super) fn per_minute(&self, pid: u32) -> Option<u64> {
        let seen = self.0.get(&pid)?;
        let ((first, before), (last, now)) = (seen.front()?, seen.back()?);
        let took = last.saturating_duration_since(*first);
        let grown = u128::from(now - before) * 60_000;
        (took >= LEAST).then(|| u64::try_from(grown / took.as_millis().max(1)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_that_of_the_last_minute() {
        let (mut growth, began) = (Growth::default(), Instant::now());
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        growth.note(1, at(0), 1000);
        assert_eq!(growth.per_minute(1), None);
        growth.note(1, at(30), 2000);
        assert_eq!(growth.per_minute(1), Some(2000));
        growth.note(1, at(80), 2000);
        assert_eq!(growth.per_minute(1), Some(0), "what was before is forgotten");
        growth.note(1, at(90), 10);
        assert_eq!(growth.per_minute(1), None, "another process");
        growth.keep(|pid| pid != 1);
        assert_eq!((growth.per_minute(1), growth.0.len()), (None, 0));
    }
}
