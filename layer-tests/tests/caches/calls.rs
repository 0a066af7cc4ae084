//! The calls that reach the driver for a cache of the program's.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::ptr;

use ash::vk::{self, Handle as _};
use serde_json::{Value, json};

use vkstash_layer_tests::child::{Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::vulkan::Device;
use vkstash_layer_tests::work::{UNKNOWN_STRUCTURE, Work};

use super::{GROUPS, calls, device};

fn assert_no_violations(record: &Value) {
    assert_eq!(record["violations"], json!([]));
}

fn on_test_driver(step: fn(&Value) -> Value, test: impl FnOnce(&Scenario, &Env)) {
    scenario(&[("step", step)], |scenario| {
        if let Some(env) = scenario.on(Driver::Test(json!({}))) {
            test(scenario, &env);
        }
    });
}

/// Reads the data repeatedly, and counts the driver calls that each answer needs.
fn count_calls_of_reads(_: &Value) -> Value {
    let device = device(false);
    let driver = TestDriver::open();
    let cache = device.cache(&[]);
    let mut costs = Vec::new();
    let mut ask = || {
        driver.take_record();
        let data = device.cache_data(cache);
        let record = driver.take_record();
        assert_no_violations(&record);
        let names = ["vkMergePipelineCaches", "vkGetPipelineCacheData", "vkCreatePipelineCache"];
        costs.push(names.map(|name| calls(&record, name).len()));
        data
    };
    let make = |first, count| Work { first, count, ..Work::default() }.run_through(&device, cache);
    make(1, 10);
    let whole = ask();
    assert_eq!(ask(), whole);
    // Created again, and known already.
    make(1, 10);
    assert_eq!(ask(), whole);
    make(11, 1);
    let more = ask();
    assert!(more.len() > whole.len());
    assert_eq!(ask(), more);
    device.destroy_cache(cache);
    json!(costs)
}

#[test]
fn repeated_reads_cost_driver_calls_for_new_pipelines_only() {
    on_test_driver(count_calls_of_reads, |scenario, env| {
        scenario.run_ok::<Value>("step", env, &());
        let costs = scenario.run_ok::<Vec<[usize; 3]>>("step", env, &()).value;
        assert_eq!(costs[0][0], 9, "everything is merged once, into the first: {costs:?}");
        // The read asks for the size of what the driver has itself.
        assert_eq!([costs[1], costs[2], costs[4]], [[0, 2, 0]; 3], "nothing is new: {costs:?}");
        assert_eq!(costs[3], [1, 1 + 2, 0], "one thing is new: {costs:?}");
    });
}

/// The calls that name the program's cache, by thread; the program uses one thread, which is not the first.
fn use_on_one_thread(input: &Value) -> Value {
    let flags = input.as_u64().unwrap() as u32;
    let device = device(true);
    let driver = TestDriver::open();
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| {
            let info =
                vk::PipelineCacheCreateInfo::default().flags(vk::PipelineCacheCreateFlags::from_raw(flags));
            // SAFETY: a live device, a valid create info, and caches that only this thread uses.
            unsafe {
                let [one, two] = [(); 2].map(|()| device.raw.create_pipeline_cache(&info, None).unwrap());
                for first in GROUPS {
                    Work { first, ..Work::default() }.run_through(&device, one);
                    assert!(device.cache_data(one).len() > 32);
                }
                device.raw.merge_pipeline_caches(two, &[one]).unwrap();
                assert_eq!(device.cache_data(two).len(), device.cache_data(one).len());
                [one, two].map(|cache| cache.as_raw().to_string())
            }
        });
        let named = busy.join().unwrap();
        // Time for another thread to make a call that it must not make.
        std::thread::sleep(std::time::Duration::from_millis(300));
        let record = driver.take_record();
        assert_no_violations(&record);
        let created = calls(&record, "vkCreatePipelineCache");
        let theirs = created.iter().filter(|call| call["flags"][0] == flags);
        assert!(theirs.count() >= 2, "flags reach the driver as they are");
        let of_theirs = record["calls"].as_array().unwrap().iter().filter(|call| {
            call["cache"].as_str().is_some_and(|cache| named.iter().any(|name| name == cache))
        });
        let threads: BTreeSet<u64> = of_theirs.map(|call| call["thread"].as_u64().unwrap()).collect();
        json!(threads.len())
    })
}

