//! Loading and unloading: manifests, several instances, devices and threads, and leaks.

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use vkstash_layer_tests::child::{Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env, Layer};
use vkstash_layer_tests::suite::{assert_all_served, files, on, run};
use vkstash_layer_tests::updates::tool;
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions};
use vkstash_layer_tests::waiting::until;
use vkstash_layer_tests::work::{self, Caches, Done, Shader, Work};

fn on_both(step: fn(&Value) -> Value, test: impl Fn(&Scenario, &Env)) {
    scenario(&[("step", step)], |scenario| {
        for driver in [Driver::Radv, Driver::Lavapipe] {
            if let Some(env) = scenario.on(driver) {
                test(scenario, &env);
            }
        }
    });
}

/// The number of mappings and of list entries of the layer.
fn mapped(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let _device = Device::new(&instance, &DeviceOptions::default()).unwrap();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let libraries =
        maps.lines().filter(|line| line.contains("libVkLayer_vkstash") && line.contains(" r-xp "));
    // SAFETY: the loader's own command with valid pointers.
    let layers = unsafe { instance.entry.enumerate_instance_layer_properties() }.unwrap();
    let ours = |layer: &&ash::vk::LayerProperties| {
        layer.layer_name_as_c_str().unwrap() == c"VK_LAYER_VKSTASH_pipeline_cache"
    };
    json!({ "mapped": libraries.count(), "listed": layers.iter().filter(ours).count() })
}

/// Which look-ups know a function of the C API: vkGetDeviceProcAddr, vkGetInstanceProcAddr, dlopen by the SONAME.
fn looked_up(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &DeviceOptions::default()).unwrap();
    let by_device = device.command(c"vkstash_create_session");
    // SAFETY: the loader's own command with a live instance.
    let by_instance = unsafe {
        instance.entry.get_instance_proc_addr(instance.raw.handle(), c"vkstash_create_session".as_ptr())
    };
    // SAFETY: names that end in NUL; the library is not loaded by this.
    let by_name = unsafe {
        let library = libc::dlopen(c"libVkLayer_vkstash.so".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
        if library.is_null() { library } else { libc::dlsym(library, c"vkstash_create_session".as_ptr()) }
    };
    let address = by_device.map_or(0, |function| function as usize);
    json!([address != 0, by_instance.is_some(), by_name as usize == address && address != 0])
}

#[test]
fn a_program_finds_the_c_api_by_its_device_and_by_the_librarys_name() {
    on_both(looked_up, |scenario, env| {
        let with = scenario.run_ok::<Value>("step", env, &());
        assert_eq!(with.value, json!([true, false, true]));
        let without = scenario.run_ok::<Value>("step", &env.clone().without_layer(), &());
        assert_eq!(without.value, json!([false, false, false]));
    });
}

#[test]
fn every_way_to_load_the_layer_loads_it_once() {
    on_both(mapped, |scenario, env| {
        for (layer, times) in [(Layer::Off, 0), (Layer::Implicit, 1), (Layer::Explicit, 1), (Layer::Both, 1)]
        {
            let found = scenario.run_ok::<Value>("step", &env.clone().layer(layer), &()).value;
            assert_eq!(found["mapped"], times, "{layer:?}");
        }
    });
}

#[test]
fn every_way_to_load_the_layer_serves_each_pipeline_once() {
    for layer in [Layer::Implicit, Layer::Explicit, Layer::Both] {
        on(Driver::Radv, |scenario, env| {
            let env = env.clone().layer(layer);
            let cold = run(scenario, &env, &Work::default());
            assert_eq!(cold.reports.sum("compiled"), 3, "{layer:?}: {:?}", cold.reports);
            assert_all_served(&run(scenario, &env, &Work::default()), 3);
        });
    }
}

#[test]
fn an_implicit_layer_that_is_not_enabled_is_not_loaded() {
    on(Driver::Radv, |scenario, env| {
        let outcome = run(scenario, &env.clone().var("VKSTASH", "0"), &Work::default());
        assert!(outcome.value.all_made() && outcome.reports.0.is_empty(), "{outcome:?}");
    });
}

#[test]
fn mesas_own_implicit_layer_works_beside_the_layer() {
    on(Driver::Radv, |scenario, env| {
        let env = env.clone().without_var("NODEVICE_SELECT");
        run(scenario, &env, &Work::default());
        assert_all_served(&run(scenario, &env, &Work::default()), 3);
    });
}

