//! The order in which a program is likely to ask for its pipelines: that of its last run, and what only earlier runs
//! used after it.

use super::gate;
use crate::state::stored::Stored;
use vkstash_store::format::record::{FORGOTTEN, Key, Kind, UseRecord};

/// One noted use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Noted {
    unix_ms: u64,
    sequence: u32,
    key: Key,
}

/// The keys whose uses the stash has, what the last run used first. None if the task must end: vkDestroyDevice waits
/// for it, and there may be many uses.
pub fn of(stored: &Stored) -> Option<Vec<Key>> {
    let mut noted = Vec::new();
    let counts_from = stored.stash.order_counts_from();
    stored.portable.for_each_until(Kind::Use, &gate::must_end, &mut |key, payload| {
        if let Some(UseRecord { unix_ms, sequence, .. }) = UseRecord::decode(payload) {
            if unix_ms >= counts_from && *key != FORGOTTEN {
                noted.push(Noted { unix_ms, sequence, key: *key });
            }
        }
    });
    (!gate::must_end()).then(|| in_order(noted))
}

/// A run counts its uses from 0 on, so a smaller number than before begins another one. Runs of two processes at the
/// same time look like many short ones: then the order is that of their times.
fn in_order(mut noted: Vec<Noted>) -> Vec<Key> {
    noted.sort_unstable();
    let mut runs: Vec<&[Noted]> = noted.chunk_by(|one, next| one.sequence < next.sequence).collect();
    runs.reverse();
    runs.into_iter().flatten().map(|noted| noted.key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_run_comes_first_and_each_run_in_its_own_order() {
        let noted = |unix_ms, sequence, key| Noted { unix_ms, sequence, key: [key; 32] };
        // The first run used 1 to 5; the second one used 4 and 2 again, and 6.
        let all = vec![
            noted(200, 1, 2),
            noted(100, 0, 1),
            noted(100, 2, 3),
            noted(200, 2, 6),
            noted(101, 4, 5),
            noted(199, 0, 4),
        ];
        let keys: Vec<u8> = in_order(all).iter().map(|key| key[0]).collect();
        assert_eq!(keys, [4, 2, 6, 1, 3, 5]);
    }
}