#[test]
fn externally_synchronised_caches_are_used_by_the_calling_thread_only() {
    // EXTERNALLY_SYNCHRONIZED; INTERNALLY_SYNCHRONIZED_MERGE of maintenance8; an unknown flag.
    for flags in [1u32, 8, 1 << 20] {
        on_test_driver(use_on_one_thread, |scenario, env| {
            for round in ["cold", "warm"] {
                let run = scenario.run_ok::<usize>("step", env, &flags);
                assert_eq!(run.value, 1, "{round} {flags}: {:?}", run.reports.counters());
            }
        });
    }
}

/// One call for eight pipelines with an empty cache. Gives the size of that cache's data afterwards, and the number
/// of pipelines in each cache that was created from data meanwhile.
fn create_batch(_: &Value) -> Value {
    let device = device(false);
    let driver = TestDriver::open();
    let cache = device.cache(&[]);
    let work = Work { count: 8, batch: 8, ..Work::default() };
    assert!(work.run_through(&device, cache).all_made());
    let record = driver.take_record();
    assert_no_violations(&record);
    let created = calls(&record, "vkCreatePipelineCache");
    let loaded = created.iter().filter(|call| call["initial_size"] != 0).map(|call| &call["initial_entries"]);
    let loaded: Vec<&Value> = loaded.collect();
    let held = device.cache_data(cache).len();
    device.destroy_cache(cache);
    json!({ "loaded": loaded, "held": held })
}

#[test]
fn each_artifact_of_a_batch_holds_one_pipeline() {
    for control in [true, false] {
        let driver = Driver::Test(json!({ "cache_control": control }));
        scenario(&[("step", create_batch)], |scenario| {
            let Some(env) = scenario.on(driver.clone()) else { return };
            let without = scenario.run_ok::<Value>("step", &env.clone().without_layer(), &()).value;
            let cold = scenario.run_ok::<Value>("step", &env, &()).value;
            assert_eq!(cold["held"], without["held"], "{control}: the program's cache holds them all");
            let warm = scenario.run_ok::<Value>("step", &env, &()).value;
            assert_eq!(warm["loaded"], json!(vec![1; 8]), "{control}: one artifact each");
            assert_eq!(warm["held"], without["held"], "{control}");
        });
    }
}

/// Destroys a cache and creates another at once, which may get the same handle.
fn reuse_handle(_: &Value) -> Value {
    let device = device(false);
    let mut sizes = Vec::new();
    for first in [1, 4, 4] {
        let cache = device.cache(&[]);
        let empty = device.cache_data(cache).len();
        Work { first, ..Work::default() }.run_through(&device, cache);
        sizes.push([empty, device.cache_data(cache).len()]);
        device.destroy_cache(cache);
    }
    json!(sizes)
}

#[test]
fn a_cache_with_a_reused_handle_starts_empty() {
    for driver in [Driver::Radv, Driver::Test(json!({}))] {
        scenario(&[("step", reuse_handle)], |scenario| {
            let Some(env) = scenario.on(driver.clone()) else { return };
            let without = scenario.run_ok::<Value>("step", &env.clone().without_layer(), &()).value;
            for round in ["cold", "warm"] {
                assert_eq!(scenario.run_ok::<Value>("step", &env, &()).value, without, "{round}");
            }
        });
    }
}

/// For every size of buffer: result, size, and how many pipelines a cache with that data holds.
fn read_short(_: &Value) -> Value {
    let device = device(true);
    let cache = device.cache(&[]);
    Work { count: 5, ..Work::default() }.run_through(&device, cache);
    let full = device.cache_data(cache).len();
    let mut sizes: Vec<usize> = vec![0, 1, 31, 32, 33, 34, 35, 36, full - 1, full];
    sizes.extend((1..8).map(|eighths| full * eighths / 8));
    let answers = sizes.into_iter().map(|room| {
        let mut buffer = vec![0xaa; full + 16];
        let mut size = room;
        // SAFETY: a live cache, and a buffer that is larger than the size passed.
        let result = unsafe {
            let get = device.raw.fp_v1_0().get_pipeline_cache_data;
            get(device.raw.handle(), cache, &mut size, buffer.as_mut_ptr().cast())
        };
        assert!(buffer[room..].iter().all(|&byte| byte == 0xaa), "written past the end");
        (room, result.as_raw(), size)
    });
    let answers: Vec<_> = answers.collect();
    device.destroy_cache(cache);
    json!(answers)
}

