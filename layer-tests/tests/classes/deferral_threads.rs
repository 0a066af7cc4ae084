//! Deferred operations that several threads use: one thread may see the result while another one still works.

use std::ptr;

use ash::vk;
use serde_json::{Value, json};
use vkstash_layer_tests::child::{Scenario, scenario};
use vkstash_layer_tests::env::Driver;
use vkstash_layer_tests::test_driver::TestDriver;

use super::rays::Rays;
use super::rig::Rig;

/// Memory of the program that is unmapped when the program no longer needs it.
struct Pages {
    start: *mut libc::c_void,
    size: usize,
}

impl Pages {
    fn new() -> Pages {
        let size = 1 << 16;
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the system's choice.
        let start = unsafe { libc::mmap(ptr::null_mut(), size, access, kind, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        Pages { start, size }
    }

    /// Writes the create infos of a call there, with space for its pipelines behind them.
    fn hold<T: Copy>(&self, infos: &[T]) -> (*const T, *mut vk::Pipeline) {
        let first: *mut T = self.start.cast();
        assert!(size_of_val(infos) <= self.size / 2);
        // SAFETY: the mapping is large enough for both, and pages are aligned for every type.
        unsafe {
            first.copy_from_nonoverlapping(infos.as_ptr(), infos.len());
            (first, self.start.byte_add(self.size / 2).cast())
        }
    }

    fn unmap(self) {
        // SAFETY: mapped by `new`, and no longer used.
        assert_eq!(unsafe { libc::munmap(self.start, self.size) }, 0);
    }
}

/// The addresses of a call that another thread frees.
struct Call {
    pages: Pages,
    pipelines: *mut vk::Pipeline,
}

// SAFETY: only one thread at a time uses the memory that it points to.
unsafe impl Send for Call {}

/// One thread joins and another polls; the poller unmaps the parameters as soon as it sees the result.
fn polled(_: &Value) -> Value {
    let Some(rays) = Rays::new(Rig::open()) else { return Value::Null };
    let (deferring, device) = (&rays.deferring, rays.rig.device.raw.handle());
    let create = rays.commands.fp().create_ray_tracing_pipelines_khr;
    let (join, ask) =
        (deferring.fp().deferred_operation_join_khr, deferring.fp().get_deferred_operation_result_khr);
    let infos = [rays.library(rays.plain(50)), rays.library(rays.plain(51))];
    // SAFETY: create infos and slots are valid until the operation is complete; each object is destroyed once.
    unsafe {
        let operation = deferring.create_deferred_operation(None).unwrap();
        let pages = Pages::new();
        let (passed, pipelines) = pages.hold(&infos);
        let none = vk::PipelineCache::null();
        let started = create(device, operation, none, 2, passed, ptr::null(), pipelines);
        let call = Call { pages, pipelines };
        let done = move || {
            // Moves the whole struct into the closure, not its fields.
            let Call { pages, pipelines } = { call };
            let made = [*pipelines, *pipelines.add(1)];
            pages.unmap();
            made
        };
        let made = if started == vk::Result::OPERATION_DEFERRED_KHR {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while join(device, operation) == vk::Result::THREAD_IDLE_KHR {
                        std::thread::yield_now();
                    }
                });
                let poller = scope.spawn(move || {
                    while ask(device, operation) == vk::Result::NOT_READY {
                        std::thread::yield_now();
                    }
                    done()
                });
                poller.join().unwrap()
            })
        } else {
            done()
        };
        deferring.destroy_deferred_operation(operation, None);
        let (linked, pipeline) = rays.make(none, rays.linked(rays.plain(52), &made));
        rays.destroy(&made);
        rays.destroy(&[pipeline]);
        json!([started.as_raw(), linked.as_raw(), made.map(|made| made != vk::Pipeline::null())])
    }
}

/// The program may reuse its parameters as soon as any of its threads has seen the result.
#[test]
fn no_memory_of_the_program_is_read_after_any_thread_sees_the_result() {
    scenario(&[("polled", polled)], |scenario| {
        // The joining thread reads the cache for a while after the work is done.
        let slow = json!({ "command": "vkGetPipelineCacheData", "hang_ms": 300 });
        let drivers = [Driver::Test(json!({ "deferral": "always", "faults": [slow] })), Driver::Radv];
        for (number, driver) in drivers.into_iter().enumerate() {
            let Some(env) = scenario.on(driver.clone()) else { continue };
            let env = env.stash(scenario.folder().join(format!("stash {number}")));
            let without = scenario.run_ok::<Value>("polled", &env.clone().without_layer(), &()).value;
            let cold = scenario.run_ok::<Value>("polled", &env, &());
            assert_eq!(cold.value, without);
            assert!(cold.reports.bypassed().is_empty(), "{:?}", cold.reports.bypassed());
            assert_eq!(cold.reports.sum("compiled"), 3, "{:?}", cold.reports.counters());
            let warm = scenario.run_ok::<Value>("polled", &env, &());
            assert_eq!(warm.value[2], without[2]);
            super::covered(&driver, &warm.reports, 3);
        }
    });
}

