use vkstash_model::record::RunDevices;

use super::*;

fn key(number: u32) -> Key {
    let mut key = [1; 32];
    key[..4].copy_from_slice(&number.to_le_bytes());
    key
}

fn recorded(runs: &[Vec<u32>], parts: &[(u32, u32)]) -> Recorded {
    let mut uses = Vec::new();
    for (run, numbers) in (1..).zip(runs) {
        uses.extend(numbers.iter().zip(0..).map(|(number, sequence)| {
            let unix_ms = run * 1_000_000_000 + u64::from(sequence);
            (key(*number), UseRecord { unix_ms, sequence, devices: RunDevices::ALL, run })
        }));
    }
    let mut named: HashMap<Key, Vec<Key>> = HashMap::new();
    parts.iter().for_each(|(pipeline, part)| named.entry(key(*pipeline)).or_default().push(key(*part)));
    Recorded::new(uses, &named)
}

fn of(sums: &[Sum], name: &str) -> Sum {
    sums[NAMES.iter().position(|other| *other == name).expect("a predictor")]
}

#[test]
fn the_same_order_again_is_ready_by_the_plan_and_by_what_followed() {
    let sums = recorded(&[(0..100).collect(), (0..100).collect()], &[]).replay(1.0);
    assert_eq!(of(&sums, "plan"), Sum { requests: 100, new: 0, ready: 100, made: 100 });
    // Before the first request nothing is known to follow.
    assert_eq!(of(&sums, "followers"), Sum { requests: 100, new: 0, ready: 99, made: 99 });
    assert_eq!(of(&sums, "same modules").ready, 0);
}

#[test]
fn a_make_for_every_second_request_is_half_as_many() {
    let sums = recorded(&[(0..100).collect(), (0..100).collect()], &[]).replay(0.5);
    assert!(sums.iter().all(|sum| sum.made <= 50 && sum.ready <= sum.made), "{sums:?}");
}

#[test]
fn a_run_is_predicted_from_earlier_ones_alone() {
    let sums = recorded(&[vec![1, 2, 3], vec![4, 5, 6]], &[]).replay(4.0);
    for sum in sums {
        assert_eq!((sum.requests, sum.new, sum.ready), (3, 3, 0));
        assert_eq!(sum.in_vain(), sum.made);
    }
}

#[test]
fn two_parts_of_a_program_in_the_other_order_are_found_by_what_followed() {
    let (one, other): (Vec<u32>, Vec<u32>) = ((0..50).collect(), (50..100).collect());
    let (first, second) = ([one.clone(), other.clone()].concat(), [other, one].concat());
    let sums = recorded(&[first, second], &[]).replay(1.0);
    assert!(of(&sums, "followers").ready >= 97, "{sums:?}");
    assert!(of(&sums, "followers, then plan").ready >= 97, "{sums:?}");
}

#[test]
fn pipelines_of_a_module_are_found_by_a_new_one_with_it() {
    // Run 2 begins with 90, which no run has asked for, and which shares the module 1000 with 40.
    let parts = [(40, 1000), (90, 1000)];
    let runs = [(0..80).collect(), vec![90, 40]];
    let sums = recorded(&runs, &parts).replay(1.0);
    assert_eq!(of(&sums, "same modules"), Sum { requests: 2, new: 1, ready: 1, made: 1 });
    assert_eq!(of(&sums, "plan").ready, 0);
}

#[test]
fn many_keys_of_one_module_are_replayed() {
    const COUNT: u32 = 200_000;
    // 7919 and the count have no common divisor, so this is every key once, in another order.
    let shuffled = (0..COUNT).map(|at| (u64::from(at) * 7919 % u64::from(COUNT)) as u32);
    let parts: Vec<(u32, u32)> = (0..COUNT).map(|number| (number, COUNT)).collect();
    let sums = recorded(&[(0..COUNT).collect(), shuffled.collect()], &parts).replay(1.0);
    for (name, sum) in NAMES.iter().zip(&sums) {
        assert_eq!((sum.requests, sum.new), (COUNT as usize, 0), "{name}");
        assert!(sum.made <= COUNT as usize && sum.ready <= sum.made, "{name}: {sum:?}");
    }
    // The layer's plan has no more keys than this.
    assert!(of(&sums, "plan").made <= VkLayer_vkstash::planned::Plan::MOST);
    assert!(of(&sums, "followers").ready > 0 && of(&sums, "same modules").ready > 0, "{sums:?}");
}