#[test]
fn a_short_buffer_gets_as_many_pipelines_as_without_the_layer() {
    scenario(&[("step", read_short)], |scenario| {
        // Without the layer the others overwrite memory (`misbehaving.rs`).
        let env = scenario.on(Driver::Test(json!({ "overruns": false }))).unwrap();
        let without = scenario.run_ok::<Value>("step", &env.clone().without_layer(), &()).value;
        for round in ["cold", "warm"] {
            assert_eq!(scenario.run_ok::<Value>("step", &env, &()).value, without, "{round}");
        }
    });
}

/// Feedback of a pipeline without a cache, with an empty one, and with one through which it was created before.
fn feedback_hits(_: &Value) -> Value {
    let device = device(false);
    let cache = device.cache(&[]);
    Work { first: 99, count: 1, ..Work::default() }.run_through(&device, cache);
    let work = Work { feedback: true, ..Work::default() };
    let hits = [vk::PipelineCache::null(), cache, cache].map(|cache| {
        let feedback = work.run_through(&device, cache).feedback;
        let valid = vk::PipelineCreationFeedbackFlags::VALID.as_raw();
        assert!(feedback.iter().all(|feedback| feedback.pipeline & valid != 0));
        feedback.iter().filter(|feedback| feedback.says_hit()).count()
    });
    device.destroy_cache(cache);
    json!(hits)
}

/// Merges into a cache that the layer does not know, because its create info has a chain.
fn merge_into_unknown_cache(_: &Value) -> Value {
    let device = device(false);
    let chain =
        vk::BaseInStructure { s_type: vk::StructureType::from_raw(UNKNOWN_STRUCTURE), ..Default::default() };
    let info = vk::PipelineCacheCreateInfo { p_next: ptr::from_ref(&chain).cast(), ..Default::default() };
    let one = device.cache(&[]);
    Work { count: 5, ..Work::default() }.run_through(&device, one);
    // SAFETY: a live device and caches; this driver ignores unknown structures.
    let data = unsafe {
        let into = device.raw.create_pipeline_cache(&info, None).unwrap();
        device.raw.merge_pipeline_caches(into, &[one]).unwrap();
        let data = device.cache_data(into);
        device.destroy_cache(into);
        data
    };
    assert_eq!(data.len(), device.cache_data(one).len());
    device.destroy_cache(one);
    json!(data.len())
}

#[test]
fn a_merge_into_a_cache_that_the_layer_does_not_know_is_complete() {
    on_test_driver(merge_into_unknown_cache, |scenario, env| {
        let without = scenario.run_ok::<usize>("step", &env.clone().without_layer(), &()).value;
        for round in ["cold", "warm"] {
            let run = scenario.run_ok::<usize>("step", env, &());
            assert_eq!(run.value, without, "{round}: {:?}", run.reports.counters());
        }
    });
}

#[test]
fn feedback_reports_hits_in_the_programs_cache_only() {
    for driver in [Driver::Radv, Driver::Test(json!({}))] {
        scenario(&[("step", feedback_hits)], |scenario| {
            let Some(env) = scenario.on(driver.clone()) else { return };
            for round in ["cold", "warm"] {
                let run = scenario.run_ok::<[usize; 3]>("step", &env, &());
                assert_eq!(run.value, [0, 0, 3], "{round}: {:?}", run.reports.counters());
            }
        });
    }
}

type CreateDataGraphPipelines = unsafe extern "system" fn(
    vk::Device,
    vk::DeferredOperationKHR,
    vk::PipelineCache,
    u32,
    *const std::ffi::c_void,
    *const vk::AllocationCallbacks<'_>,
    *mut vk::Pipeline,
) -> vk::Result;

