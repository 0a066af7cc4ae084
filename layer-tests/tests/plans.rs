//! Tests of the plan of background work, where the stash is read later than the device is created, and of how far
//! workers go through it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::suite::run;
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions, spirv};
use vkstash_layer_tests::waiting::until;
use vkstash_layer_tests::work::{self, Done, Work};
use vkstash_model::app_name::AppName;
use vkstash_model::record::{Key, Kind, RunDevices, UseRecord};
use vkstash_store::stash::inspect::list_applications;
use vkstash_store::stash::open::Stash;

const COUNT: u64 = 8;

fn work() -> Work {
    Work { count: COUNT as u32, ..Work::default() }
}

/// Creates a device, and destroys it once workers have called the driver for everything.
fn waits(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let driver = TestDriver::open();
    let _device = Device::new(&instance, &work().device_options()).unwrap();
    driver.wait_for_workers(COUNT);
    json!(null)
}

#[test]
fn what_is_read_after_the_time_for_opening_is_parked_as_well() {
    scenario(&[("work", work::step), ("waits", waits)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        (0..2).for_each(|_| drop(run(scenario, &env, &work())));
        for round in 0..5 {
            let env = env.clone().var("VKSTASH_BACKGROUND_WORKERS", "2").var("VKSTASH_OPEN_MS", "0");
            let ended = scenario.run_ok::<Value>("waits", &env, &());
            let counters = ended.reports.counters();
            assert!(ended.reports.refused().contains_key("put_off"), "{:?}", ended.reports.refused());
            assert_eq!(ended.reports.sum("parked_unasked"), COUNT, "{round}: {counters:?}");
        }
    });
}

/// Creates the pipelines once workers have made all of them, and have destroyed them because memory is scarce.
fn scarce(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let driver = TestDriver::open();
    let device = Device::new(&instance, &work.device_options()).unwrap();
    let mut destroyed = 0;
    until("workers destroy everything", || {
        let record = driver.take_record();
        let calls = record["calls"].as_array().unwrap().iter();
        destroyed += calls.filter(|call| call["command"] == "vkDestroyPipeline").count() as u64;
        destroyed >= COUNT
    });
    serde_json::to_value(work.run(&device)).unwrap()
}

#[test]
fn what_waits_is_destroyed_where_memory_is_scarce() {
    scenario(&[("work", work::step), ("scarce", scarce)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        (0..2).for_each(|_| drop(run(scenario, &env, &work())));
        let env = env.var("VKSTASH_BACKGROUND_WORKERS", "2").var("VKSTASH_TEST_SCARCE", "1");
        let ended = scenario.run_ok::<Done>("scarce", &env, &work());
        assert!(ended.value.all_made());
        let counts = ["parked", "parked_unasked", "released_before", "served", "compiled"];
        let counts = counts.map(|name| ended.reports.sum(name));
        assert_eq!(counts, [0, COUNT, COUNT, COUNT, 0], "{:?}", ended.reports.counters());
    });
}

/// The pipelines of all jobs together.
const ALL: u32 = 60;
/// The pipelines of the small job.
const FEW: u32 = 3;

/// Asks for one pipeline after the other, each when workers have made it: those of the small job from the start on, and
/// the others once the program goes beyond it.
fn patient(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let driver = TestDriver::open();
    let device = Device::new(&instance, &work.device_options()).unwrap();
    let mut made = 0;
    let mut wait = |until: u32| {
        let began = Instant::now();
        while made < until.into() {
            if began.elapsed() > Duration::from_secs(1) {
                // The system has interrupted a worker, and the program has made the pipeline itself.
                made += 1;
            }
            std::thread::sleep(Duration::from_millis(1));
            let record = driver.take_record();
            let calls = record["calls"].as_array().unwrap().iter();
            let by_workers = calls.filter(|call| call["thread"] != 1);
            made += by_workers.filter(|call| call["command"] == "vkCreateComputePipelines").count() as u64;
        }
        // From the driver's answer to the end of the task.
        std::thread::sleep(Duration::from_millis(5));
    };
    wait(FEW.min(work.count));
    for number in 0..work.count {
        // The first one that the last run did not ask for is made by the program's own call.
        if number > FEW {
            wait(number);
        }
        assert!(Work { first: work.first + number, count: 1, ..work.clone() }.run(&device).all_made());
    }
    // What else they make now is made in vain.
    std::thread::sleep(Duration::from_millis(200));
    drop(device);
    json!(null)
}

