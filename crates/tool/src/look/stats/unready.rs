//! Why pipelines were not ready before a program asked for them.

use std::cmp::Reverse;

use vkstash_model::counters::{Class, Count};

/// How many were not ready, and why: the most frequent reason first. None: all were, or nothing is made ahead.
pub(crate) fn of(get: impl Fn(Count) -> u64) -> Option<(u64, String)> {
    let misses = Count::ALL.iter().filter(|what| what.class() == Class::Miss);
    let mut reasons: Vec<_> = misses.map(|&what| (get(what), what.text())).collect();
    reasons.retain(|&(count, _)| count > 0);
    reasons.sort_by_key(|&(count, _)| Reverse(count));
    let all = reasons.iter().fold(0_u64, |sum, &(count, _)| sum.saturating_add(count));
    let words: Vec<_> = reasons.iter().map(|(count, words)| format!("{count} {words}")).collect();
    (all > 0).then(|| (all, words.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_reason_comes_first() {
        let get = |what: Count| match what {
            Count::NotPlanned => 2,
            Count::NoProcessorFree => 30,
            Count::Compiled => 9,
            _ => 0,
        };
        let words = "30 asked for while no processor was free, 2 that the last run did not ask for";
        assert_eq!(of(get), Some((32, words.to_owned())));
        assert_eq!(of(|_| 0), None);
        assert_eq!(of(|_| u64::MAX).map(|(all, _)| all), Some(u64::MAX), "reports may be forged");
    }
}