/// Several instances with several devices each, used in turn and destroyed in another order.
fn many_devices(_: &Value) -> Value {
    let named = |application: &str| InstanceOptions { application: application.into(), ..Default::default() };
    let instances = ["one", "two", "two"].map(|name| Instance::new(&named(name)).unwrap());
    let mut devices: Vec<_> = instances
        .iter()
        .flat_map(|instance| [(); 2].map(|()| Device::new(instance, &DeviceOptions::default()).unwrap()))
        .collect();
    drop(instances);
    let mut made = true;
    for caches in [Caches::None, Caches::Fresh, Caches::Shared] {
        for device in &devices {
            made &= Work { caches, ..Work::default() }.run(device).all_made();
        }
        devices.remove(devices.len() / 2);
    }
    json!(made)
}

#[test]
fn several_instances_and_devices_work_side_by_side() {
    scenario(&[("step", many_devices)], |scenario| {
        for driver in [Driver::Radv, Driver::Lavapipe] {
            let Some(env) = scenario.on_two_devices(driver) else { continue };
            for _ in 0..2 {
                assert!(scenario.run_ok::<bool>("step", &env, &()).value);
            }
        }
    });
}

#[test]
fn many_threads_are_served_at_once() {
    for (shader, caches) in [
        (Shader::Compute, Caches::None),
        (Shader::Compute, Caches::Shared),
        (Shader::RenderPass, Caches::Fresh),
    ] {
        on(Driver::Radv, |scenario, env| {
            let work = Work { shader, caches, threads: 8, count: 40, ..Work::default() };
            let cold = run(scenario, env, &work);
            assert!(cold.value.all_made(), "{:?}", cold.value.results);
            let total =
                cold.reports.sum("compiled") + cold.reports.sum("served") + cold.reports.sum("driver_had");
            assert_eq!(total, 320, "each request is counted once: {:?}", cold.reports.counters());
            let warm = run(scenario, env, &work);
            assert!(warm.value.all_made(), "{:?}", warm.value.results);
            assert_all_served(&warm, 320);
        });
    }
}

/// Some threads create and destroy devices while others create pipelines.
fn churn(_: &Value) -> Value {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6)
            .map(|thread| {
                scope.spawn(move || {
                    (0..8).all(|round| {
                        let instance = Instance::new(&InstanceOptions::default()).unwrap();
                        let device = Device::new(&instance, &DeviceOptions::default()).unwrap();
                        Work { first: thread * 4 + round, ..Work::default() }.run(&device).all_made()
                    })
                })
            })
            .collect();
        json!(threads.into_iter().all(|thread| thread.join().unwrap()))
    })
}

#[test]
fn instances_are_created_and_destroyed_on_many_threads() {
    on_both(churn, |scenario, env| assert!(scenario.run_ok::<bool>("step", env, &()).value));
}

/// The names of this process's threads, and the targets of its open files.
fn held() -> (Vec<String>, Vec<String>) {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let mut names: Vec<_> = tasks
        .filter_map(|task| Some(fs::read_to_string(task.path().join("comm")).ok()?.trim().to_owned()))
        .collect();
    names.sort();
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let mut files: Vec<_> = open
        .filter_map(|file| Some(fs::read_link(file.path()).ok()?.to_string_lossy().into_owned()))
        // The folder that is being read here.
        .filter(|target| !target.starts_with("/proc/"))
        .collect();
    files.sort();
    (names, files)
}

/// A joined thread may be listed for a moment longer.
fn settled(before: &(Vec<String>, Vec<String>)) -> (Vec<String>, Vec<String>) {
    for _ in 0..100 {
        if held() == *before {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    held()
}

fn one_iteration() {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &DeviceOptions::default()).unwrap();
    assert!(Work { caches: Caches::Shared, ..Work::default() }.run(&device).all_made());
}

/// The threads and files after one iteration (drivers keep some for good), and after `input` more.
fn iterate(input: &Value) -> Value {
    let before = held();
    one_iteration();
    let first = settled(&before);
    for _ in 0..input.as_u64().unwrap() {
        one_iteration();
    }
    json!([first, settled(&first)])
}

#[test]
fn fifty_iterations_leak_neither_threads_nor_files() {
    on_both(iterate, |scenario, env| {
        // The program waits until the writer has ended, however busy the machine is.
        let env = &env.clone().var("VKSTASH_END_MS", "20000");
        let [first, last] = scenario.run_ok::<[(Vec<String>, Vec<String>); 2]>("step", env, &50).value;
        assert_eq!(last.0.len(), first.0.len(), "threads: {last:?}, after one iteration: {first:?}");
        assert!(last.1.len() < first.1.len() + 10, "files: {last:?}, after one iteration: {first:?}");
    });
}

/// The threads after an instance is destroyed.
fn threads_left(_: &Value) -> Value {
    let before = held();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &DeviceOptions::default()).unwrap();
    Work::default().run(&device);
    drop(device);
    drop(Arc::into_inner(instance));
    json!(settled(&before).0)
}