#[test]
fn a_small_job_of_a_large_stash_has_made_what_it_asks_for_and_a_large_one_everything() {
    scenario(&[("work", work::step), ("patient", patient)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        let [few, all] = [FEW, ALL].map(|count| Work { count, ..Work::default() });
        for count in ["compiled", "served"] {
            assert_eq!(scenario.run_ok::<Done>("work", &env, &all).reports.sum(count), u64::from(ALL));
        }
        scenario.run_ok::<Done>("work", &env, &few);
        let env = env.var("VKSTASH_BACKGROUND_WORKERS", "2");
        // Handed over, and made in vain: the system may interrupt a worker before its task ends, so that the program
        // does not wait for it.
        let run = |work: &Work| {
            let ended = scenario.run_ok::<Value>("patient", &env, work);
            let made = ["parked", "parked_unasked"].map(|name| ended.reports.sum(name));
            assert_eq!(made[0] + ended.reports.sum("served"), u64::from(work.count));
            made
        };
        for _ in 0..3 {
            let [parked, unasked] = run(&few);
            assert_eq!(parked + unasked, u64::from(FEW), "and nothing else");
        }
        let [parked, unasked] = run(&all);
        assert!(parked > u64::from(ALL) * 3 / 4 && parked + unasked < u64::from(ALL), "{parked}, {unasked}");
    });
}

/// The jobs that take turns, the pipelines of each, and how many it asks for at first.
const JOBS: u32 = 4;
const OF_A_JOB: u32 = 40;
const AT_FIRST: u32 = 8;

/// Asks for the first pipelines of a job at once, and for the others when workers have made them and those of the last
/// run.
fn bursts(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let driver = TestDriver::open();
    let device = Device::new(&instance, &work.device_options()).unwrap();
    let first = Work { count: AT_FIRST, ..work.clone() }.run(&device);
    let mut made = 0;
    until("workers make the rest of the job", || {
        let record = driver.take_record();
        let calls = record["calls"].as_array().unwrap().iter().filter(|call| call["thread"] != 1);
        made += calls.filter(|call| call["command"] == "vkCreateComputePipelines").count() as u32;
        made >= 2 * OF_A_JOB - AT_FIRST
    });
    let rest = Work { first: work.first + AT_FIRST, count: OF_A_JOB - AT_FIRST, ..work };
    json!(first.all_made() && rest.run(&device).all_made())
}

#[test]
fn jobs_of_one_name_that_take_turns_are_told_apart_by_their_first_requests() {
    scenario(&[("work", work::step), ("bursts", bursts)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        let job = |number: u32| Work { first: number * OF_A_JOB, count: OF_A_JOB, ..Work::default() };
        for number in (0..JOBS).chain(0..JOBS) {
            scenario.run_ok::<Done>("work", &env, &job(number));
        }
        let env = env.var("VKSTASH_BACKGROUND_WORKERS", "2");
        for number in 0..JOBS {
            let ended = scenario.run_ok::<bool>("bursts", &env, &job(number));
            let counted = ["parked", "served", "compiled"].map(|name| ended.reports.sum(name));
            assert!(ended.value && counted[2] == 0, "{number}: {:?}", ended.reports.counters());
            // The last one that workers made may still have been on its way.
            assert!(counted[0] >= u64::from(OF_A_JOB - AT_FIRST) - 1, "{number}: {counted:?}");
        }
    });
}

/// Makes a device for each of these jobs, one after the other. `waits`: each asks once workers have made all.
fn devices_in_turn(input: &Value) -> Value {
    let (jobs, waits): (Vec<Work>, bool) = serde_json::from_value(input.clone()).unwrap();
    in_turn(jobs.into_iter().map(|job| (if waits { job.count } else { 0 }, job)))
}

/// Makes a device for each of these jobs, and asks once workers have made so many pipelines for it.
fn in_turn(jobs: impl Iterator<Item = (u32, Work)>) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let driver = TestDriver::open();
    for (expected, job) in jobs {
        let device = Device::new(&instance, &job.device_options()).unwrap();
        if job.count > 0 {
            // After a device that made nothing, the next one is not believed to make anything until it begins.
            device.module(&spirv::compute(77));
        }
        driver.wait_for_workers(expected.into());
        assert!(job.run(&device).all_made());
    }
    json!(null)
}

/// Programs make a device to find out what it can do, and then the one that draws; or make theirs again.
#[test]
fn each_device_of_a_process_has_made_what_the_one_of_its_number_asked_for_in_the_last_run() {
    let job = |first: u32, count: u32| Work { first, count, ..Work::default() };
    let apart = vec![job(0, 8), job(8, 2)];
    let probe = vec![job(0, 0), job(0, 8)];
    let common = vec![job(0, 4), job(2, 6), job(2, 1)];
    let again = vec![job(0, 8), job(0, 8)];
    for (first, later) in [(&apart, &apart), (&probe, &probe), (&common, &common), (&vec![job(0, 8)], &again)]
    {
        scenario(&[("work", devices_in_turn)], |scenario| {
            let env = scenario.on(Driver::Test(json!({}))).unwrap().var("VKSTASH_BACKGROUND_WORKERS", "2");
            scenario.run_ok::<Value>("work", &env, &(first, false));
            let asked = later.iter().map(|job| u64::from(job.count)).sum::<u64>();
            for run in 2..5 {
                let ended = scenario.run_ok::<Value>("work", &env, &(later, true));
                // The system may interrupt a worker before its task ends, so that the program does not wait for it.
                let made = ["parked", "parked_unasked"].map(|name| ended.reports.sum(name));
                let counters = ended.reports.counters();
                assert_eq!(made[0] + made[1], asked, "run {run} of {later:?}: {counters:?}");
                assert_eq!(ended.reports.sum("not_planned"), 0, "run {run} of {later:?}: {counters:?}");
            }
        });
    }
}

