//! Tests of the size of a cache's data that programs are told. Some ask after each pipeline (Godot 4), some on another
//! thread than the one that creates pipelines. What a question costs is counted in the driver's calls.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use ash::vk;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use vkstash_layer_tests::child::{Run, Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::work::Work;

use super::{calls, device};

/// What a program does that asks for the size after each pipeline.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Program {
    count: u32,
    /// What its file has.
    initial: Vec<u8>,
    /// Every so many pipelines it reads the data as well. 0: only at the end.
    reads_each: u32,
}

/// What the driver was asked for by one question, or by one read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Cost {
    /// Caches that were created.
    created: usize,
    /// Entries of initial data.
    loaded: u64,
    /// Entries that were merged.
    merged: u64,
    /// Questions for the data of a cache that has something.
    asked: usize,
}

#[derive(Debug, Serialize, Deserialize)]
struct Told {
    first: usize,
    /// After each pipeline.
    sizes: Vec<usize>,
    questions: Vec<Cost>,
    reads: Vec<Cost>,
    /// The data at the end.
    data: Vec<u8>,
    /// Entries that caches of the layer's were created with, by the calling thread.
    loaded: u64,
}

/// What this thread of the program has cost: workers make caches of their own meanwhile.
fn cost(record: &Value, thread: &Value) -> Cost {
    let sum = |calls: &[&Value], what: &str| calls.iter().filter_map(|call| call[what].as_u64()).sum();
    let calls = |command| {
        let mut calls = calls(record, command);
        calls.retain(|call| call["thread"] == *thread);
        calls
    };
    let created = calls("vkCreatePipelineCache");
    let asked = calls("vkGetPipelineCacheData");
    Cost {
        created: created.len(),
        loaded: sum(&created, "initial_entries"),
        merged: sum(&calls("vkMergePipelineCaches"), "entries"),
        asked: asked.iter().filter(|call| call["entries"].as_u64() > Some(0)).count(),
    }
}

/// Asks after each pipeline, and reads.
fn ask_after_each(input: &Value) -> Value {
    let Program { count, initial, reads_each } = serde_json::from_value(input.clone()).unwrap();
    let device = device(false);
    let driver = TestDriver::open();
    driver.take_record();
    let cache = device.cache(&initial);
    let record = driver.take_record();
    let ours = calls(&record, "vkCreatePipelineCache");
    let thread = &ours.iter().find(|call| call["initial_size"] == initial.len()).unwrap()["thread"];
    let cost = |record: Value| cost(&record, thread);
    let mut told = Told {
        first: device.cache_size(cache),
        sizes: Vec::new(),
        questions: Vec::new(),
        reads: Vec::new(),
        data: Vec::new(),
        loaded: 0,
    };
    for first in 1..=count {
        assert!(Work { first, count: 1, ..Work::default() }.run_through(&device, cache).all_made());
        told.loaded += cost(driver.take_record()).loaded;
        told.sizes.push(device.cache_size(cache));
        told.questions.push(cost(driver.take_record()));
        if reads_each > 0 && first % reads_each == 0 {
            let (result, size) = device.cache_data_into(cache, *told.sizes.last().unwrap());
            assert_eq!(result, vk::Result::SUCCESS, "as large as was told");
            assert!(size <= *told.sizes.last().unwrap());
            told.reads.push(cost(driver.take_record()));
        }
    }
    let all = told.questions.iter().chain(&told.reads);
    told.loaded += all.map(|cost| cost.loaded).sum::<u64>();
    told.data = device.cache_data(cache);
    device.destroy_cache(cache);
    json!(told)
}

/// Bytes that a program with a file may be told beyond what a read gets (src/serve/complete_data.rs).
const PADDING: usize = 64;

