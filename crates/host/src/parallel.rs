//! The same work on many things, for tools: on as many threads as there are processors.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, available_parallelism, scope};

use crate::sync::Mutex;

/// More threads read no disk faster.
const MOST: usize = 8;

/// The results for all items, in their order. Without threads this one does everything.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(items.len()));
    let run = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return };
            let result = work(item);
            results.lock().push((at, result));
        }
    };
    let helpers = available_parallelism().map_or(1, usize::from).min(MOST).min(items.len()).saturating_sub(1);
    scope(|scope| {
        for _ in 0..helpers {
            let _ = Builder::new().spawn_scoped(scope, run);
        }
        run();
    });
    let mut results = results.into_inner();
    results.sort_unstable_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_stand_in_the_order_of_the_items() {
        for count in [0, 1, 2, 1000] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(map(&items, |item| item * 2), items.iter().map(|item| item * 2).collect::<Vec<_>>());
        }
    }

    #[test]
    #[should_panic]
    fn a_panic_of_the_work_is_not_lost() {
        map(&[1, 2, 3], |item| assert_ne!(*item, 2));
    }
}