/// A device that is only looked at, beside one that asks for these once workers have made them.
fn looked_at_beside(work: &Value) -> Value {
    let work: Work = serde_json::from_value(work.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let driver = TestDriver::open();
    let _looked_at = Device::new(&instance, &work.device_options()).unwrap();
    let device = Device::new(&instance, &work.device_options()).unwrap();
    if std::env::var("VKSTASH_BACKGROUND_WORKERS").is_ok_and(|workers| workers != "0") {
        driver.wait_for_workers(work.count.into());
    }
    json!(work.run(&device).all_made())
}

#[test]
fn a_device_has_its_number_whether_it_has_opened_the_stash_or_not() {
    scenario(&[("work", looked_at_beside)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        let work = Work { count: 8, ..Work::default() };
        // Without workers the first device does not open it.
        for workers in ["0", "2", "2"] {
            let env = env.clone().var("VKSTASH_BACKGROUND_WORKERS", workers);
            let ended = scenario.run_ok::<bool>("work", &env, &work);
            let made = ["parked", "parked_unasked"].map(|name| ended.reports.sum(name));
            let expected = if workers == "0" { 0 } else { u64::from(work.count) };
            assert!(ended.value);
            assert_eq!(made[0] + made[1], expected, "{workers}: {:?}", ended.reports.counters());
        }
    });
}

/// Two of four are derivatives; workers are done with them once they have made the last one.
fn derivatives(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input.clone()).unwrap();
    in_turn([(2, work)].into_iter())
}

#[test]
fn what_is_never_made_ahead_is_counted_as_that() {
    scenario(&[("work", work::step), ("derivatives", derivatives)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        let work = Work { batch: 3, count: 4, derivatives: true, ..Work::default() };
        scenario.run_ok::<Done>("work", &env, &work);
        let env = env.var("VKSTASH_BACKGROUND_WORKERS", "2");
        let ended = scenario.run_ok::<Value>("derivatives", &env, &work);
        let counts = ["served", "never_ahead", "not_kept", "not_planned"].map(|name| ended.reports.sum(name));
        assert_eq!(counts[1..], [2, 0, 0], "{:?}", ended.reports.counters());
        assert!(counts[0] >= 2, "{:?}", ended.reports.counters());
    });
}

/// The keys of a run that used more than a plan has room for.
const HOPELESS: u32 = 100_000;

/// Notes that the last run used so many pipelines of which nothing can be made: of most there is nothing, of each
/// hundredth a recipe that is none.
fn note_hopeless_run(env: &Env) {
    let [info] = list_applications(&env.stash_folder()).unwrap().try_into().unwrap();
    let name = AppName { display: info.display, folder: info.folder };
    let stash = Stash::open_patiently(&env.stash_folder(), &name).unwrap();
    let unix_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    for sequence in 0..HOPELESS {
        let mut key: Key = [0x5a; 32];
        key[..4].copy_from_slice(&sequence.to_be_bytes());
        let mut records = vec![(
            Kind::Use,
            UseRecord { unix_ms, sequence, devices: RunDevices::ALL, run: unix_ms }.encode(),
        )];
        if sequence % 100 == 0 {
            records.push((Kind::Recipe, vec![0xff; 200]));
        }
        for (kind, payload) in records {
            while !stash.portable().put(kind, &key, payload.clone().into()) {
                assert!(stash.flush(Duration::from_secs(60)), "the queue is emptied");
            }
        }
    }
    assert!(stash.flush(Duration::from_secs(60)));
    stash.leave();
}

#[test]
fn a_plan_of_which_nothing_can_be_made_keeps_nobody_from_anything() {
    scenario(&[("work", work::step), ("waits", waits)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        (0..2).for_each(|_| drop(run(scenario, &env, &work())));
        note_hopeless_run(&env);
        let env = env.var("VKSTASH_BACKGROUND_WORKERS", "2");
        let ended = run(scenario, &env, &work());
        assert!(ended.value.all_made());
        let has = ["parked", "served"].map(|name| ended.reports.sum(name));
        assert_eq!(has[0] + has[1], COUNT, "{:?}", ended.reports);
        assert_eq!(ended.reports.sum("parked_unasked"), 0);
        // What that run used is the plan of the next one.
        let next = scenario.run_ok::<Value>("waits", &env, &());
        assert_eq!(next.reports.sum("parked_unasked"), COUNT, "{:?}", next.reports);
    });
}