type Step = (&'static str, fn(&Value) -> Value);

/// Who is asked first, and the number of workers, which make caches as well.
const SETTINGS: [[&str; 2]; 3] = [["stash", "0"], ["stash", "2"], ["driver", "2"]];

fn with([ask_first, workers]: [&str; 2], env: &Env) -> Env {
    env.clone().var("VKSTASH_ASK_FIRST", ask_first).var("VKSTASH_BACKGROUND_WORKERS", workers)
}

fn on_test_driver(test: impl Fn(&Scenario, &Env)) {
    for settings in SETTINGS {
        let steps: [Step; 3] = [("ask", ask_after_each), ("race", race), ("at once", read_at_once)];
        scenario(&steps, |scenario| {
            let env = scenario.on(Driver::Test(json!({}))).unwrap();
            test(scenario, &with(settings, &env));
        });
    }
}

#[test]
fn a_question_for_the_size_merges_what_was_added_and_nothing_else() {
    on_test_driver(|scenario, env| {
        for (round, count) in [("cold", 40), ("warm", 40), ("warm again", 40)] {
            let program = Program { count, initial: Vec::new(), reads_each: 0 };
            let Run { value: told, reports, .. } = scenario.run_ok::<Told>("ask", env, &program);
            let what = format!("{round}: {told:?}, {:?}", reports.counters());
            assert!(told.sizes.is_sorted(), "a size shrinks: {what}");
            for cost in &told.questions {
                assert!(cost.merged <= 1 && cost.loaded <= 1 && cost.asked <= 1, "{what}");
            }
            // And an empty one of the device, once.
            let created: usize = told.questions.iter().map(|cost| cost.created).sum();
            assert!(created <= count as usize + 1, "{what}");
            assert!(told.loaded <= u64::from(count), "{what}");
            assert_eq!(told.sizes.last(), Some(&told.data.len()), "{what}");
        }
    });
}

#[test]
fn a_loaded_file_is_merged_once_and_what_it_has_is_counted_once() {
    on_test_driver(|scenario, env| {
        let mut program = Program { count: 40, initial: Vec::new(), reads_each: 0 };
        let bare = scenario.run_ok::<Told>("ask", &env.clone().without_layer(), &program).value;
        scenario.run_ok::<Told>("ask", env, &program);
        program.initial = bare.data;
        let bare = scenario.run_ok::<Told>("ask", &env.clone().without_layer(), &program).value;
        assert!(bare.sizes.iter().all(|size| *size == bare.first), "without the layer nothing is new");
        for round in ["warm", "warm again"] {
            let Run { value: told, reports, .. } = scenario.run_ok::<Told>("ask", env, &program);
            let what = format!("{round}: {told:?}, {:?}", reports.counters());
            // The file has it all.
            assert_eq!(told.data.len(), bare.data.len(), "{what}");
            let all = bare.first..=bare.first + PADDING;
            assert!(told.sizes.iter().all(|size| all.contains(size)), "{what}");
            let merged: u64 = told.questions.iter().map(|cost| cost.merged).sum();
            assert!(merged <= 40 + 40, "{what}");
        }
    });
}

#[test]
fn a_read_merges_what_was_added_and_copies_once() {
    on_test_driver(|scenario, env| {
        for round in ["cold", "warm", "warm again"] {
            let program = Program { count: 40, initial: Vec::new(), reads_each: 4 };
            let Run { value: told, reports, .. } = scenario.run_ok::<Told>("ask", env, &program);
            let what = format!("{round}: {told:?}, {:?}", reports.counters());
            assert_eq!(told.reads.len(), 10);
            for cost in &told.reads {
                // The question before it has merged everything. The driver's own object is asked for its size, too.
                assert_eq!((cost.created, cost.loaded, cost.merged), (0, 0, 0), "{what}");
                assert!(cost.asked <= 2, "{what}");
            }
        }
    });
}

/// What a thread that saves meets beside one that creates pipelines again which it has: answers of the driver, and how
/// often the size has changed.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Saves {
    complete: usize,
    incomplete: usize,
    others: usize,
    sizes: usize,
    /// Entries of the data at the end.
    bytes: usize,
}

/// Saves while another thread creates nothing new.
fn race(input: &Value) -> Value {
    let initial: Vec<u8> = serde_json::from_value(input.clone()).unwrap();
    let device = device(false);
    let cache = device.cache(&initial);
    let create = |first| Work { first, count: 1, ..Work::default() }.run_through(&device, cache);
    (1..=8).for_each(|first| assert!(create(first).all_made()));
    let mut saves = Saves { complete: 0, incomplete: 0, others: 0, sizes: 0, bytes: 0 };
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut again = (1..=8).cycle();
            while !ends.load(Ordering::Relaxed) {
                create(again.next().unwrap());
                std::thread::yield_now();
            }
        });
        let mut last = 0;
        for _ in 0..200 {
            let size = device.cache_size(cache);
            saves.sizes += usize::from(size != std::mem::replace(&mut last, size));
            match device.cache_data_into(cache, size) {
                (vk::Result::SUCCESS, read) => {
                    saves.complete += 1;
                    saves.bytes = read;
                }
                (vk::Result::INCOMPLETE, _) => saves.incomplete += 1,
                _ => saves.others += 1,
            }
            std::thread::yield_now();
        }
        ends.store(true, Ordering::Relaxed);
    });
    device.destroy_cache(cache);
    json!(saves)
}

fn assert_all_saved(saves: &Saves, what: &str) {
    let Saves { complete, incomplete, others, sizes, .. } = *saves;
    assert_eq!((complete, incomplete, others, sizes), (200, 0, 0, 1), "{what}");
}