/// Uses an operation again before the thread that completed its first work has returned.
fn used_again(_: &Value) -> Value {
    let rays = Rays::new(Rig::open()).unwrap();
    let (deferring, device) = (&rays.deferring, rays.rig.device.raw.handle());
    let (join, ask) =
        (deferring.fp().deferred_operation_join_khr, deferring.fp().get_deferred_operation_result_khr);
    let (first, second) = ([rays.groups(60)], [rays.library(rays.plain(61))]);
    let (mut made, none) = ([vk::Pipeline::null(); 2], vk::PipelineCache::null());
    let (early, late) = made.split_at_mut(1);
    // SAFETY: create infos and slots are valid until their operation is complete; each object is destroyed once.
    let results = unsafe {
        let operation = deferring.create_deferred_operation(None).unwrap();
        let mut results = vec![rays.create(operation, none, &first, early)];
        std::thread::scope(|scope| {
            let straggler = scope.spawn(|| join(device, operation));
            while ask(device, operation) == vk::Result::NOT_READY {
                std::thread::yield_now();
            }
            assert!(!straggler.is_finished());
            results.push(rays.create(operation, none, &second, late));
            results.push(straggler.join().unwrap());
        });
        results.extend([join(device, operation), ask(device, operation)]);
        deferring.destroy_deferred_operation(operation, None);
        results
    };
    let (linked, pipeline) = rays.make(none, rays.linked(rays.plain(62), &made[1..]));
    rays.destroy(&[made[0], made[1], pipeline]);
    drop(rays);
    let results: Vec<_> = results.into_iter().chain([linked]).map(vk::Result::as_raw).collect();
    json!({ "results": results, "violations": TestDriver::open().take_record()["violations"] })
}

/// On a driver that always defers, with one more setting: the step gives the same answer with and without the layer,
/// and the layer compiles this many pipelines.
fn assert_same_results(scenario: &Scenario, step: &str, mut script: Value, compiled: u64) {
    script["deferral"] = json!("always");
    let Some(env) = scenario.on(Driver::Test(script)) else { return };
    let without = scenario.run_ok::<Value>(step, &env.clone().without_layer(), &()).value;
    assert_eq!(without["violations"], json!([]));
    let cold = scenario.run_ok::<Value>(step, &env, &());
    assert_eq!(cold.value, without);
    assert!(cold.reports.bypassed().is_empty(), "{:?}", cold.reports.bypassed());
    assert_eq!(cold.reports.sum("compiled"), compiled, "{:?}", cold.reports.counters());
}

#[test]
fn a_reused_operation_is_not_confused_with_its_earlier_use() {
    scenario(&[("used again", used_again)], |scenario| {
        assert_same_results(scenario, "used again", json!({ "join_lingers_ms": 300 }), 3);
    });
}

/// A thread completes an operation before the call that deferred its work has returned.
fn overtaken(_: &Value) -> Value {
    let rays = Rays::new(Rig::open()).unwrap();
    let (deferring, device) = (&rays.deferring, rays.rig.device.raw.handle());
    let (commands, none) = (deferring.fp(), vk::PipelineCache::null());
    let infos = [rays.library(rays.plain(63))];
    let mut slots = [vk::Pipeline::null()];
    // SAFETY: create infos and slots are valid until their call has returned and the operation is complete, and slots
    // are overwritten then; each object is destroyed once.
    let (mut results, library) = unsafe {
        let operation = deferring.create_deferred_operation(None).unwrap();
        let results = std::thread::scope(|scope| {
            let creating = scope.spawn(|| rays.create(operation, none, &infos, &mut slots));
            while (commands.get_deferred_operation_max_concurrency_khr)(device, operation) == 0 {
                std::thread::yield_now();
            }
            let joined = (commands.deferred_operation_join_khr)(device, operation);
            assert!(!creating.is_finished());
            vec![joined, creating.join().unwrap()]
        });
        let library = std::mem::take(&mut slots[0]);
        let asked = (commands.get_deferred_operation_result_khr)(device, operation);
        deferring.destroy_deferred_operation(operation, None);
        ([results, vec![asked]].concat(), library)
    };
    let (linked, pipeline) = rays.make(none, rays.linked(rays.plain(64), &[library]));
    results.push(linked);
    rays.destroy(&[library, pipeline]);
    drop(rays);
    let results: Vec<_> = results.into_iter().map(vk::Result::as_raw).collect();
    json!({ "results": results, "violations": TestDriver::open().take_record()["violations"] })
}

#[test]
fn an_operation_may_complete_before_the_call_that_deferred_it_returns() {
    scenario(&[("overtaken", overtaken)], |scenario| {
        assert_same_results(scenario, "overtaken", json!({ "defer_lingers_ms": 300 }), 2);
    });
}
