//! The order in which a program is likely to ask for its pipelines: that of its last run, and what only earlier runs
//! used after it.

use super::gate;
use crate::state::stored::Stored;
use vkstash_store::base::sort;
use vkstash_store::format::record::Key;
use vkstash_store::stash::uses::Noted;

/// The order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// What the last run used comes first.
    pub keys: Vec<Key>,
    /// So many of them are what the last run used. Where processes ran at the same time, they are what the last of
    /// these used, and what the others used after its start.
    pub of_last_run: usize,
}

/// The keys whose uses the stash has. None if the task must end: vkDestroyDevice waits for it, and there may be many
/// uses.
pub fn of(stored: &Stored) -> Option<Order> {
    let noted = stored.stash.noted_uses(&gate::must_end)?;
    Some(in_order(noted, |key| stored.stash.is_used(key)))
}

/// A run counts its uses from 0 on, so a smaller number than before begins another one. Runs of two processes at the
/// same time look like many short ones: then the order is that of their times. `is_used_now`: by this process, whose
/// uses are not those of an earlier run.
pub fn in_order(mut noted: Vec<Noted>, is_used_now: impl Fn(&Key) -> bool) -> Order {
    sort::sort(&mut noted);
    let mut order = Order::default();
    let mut is_known = false;
    for run in noted.chunk_by(|one, next| one.sequence < next.sequence).rev() {
        order.keys.extend(run.iter().map(|noted| noted.key));
        if !is_known {
            order.of_last_run = order.keys.len();
            let begins = run.first().is_some_and(|noted| noted.sequence == 0);
            is_known = begins && order.keys.iter().any(|key| !is_used_now(key));
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(unix_ms: u64, sequence: u32, key: u8) -> Noted {
        Noted { unix_ms, run: 0, sequence, key: [key; 32] }
    }

    fn ordered(noted: Vec<Noted>, used_now: &[u8]) -> (Vec<u8>, usize) {
        let order = in_order(noted, |key| used_now.contains(&key[0]));
        (order.keys.iter().map(|key| key[0]).collect(), order.of_last_run)
    }

    #[test]
    fn the_last_run_comes_first_and_each_run_in_its_own_order() {
        // The first run used 1 to 5; the second one used 4 and 2 again, and 6.
        let all = vec![
            noted(200, 1, 2),
            noted(100, 0, 1),
            noted(100, 2, 3),
            noted(200, 2, 6),
            noted(101, 4, 5),
            noted(199, 0, 4),
        ];
        assert_eq!(ordered(all, &[]), (vec![4, 2, 6, 1, 3, 5], 3));
        assert_eq!(ordered(Vec::new(), &[]), (Vec::new(), 0));
    }

    #[test]
    fn the_uses_of_this_process_are_not_those_of_the_last_run() {
        let all = vec![noted(100, 0, 1), noted(200, 0, 2), noted(200, 1, 3), noted(300, 0, 4)];
        assert_eq!(ordered(all.clone(), &[4]), (vec![4, 2, 3, 1], 3));
        assert_eq!(ordered(all.clone(), &[4, 2]), (vec![4, 2, 3, 1], 3));
        assert_eq!(ordered(all, &[4, 3, 2, 1]), (vec![4, 2, 3, 1], 4));
    }

    #[test]
    fn the_last_run_reaches_back_to_its_beginning() {
        // Two processes at the same time.
        let all = vec![
            noted(50, 0, 9),
            noted(100, 0, 1),
            noted(101, 0, 2),
            noted(102, 1, 3),
            noted(103, 1, 4),
            noted(104, 2, 5),
            noted(105, 2, 6),
        ];
        assert_eq!(ordered(all, &[]), (vec![6, 4, 5, 2, 3, 1, 9], 5));
    }
}