const DATA_GRAPHS: &str = "vkCreateDataGraphPipelinesARM";
const EXECUTION_GRAPHS: &str = "vkCreateExecutionGraphPipelinesAMDX";

/// Has the driver create pipelines of graphs. Their create infos are NULL: this driver does not read them.
fn graphs(device: &Device, command: &str, cache: vk::PipelineCache, count: u32) {
    let mut made = vec![vk::Pipeline::null(); count as usize];
    let found = device.command(&CString::new(command).unwrap()).expect("the driver has it");
    let (handle, out) = (device.raw.handle(), made.as_mut_ptr());
    // SAFETY: a live device and cache; the command of each name has this type, and room for `count` pipelines.
    let result = unsafe {
        if command == DATA_GRAPHS {
            let create: CreateDataGraphPipelines = std::mem::transmute(found);
            create(handle, vk::DeferredOperationKHR::null(), cache, count, ptr::null(), ptr::null(), out)
        } else {
            let create: vk::PFN_vkCreateExecutionGraphPipelinesAMDX = std::mem::transmute(found);
            create(handle, cache, count, ptr::null(), ptr::null(), out)
        }
    };
    result.result().unwrap();
}

/// Has the driver fill a cache with graphs before, between and after pipelines of others. How many entries each answer
/// has, and how many were in the caches that the layer made of its artifacts.
fn fill_with_graphs(input: &Value) -> Value {
    let device = device(false);
    let driver = TestDriver::open();
    let cache = device.cache(&[]);
    let fill = |count| graphs(&device, input.as_str().unwrap(), cache, count);
    let entries = |record: &Value| -> Vec<u64> {
        assert_no_violations(record);
        let made = calls(record, "vkCreatePipelineCache").into_iter();
        made.map(|call| call["initial_entries"].as_u64().unwrap()).collect()
    };
    let held = || {
        let data = device.cache_data(cache);
        driver.take_record();
        device.destroy_cache(device.cache(&data));
        entries(&driver.take_record())[0]
    };
    let make = |first, count| Work { first, count, ..Work::default() }.run_through(&device, cache);
    let mut answers = Vec::new();
    fill(1);
    driver.take_record();
    make(1, 1);
    let of_artifacts = entries(&driver.take_record());
    answers.push(held());
    make(11, 3);
    answers.push(held());
    fill(3);
    answers.push(held());
    device.destroy_cache(cache);
    json!([answers, of_artifacts])
}

/// Pipelines of graphs are counted by name and not recorded. What the driver has put into the program's cache with them
/// is in that cache's data, and in no artifact of another pipeline.
#[test]
fn graphs_are_passed_by_and_what_they_have_put_into_a_cache_is_in_its_data() {
    on_test_driver(fill_with_graphs, |scenario, env| {
        for (command, structure) in [(DATA_GRAPHS, 1_000_507_000), (EXECUTION_GRAPHS, 1_000_134_003)] {
            let env = env.clone().stash(scenario.folder().join(command));
            for (env, round) in [(&env.clone().without_layer(), "without"), (&env, "cold"), (&env, "warm")] {
                let run = scenario.run_ok::<[Vec<u64>; 2]>("step", env, &command);
                let [answers, of_artifacts] = &run.value;
                assert_eq!(*answers, [1 + 1, 1 + 4, 3 + 4], "{command}, {round}");
                let bypassed = run.reports.bypassed();
                let bypassed = bypassed.iter().map(|b| (b.reason.as_str(), b.s_type, b.count));
                let expected = [("not_cacheable", structure, 4)];
                let expected = if env.has_layer() { &expected[..] } else { &[] };
                assert_eq!(bypassed.collect::<Vec<_>>(), expected, "{command}, {round}");
                if round == "warm" {
                    assert_eq!(run.reports.sum("served"), 4, "{:?}", run.reports.counters());
                    assert!(of_artifacts.contains(&1), "the first one was served of its artifact");
                    assert!(of_artifacts.iter().all(|&entries| entries <= 1), "{command}: {of_artifacts:?}");
                }
            }
        }
    });
}
