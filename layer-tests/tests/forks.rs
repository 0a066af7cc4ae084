//! Programs that fork while they use Vulkan.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use vkstash_layer_tests::child::{Run, Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::suite::{assert_all_served, run};
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions, spirv};
use vkstash_layer_tests::waiting;
use vkstash_layer_tests::work::{self, Work};
use vkstash_store::reports::model::RunReport;
use vkstash_store::stash::inspect::list_applications;

fn device() -> Device {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    Device::new(&instance, &DeviceOptions::default()).unwrap()
}

/// How the child is created.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Creation {
    Fork,
    /// The child is created by the system call: no handler of the C library runs.
    Clone,
    /// The child is created by vfork: it may only call `_exit` and `exec`.
    Vfork,
}

/// What the child does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Action {
    /// The child exits through its parent's exit handlers.
    Exit,
    /// The child calls `_exit`.
    UnderscoreExit,
    /// The child destroys its parent's device, as a global destructor would, and exits.
    Destroy,
    /// The child creates pipelines on its parent's device, and exits without destroying it.
    GoOn,
    /// The child creates pipelines on a device of its own.
    Own,
}

/// The first constant of a child's pipelines; the parent creates none of these.
const CHILD_FIRST: u32 = 900;

fn act(action: Action, device: &Device) -> bool {
    let work = Work { first: CHILD_FIRST, ..Work::default() };
    match action {
        Action::Exit | Action::UnderscoreExit => true,
        Action::Destroy => {
            // SAFETY: the device is alive, and not used in this process again.
            unsafe { (device.raw.fp_v1_0().destroy_device)(device.raw.handle(), std::ptr::null()) };
            true
        }
        Action::GoOn => work.run(device).all_made(),
        Action::Own => work.run(&self::device()).all_made(),
    }
}

/// Whether no other thread of this process runs.
fn others_wait() -> bool {
    // SAFETY: it takes no argument.
    let own = unsafe { libc::gettid() };
    let threads = std::fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap().path());
    threads.filter(|path| !path.ends_with(own.to_string())).all(|path| {
        let stat = std::fs::read_to_string(path.join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_none_or(|rest| rest.starts_with('S') || rest.is_empty())
    })
}

/// A program that forks three times while it uses Vulkan, and goes on.
fn fork_and_continue(input: &Value) -> Value {
    let (creation, action): (Creation, Action) = serde_json::from_value(input.clone()).unwrap();
    let device = device();
    assert!(Work::default().run(&device).all_made());
    let mut ends = Vec::new();
    for _ in 0..3 {
        if creation == Creation::Clone {
            // Nobody gives up the C library's locks for such a child, which a thread has that is just beginning.
            waiting::until("other threads wait", others_wait);
        }
        // SAFETY: the child makes the calls that children of real programs make, and its parent waits for it.
        unsafe {
            let child = match creation {
                Creation::Fork => libc::fork(),
                Creation::Clone => libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as libc::pid_t,
                #[allow(deprecated, reason = "real programs call it")]
                Creation::Vfork => libc::vfork(),
            };
            if child == 0 {
                if creation == Creation::Vfork || action == Action::UnderscoreExit {
                    libc::_exit(7);
                }
                libc::alarm(60);
                let status = if act(action, &device) { 7 } else { 8 };
                libc::exit(status);
            }
            let mut status = 0;
            libc::waitpid(child, &mut status, 0);
            ends.push(if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -status });
        }
    }
    let made = Work { first: 11, ..Work::default() }.run(&device).all_made();
    json!((ends, made))
}

fn with_children(
    creations: &[Creation],
    action: Action,
    test: impl Fn(&Scenario, &Env, &Run<(Vec<i32>, bool)>),
) {
    for creation in creations {
        scenario(&[("step", fork_and_continue), ("work", work::step)], |scenario| {
            let Some(env) = scenario.on(Driver::Radv) else { return };
            let outcome = scenario.run_ok::<(Vec<i32>, bool)>("step", &env, &(creation, action));
            assert_eq!(outcome.value, (vec![7; 3], true), "{creation:?} {action:?}: {}", outcome.stderr);
            test(scenario, &env, &outcome);
            for first in [1, 11] {
                assert_all_served(&run(scenario, &env, &Work { first, ..Work::default() }), 3);
            }
        });
    }
}

/// The number of compiled pipelines in each report; the parent's first.
fn compiled(outcome: &Run<(Vec<i32>, bool)>) -> Vec<u64> {
    let by_run =
        |run: &RunReport| run.devices.iter().filter_map(|device| device.counters.get("compiled")).sum();
    outcome.reports.0.iter().map(by_run).collect()
}

#[test]
fn a_forked_child_exits_without_touching_its_parents_stash() {
    for action in [Action::Exit, Action::UnderscoreExit, Action::Destroy] {
        with_children(&[Creation::Fork, Creation::Clone], action, |_, env, outcome| {
            assert_eq!(compiled(outcome), [6], "{action:?}: {:?}", outcome.reports);
            let [application] = list_applications(&env.stash_folder()).unwrap().try_into().unwrap();
            assert_eq!(application.runs.runs, 1, "{action:?}");
        });
    }
}

#[test]
fn a_vfork_child_changes_nothing() {
    with_children(&[Creation::Vfork], Action::UnderscoreExit, |_, _, outcome| {
        assert_eq!(compiled(outcome), [6], "{:?}", outcome.reports);
    });
}

/// The child is a process like any other: it has records and a report of its own, and does not touch its parent's.
#[test]
fn a_forked_child_that_uses_vulkan_has_a_stash_of_its_own() {
    for action in [Action::GoOn, Action::Own] {
        with_children(&[Creation::Fork, Creation::Clone], action, |scenario, env, outcome| {
            let runs = compiled(outcome);
            assert_eq!(runs.len(), 4, "{action:?}: {:?}", outcome.reports);
            // The first child compiles the pipelines that the others are served.
            assert_eq!((runs[0], runs[1..].iter().sum()), (6, 3), "{action:?}: {:?}", outcome.reports);
            assert_eq!(outcome.reports.sum("served"), 6, "{action:?}: {:?}", outcome.reports);
            assert_all_served(&run(scenario, env, &Work { first: CHILD_FIRST, ..Work::default() }), 3);
        });
    }
}

/// The identifier of a module that was created before a fork: in this process, and in the child.
fn identify_in_a_child(_: &Value) -> Value {
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let options = DeviceOptions { identifiers: true, ..DeviceOptions::default() };
    let device = Device::new(&instance, &options).unwrap();
    let module = device.module(&spirv::compute(1));
    let here = device.identifier(module);
    // SAFETY: the child makes a call that no lock of the parent's stands in the way of, and ends without handlers.
    let status = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(60);
            libc::_exit(if device.identifier(module) == here { 7 } else { 8 });
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        status
    };
    json!((here.len(), libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7))
}

#[test]
fn a_child_knows_the_identifiers_of_its_parents_modules() {
    scenario(&[("step", identify_in_a_child)], |scenario| {
        let env = scenario.on(Driver::Test(json!({ "identifiers": false }))).unwrap();
        assert_eq!(scenario.run_ok::<(usize, bool)>("step", &env, &()).value, (32, true));
    });
}