#[test]
fn saves_beside_a_thread_that_adds_nothing_are_complete() {
    on_test_driver(|scenario, env| {
        let none: [u8; 0] = [];
        let bare = scenario.run_ok::<Saves>("race", &env.clone().without_layer(), &none).value;
        assert_all_saved(&bare, "without the layer");
        for round in ["cold", "warm", "warm again"] {
            let run = scenario.run_ok::<Saves>("race", env, &none);
            assert_all_saved(&run.value, &format!("{round}: {:?}", run.reports.counters()));
            assert_eq!(run.value.bytes, bare.bytes, "{round}");
        }
    });
}

/// Four threads that ask and read at the same time. The answers of all, without repetitions.
fn read_at_once(_: &Value) -> Value {
    let device = device(false);
    let cache = device.cache(&[]);
    let answers = Mutex::new(BTreeSet::new());
    for first in 1..=8 {
        assert!(Work { first, count: 1, ..Work::default() }.run_through(&device, cache).all_made());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        let size = device.cache_size(cache);
                        let (result, read) = device.cache_data_into(cache, size);
                        answers.lock().unwrap().insert((first, result.as_raw(), read));
                    }
                });
            }
        });
    }
    device.destroy_cache(cache);
    json!(answers)
}

#[test]
fn threads_that_read_at_once_get_everything() {
    on_test_driver(|scenario, env| {
        let bare = scenario.run_ok::<Value>("at once", &env.clone().without_layer(), &()).value;
        for round in ["cold", "warm", "warm again"] {
            let run = scenario.run_ok::<Value>("at once", env, &());
            assert_eq!(run.value, bare, "{round}: {:?}", run.reports.counters());
        }
    });
}

/// One thread that creates a pipeline again between the size and the data. With a file each is there before, and each
/// second creation asks for feedback: the program's own cache is asked then.
fn create_between(input: &Value) -> Value {
    let initial: Vec<u8> = serde_json::from_value(input.clone()).unwrap();
    let device = device(false);
    let cache = device.cache(&initial);
    let create = |first, feedback| {
        let work = Work { first, count: 1, feedback, ..Work::default() };
        assert!(work.run_through(&device, cache).all_made());
    };
    let has_file = !initial.is_empty();
    if has_file {
        (1..=8).for_each(|first| create(first, false));
    }
    let mut answers = Vec::new();
    for round in 0..10 {
        for first in 1..=8 {
            let size = device.cache_size(cache);
            create(first, has_file && first % 2 == 0);
            let answer = device.cache_data_into(cache, size).0.as_raw();
            if round > 0 || has_file {
                answers.push((size, answer));
            }
        }
    }
    let data = device.cache_data(cache);
    device.destroy_cache(cache);
    json!((answers, data))
}

/// Saves of a program that begins without a file, and has one later. `env` is one driver's.
fn assert_saves_are_complete(scenario: &Scenario, env: &Env, what: &str) {
    let mut file = Vec::new();
    for round in ["cold", "warm", "with a file", "with a file again"] {
        let initial = if round.starts_with("with") { file.clone() } else { Vec::new() };
        let run = scenario.run_ok::<(Vec<(usize, i32)>, Vec<u8>)>("between", env, &initial);
        let (answers, data) = run.value;
        let what = format!("{round}, {what}: {answers:?}, {:?}", run.reports.counters());
        assert!(answers.is_sorted_by_key(|(size, _)| *size), "{what}");
        assert!(answers.iter().all(|(_, answer)| *answer == 0), "{what}");
        let run = scenario.run_ok::<Saves>("race", env, &initial);
        assert_all_saved(&run.value, &format!("{what}, then {:?}", run.reports.counters()));
        file = data;
    }
}

/// RADV aligns what is in a cache, so the size depends on the order.
#[test]
fn saves_are_complete_on_a_driver_whose_sizes_depend_on_the_order() {
    for (settings, disk_cache) in SETTINGS.into_iter().flat_map(|with| [(with, false), (with, true)]) {
        scenario(&[("race", race), ("between", create_between)], |scenario| {
            let Some(env) = scenario.on(Driver::Radv) else { return };
            let env = with(settings, &if disk_cache { env.driver_cache() } else { env });
            assert_saves_are_complete(scenario, &env, &format!("{settings:?}, disk cache {disk_cache}"));
        });
    }
}

/// As RADV's disk cache, but in each run.
#[test]
fn saves_are_complete_on_a_driver_whose_sizes_depend_on_what_was_used() {
    for settings in SETTINGS {
        scenario(&[("race", race), ("between", create_between)], |scenario| {
            let env = scenario.on(Driver::Test(json!({ "pads_used": true }))).unwrap();
            assert_saves_are_complete(scenario, &with(settings, &env), &format!("{settings:?}"));
        });
    }
}
