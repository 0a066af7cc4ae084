//! The order in which a device is likely to ask for its pipelines: that of the last run, and after it what only earlier
//! runs used.

use std::cmp::Reverse;
use std::collections::HashSet;

use rustc_hash::FxBuildHasher;

use super::gate;
use crate::state::process::stored::Stored;
use vkstash_host::sort;
use vkstash_model::record::{Key, RunDevices};
use vkstash_store::stash::uses::Noted;

/// The order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// What the last run's device is expected to ask for again comes first.
    pub keys: Vec<Key>,
    /// So many of them are that.
    pub of_last_run: usize,
    /// At these positions behind them begins what each of the earlier runs used last, from the latest run on.
    pub runs: Vec<usize>,
}

/// The keys whose uses the stash has. None if the task must end: vkDestroyDevice waits for it, and there may be many
/// uses.
pub fn of(stored: &Stored) -> Option<Order> {
    let noted = stored.stash.noted_uses(&gate::must_end)?;
    Some(in_order(noted, stored.stash.run(), stored.uses.device()))
}

/// A device is expected to ask for what the device of the same number has asked for in the last run, and, where
/// processes ran at the same time, in the others after the start of the last one. If the last run had no device of that
/// number or a later one, as where a program makes its device again, it is what all of its devices have asked for, and
/// before that what this run has asked for. `own` is the number of this run, whose uses are not those of an earlier
/// one.
pub fn in_order(mut noted: Vec<Noted>, own: u64, device: RunDevices) -> Order {
    let last = noted.iter().map(|noted| noted.run).filter(|run| *run != own).max();
    let of_last = || noted.iter().filter(|noted| Some(noted.run) == last);
    let began = of_last().map(|noted| noted.unix_ms).min();
    let is_known = of_last().any(|noted| noted.devices.reach(device));
    let is_expected = |noted: &Noted| match noted.run == own {
        true => !is_known,
        false => {
            let is_late = Some(noted.run) == last || began.is_some_and(|began| noted.unix_ms >= began);
            is_late && (!is_known || noted.devices.has(device))
        }
    };
    // What this run has used since an earlier one has the place that it had there, unless that says nothing.
    let is_left_out = |noted: &Noted| (noted.run == own) == is_known;
    let others = noted.iter().filter(|noted| !is_left_out(noted)).map(|noted| noted.key);
    let others: HashSet<Key, FxBuildHasher> = others.collect();
    noted.retain(|noted| !is_left_out(noted) || !others.contains(&noted.key));
    sort::by_key(&mut noted, |noted| {
        (!is_expected(noted), noted.run != own, Reverse(noted.run), noted.sequence, noted.key)
    });
    let of_last_run = noted.partition_point(is_expected);
    let others = of_last_run..noted.len();
    let is_start = |at: &usize| *at == of_last_run || noted[*at].run != noted[*at - 1].run;
    let runs = others.filter(is_start).collect();
    Order { keys: noted.iter().map(|noted| noted.key).collect(), of_last_run, runs }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This run.
    const OWN: u64 = 9;

    /// A use by the first device.
    fn noted(run: u64, sequence: u32, key: u8) -> Noted {
        used(run, sequence, key, &[0])
    }

    fn used(run: u64, sequence: u32, key: u8, devices: &[u32]) -> Noted {
        let unix_ms = 100 * run + u64::from(sequence);
        let devices = devices.iter().fold(RunDevices::default(), |all, one| all.and(RunDevices::only(*one)));
        Noted { unix_ms, run, sequence, devices, key: [key; 32] }
    }

    fn ordered(noted: &[Noted], device: u32) -> (Vec<u8>, usize) {
        let order = in_order(noted.to_vec(), OWN, RunDevices::only(device));
        (order.keys.iter().map(|key| key[0]).collect(), order.of_last_run)
    }

    #[test]
    fn the_last_run_comes_first_and_each_run_in_its_own_order() {
        // The first run used 1 to 5; the second one used 4 and 2 again, and 6.
        let all =
            [noted(2, 1, 2), noted(1, 0, 1), noted(1, 2, 3), noted(2, 2, 6), noted(1, 4, 5), noted(2, 0, 4)];
        assert_eq!(ordered(&all, 0), (vec![4, 2, 6, 1, 3, 5], 3));
        assert_eq!(ordered(&[], 0), (Vec::new(), 0));
        assert_eq!(in_order(all.to_vec(), OWN, RunDevices::only(0)).runs, [3]);
    }

    #[test]
    fn what_each_earlier_run_used_last_is_kept_apart() {
        let all = [noted(4, 0, 1), noted(1, 0, 2), noted(3, 0, 3), noted(1, 1, 4), noted(2, 0, 5)];
        let order = in_order(all.to_vec(), OWN, RunDevices::only(0));
        assert_eq!((order.of_last_run, order.runs), (1, vec![1, 2, 3]));
        assert_eq!(order.keys.iter().map(|key| key[0]).collect::<Vec<_>>(), [1, 3, 5, 2, 4]);
    }

    #[test]
    fn the_uses_of_this_process_are_not_those_of_the_last_run() {
        let all = [noted(1, 0, 1), noted(2, 0, 2), noted(2, 1, 3), noted(OWN, 0, 4)];
        assert_eq!(ordered(&all, 0), (vec![2, 3, 4, 1], 2));
        let only_own = [noted(OWN, 1, 2), noted(OWN, 0, 1)];
        assert_eq!(ordered(&only_own, 1), (vec![1, 2], 2), "a second device in the first run");
    }

    #[test]
    fn what_this_run_has_used_already_is_where_an_earlier_run_used_it() {
        let all = [noted(2, 0, 1), noted(1, 0, 5), noted(1, 1, 6), noted(OWN, 0, 6), noted(OWN, 1, 7)];
        let order = in_order(all.to_vec(), OWN, RunDevices::only(0));
        assert_eq!(order.keys.iter().map(|key| key[0]).collect::<Vec<_>>(), [1, 7, 5, 6]);
        assert_eq!((order.of_last_run, order.runs), (1, vec![1, 2]));
        assert_eq!(ordered(&all, 3), (vec![6, 7, 1, 5], 3), "made again: what this run used comes first");
    }

    #[test]
    fn each_device_is_expected_to_ask_for_what_the_one_of_its_number_asked_for() {
        let all = [
            noted(1, 0, 9),
            used(2, 0, 1, &[0]),
            used(2, 1, 2, &[0, 2]),
            used(2, 2, 3, &[2]),
            used(OWN, 0, 4, &[0]),
        ];
        assert_eq!(ordered(&all, 0), (vec![1, 2, 4, 3, 9], 2));
        assert_eq!(ordered(&all, 1), (vec![4, 1, 2, 3, 9], 0), "it was there, and asked for nothing");
        assert_eq!(ordered(&all, 2), (vec![2, 3, 4, 1, 9], 2));
        assert_eq!(ordered(&all, 3), (vec![4, 1, 2, 3, 9], 4), "made again");
        let many = [used(2, 0, 1, &[RunDevices::MOST + 5])];
        assert_eq!(ordered(&many, 1000), (vec![1], 1));
        assert_eq!(ordered(&many, 30), (vec![1], 0));
    }

    #[test]
    fn what_others_used_after_the_last_run_began_counts_as_the_last_runs() {
        let at =
            |run: u64, unix_ms: u64, sequence: u32, key: u8| Noted { unix_ms, ..noted(run, sequence, key) };
        // The second process begins at 103 beside the first one.
        let all = [at(1, 50, 0, 9), at(2, 100, 0, 1), at(3, 103, 0, 2), at(2, 104, 1, 3), at(3, 105, 1, 4)];
        assert_eq!(ordered(&all, 0), (vec![2, 4, 3, 1, 9], 3));
    }
}