/// The loader closes the library in vkDestroyInstance (contract 1.11).
#[test]
fn a_destroyed_instance_leaves_no_thread_of_the_layer() {
    on_both(threads_left, |scenario, env| {
        // The program waits until the writer has ended, however busy the machine is.
        let env = &env.clone().var("VKSTASH_END_MS", "20000");
        let left = scenario.run_ok::<Vec<String>>("step", env, &()).value;
        let ours = |name: &&String| name.starts_with("vkstash");
        assert_eq!(left.iter().filter(ours).count(), 0, "after vkDestroyInstance: {left:?}");
    });
}

/// A second manifest names the same library, with and without a layer between them.
#[test]
fn under_several_names_the_layer_is_used_once_and_says_so() {
    scenario(&[("work", work::step)], |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        for (name, env) in [("alone", env.clone()), ("around another", env.validation())] {
            let env = env.layer(Layer::TwoNames).stash(scenario.folder().join(name));
            for (round, count) in [("cold", "compiled"), ("warm", "served")] {
                let run = scenario.run_ok::<Done>("work", &env, &Work::default());
                assert!(run.value.all_made());
                assert_eq!(run.reports.sum(count), 3, "{name}, {round}: {:?}", run.reports.counters());
                assert!(
                    run.stderr.contains("enabled under several names"),
                    "{name}, {round}: {}",
                    run.stderr
                );
            }
        }
    });
}

/// What a launcher leaves running until this file is there, and then starts a program with these arguments.
const LEFT: &str = "until [ -e \"$GATE\" ]; do sleep 0.01; done; \"$0\" \"$@\"; echo $? >\"$GATE.status\"";

/// `vkstash run` has ended with a launcher when the launcher's game begins.
#[test]
fn a_game_that_begins_after_its_launchers_end_is_recorded() {
    on(Driver::Radv, |scenario, env| {
        let (gate, log) = (scenario.folder().join("gate"), scenario.folder().join("log"));
        let temporary = scenario.folder().join("tmp");
        fs::create_dir(&temporary).unwrap();
        let mut launcher = tool(&env.clone().without_layer(), &["run", "--", "sh", "-c"]);
        launcher.arg(format!("GATE='{}' setsid sh -c '{LEFT}' \"$@\" >/dev/null 2>&1 &", gate.display()));
        launcher.arg("launcher").arg(std::env::current_exe().unwrap());
        launcher.env("TMPDIR", &temporary).env("VKSTASH_LOG_FILE", &log);
        let ended = scenario.as_step(&mut launcher, "work", &Work::default()).output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
        assert!(files(&env.stash_folder(), ".vkr").is_empty(), "nothing has run yet");

        fs::write(&gate, "").unwrap();
        let status = scenario.folder().join("gate.status");
        until("the game ends", || fs::read_to_string(&status).is_ok_and(|text| text.ends_with('\n')));
        assert_eq!(fs::read_to_string(&status).unwrap(), "0\n");
        assert_eq!(fs::read_to_string(&log).unwrap_or_default(), "", "the layer has nothing to say of it");
        assert_eq!(files(&env.stash_folder(), ".vkr").len(), 1, "its report is in the stash");
        let stats = tool(env, &["stats"]).output().unwrap();
        assert!(
            String::from_utf8_lossy(&stats.stdout).contains("; 0 of 3 pipelines were ready; "),
            "{stats:?}"
        );
        // What it has made again for its report is removed by the next run.
        let next = tool(env, &["run", "--", "true"]).env("TMPDIR", &temporary).output().unwrap();
        assert!(next.status.success(), "{next:?}");
        let left = Command::new("find").arg(&temporary).args(["-name", "vkstash-*"]).output().unwrap();
        let left = String::from_utf8(left.stdout).unwrap();
        let names: Vec<_> = left.lines().map(|path| path.rsplit('/').next().unwrap()).collect();
        assert!(matches!(names[..], [_, name] if name.starts_with("vkstash-loader-")), "{left}");
        assert_all_served(&run(scenario, env, &Work::default()), 3);
    });
}
