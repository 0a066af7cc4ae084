//! Tests of the harm that threads of the layer could do to a program, where it takes a program of its own kind to show
//! it (src/bin/vkstash-process).

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use vkstash_layer_tests::child::{Scenario, answer_in, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::paths::profile_folder;
use vkstash_layer_tests::report::Reports;
use vkstash_layer_tests::waiting::until;

/// Pipelines of a run.
const COUNT: u64 = 40;

fn host(env: &Env, how: &[&str]) -> Command {
    let mut command = Command::new(profile_folder().join("vkstash-process"));
    env.apply(&mut command);
    command.args(how).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    command
}

/// Runs it to its end, and gives its answer.
fn run(env: &Env, how: &[&str]) -> Value {
    let output = host(env, how).output().unwrap();
    assert!(output.status.success(), "{how:?}: {}", output.status);
    answer_in(&String::from_utf8_lossy(&output.stdout))
}

/// An environment with workers whose stash has artifacts that the driver has taken.
fn filled(scenario: &Scenario, driver: Driver) -> Option<Env> {
    let env = scenario.on(driver)?.var("VKSTASH_BACKGROUND_WORKERS", "2");
    for _ in 0..2 {
        assert_eq!(run(&env, &["make"]), json!(true));
    }
    Some(env)
}

/// A child that is killed where a test fails.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Started {
    fn new(mut command: Command) -> Started {
        Started(command.spawn().unwrap())
    }

    fn main_thread_is_gone(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('Z'))
    }

    fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }
}

/// Threads of the layer keep no process alive. (Those of a device of lavapipe's do.)
#[test]
fn a_process_ends_when_its_main_thread_has_left() {
    scenario(&[], |scenario| {
        for (driver, how) in [
            (Driver::Radv, "leaves-instance"),
            (Driver::Radv, "leaves-device"),
            (Driver::Lavapipe, "leaves-instance"),
        ] {
            let Some(env) = filled(scenario, driver) else { return };
            for env in [env.clone().without_layer(), env.clone(), env.clone(), env] {
                let mut started = Started::new(host(&env, &[how]));
                until("the process ends", || started.has_ended());
                let status = started.0.wait().unwrap();
                assert!(status.success(), "{how}: {status}, {:?} {}", env.driver().name(), env.has_layer());
            }
        }
    });
}

/// Its other threads go on, and a signal that ends the program does.
#[test]
fn a_signal_ends_a_process_whose_main_thread_has_left() {
    scenario(&[], |scenario| {
        let Some(env) = filled(scenario, Driver::Radv) else { return };
        let mut command = host(&env, &["leaves-thread"]);
        command.stdin(Stdio::piped());
        let mut started = Started::new(command);
        until("the main thread leaves", || started.main_thread_is_gone());
        // SAFETY: it takes numbers; the process is a child that is not waited for yet.
        assert_eq!(unsafe { libc::kill(started.0.id() as i32, libc::SIGTERM) }, 0);
        until("the signal ends the process", || started.has_ended());
        assert_eq!(started.0.wait().unwrap().signal(), Some(libc::SIGTERM));
    });
}

/// The C library takes thread-local storage out of each thread's stack.
#[test]
fn workers_have_stack_beside_4_mib_of_thread_local_storage() {
    scenario(&[], |scenario| {
        for driver in [Driver::Radv, Driver::Lavapipe] {
            let Some(env) = filled(scenario, driver) else { return };
            for round in 0..3 {
                let folder = scenario.folder().join(format!("{} {round}", env.driver().name()));
                let env = env.clone().report(&folder).var("VKSTASH_TRACE", folder.with_extension("trace"));
                assert_eq!(run(&env, &["make-beside-workers"]), json!(true));
                assert!(Reports::read(&folder).sum("parked") > 0, "a worker was in the driver");
            }
        }
    });
}

/// A program may change its environment while it believes to have no other threads. What drivers read in a worker's
/// call is theirs.
#[test]
fn no_thread_of_the_layer_reads_the_environment() {
    scenario(&[], |scenario| {
        let asked = |driver: Driver| {
            let trace = scenario.folder().join(format!("trace on {}", driver.name()));
            Some(run(&filled(scenario, driver)?.var("VKSTASH_TRACE", trace), &["asked-for"]))
        };
        assert_eq!(asked(Driver::Test(json!({}))), Some(json!([])));
        // A driver that asks for the variables is seen here: RADV does.
        let Some(of_radv) = asked(Driver::Radv) else { return };
        assert!(!of_radv.as_array().unwrap().is_empty());
    });
}

/// A program that has no other threads then may still unshare what processes with several may not, for instance.
#[test]
fn there_is_no_thread_of_the_layer_before_the_first_command_on_a_device() {
    scenario(&[], |scenario| {
        let Some(env) = filled(scenario, Driver::Radv) else { return };
        assert_eq!(run(&env, &["threads-at-creation"]), json!([]));
    });
}

#[test]
fn no_thread_of_the_layer_inherits_real_time_priority() {
    scenario(&[], |scenario| {
        let Some(env) = filled(scenario, Driver::Radv) else { return };
        let seen = run(&env, &["in-real-time"]);
        let Some(seen) = seen.as_array() else {
            return scenario.not_here("real-time priority is not allowed");
        };
        assert!(!seen.is_empty(), "threads of the layer are seen");
        for thread in seen {
            assert_eq!(thread[1], libc::SCHED_OTHER, "{seen:?}");
        }
    });
}

/// The kernel keeps a filter for each thread, and threads of the layer that exist do not inherit it.
#[test]
fn a_filter_that_a_thread_of_the_program_gets_does_not_hold_for_threads_of_the_layer() {
    /// The thread's number and filters, of each thread of the layer; the filters of the main thread.
    type Filters = (Vec<(u64, u64)>, u64);
    scenario(&[], |scenario| {
        let Some(env) = filled(scenario, Driver::Radv) else { return };
        let seen: Option<[Filters; 2]> = serde_json::from_value(run(&env, &["filter-itself"])).unwrap();
        let Some([(before, own), (after, own_after)]) = seen else {
            return scenario.not_here("the kernel does not say how many filters a thread has");
        };
        assert_eq!(own_after, own + 1, "the main thread has a filter");
        let kept: Vec<_> =
            after.iter().filter(|(number, _)| before.iter().any(|(of, _)| of == number)).collect();
        assert!(!kept.is_empty(), "a thread of the layer lived on: {before:?} {after:?}");
        assert!(kept.iter().all(|(_, filters)| *filters == own), "{own}: {kept:?}");
    });
}

/// A limit of the user's processes, or a sandbox: the program is served as far as no thread is needed, and it ends.
#[test]
fn a_program_goes_on_where_the_system_refuses_threads() {
    scenario(&[], |scenario| {
        for driver in [Driver::Test(json!({})), Driver::Radv] {
            let Some(env) = scenario.on(driver.clone()) else { return };
            let refused = |when| {
                let folder = scenario.folder().join(format!("{} {when}", env.driver().name()));
                assert_eq!(run(&env.clone().report(&folder), &["make-without-threads"]), json!(true));
                Reports::read(&folder)
            };
            let empty = refused("empty");
            assert_eq!(empty.sum("compiled_unrecorded"), COUNT, "{:?}", empty.counters());
            assert!(empty.sum("dropped") >= COUNT, "{:?}", empty.counters());
            filled(scenario, driver);
            let filled = refused("filled");
            assert_eq!(filled.sum("served"), COUNT, "{:?}", filled.counters());
        }
    });
}

/// Compiles a library whose constructor calls what the environment names.
fn constructor(scenario: &Scenario) -> PathBuf {
    let (source, library) = (scenario.folder().join("at_load.c"), scenario.folder().join("libat_load.so"));
    let text = "#include <stdlib.h>\n\
        __attribute__((constructor)) static void at_load(void) {\n\
            ((void (*)(void))strtoull(getenv(\"VKSTASH_HOST_CALL\"), 0, 16))();\n\
        }\n";
    std::fs::write(&source, text).unwrap();
    let mut compiler = Command::new("cc");
    let compiled = compiler.args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    assert!(compiled.unwrap().success());
    library
}

/// The layer's threads register nothing with the dynamic loader, whose lock the program holds there.
#[test]
fn a_device_of_a_librarys_constructor_is_served_and_reported() {
    scenario(&[], |scenario| {
        let Some(env) = filled(scenario, Driver::Radv) else { return };
        let library = constructor(scenario);
        let how = ["under-the-loaders-lock", library.to_str().unwrap()];
        let folder = scenario.folder().join("under the lock");
        // A layer that waited for its threads under the loader's lock would wait for ever.
        let mut started = Started::new(host(&env.report(&folder).var("VKSTASH_END_MS", "10000000"), &how));
        until("the constructor returns", || started.has_ended());
        assert!(started.0.wait().unwrap().success());
        let reports = Reports::read(&folder);
        assert_eq!(reports.sum("served") + reports.sum("parked"), COUNT, "{:?}", reports.counters());
    });
}

/// Prints for 20 processes each: how many end in order, and how long the slowest lasts, from its start to its end.
#[test]
#[ignore = "prints figures"]
fn how_long_processes_last_whose_main_thread_leaves() {
    scenario(&[], |scenario| {
        let Some(env) = filled(scenario, Driver::Radv) else { return };
        let env = env.var("VKSTASH_TRACE", scenario.folder().join("trace"));
        for how in ["leaves-instance", "leaves-device", "make-beside-workers"] {
            let (mut in_order, mut longest) = (0, Duration::ZERO);
            for _ in 0..20 {
                let _ = std::fs::remove_file(scenario.folder().join("trace"));
                let began = Instant::now();
                in_order += u32::from(host(&env, &[how]).status().unwrap().success());
                longest = longest.max(began.elapsed());
            }
            println!("{how}: {in_order} of 20, {} ms", longest.as_millis());
        }
    });
}
