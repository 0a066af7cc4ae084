//! A process may be forked while its other threads are anywhere in the layer. Its child waits for none of what they
//! have: this suite forks once for each place where the layer takes a lock or makes something once, while a thread is
//! there, and the child uses what it has inherited and what is its own.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::{Value, json};

use vkstash_layer_tests::api::{Api, CLEAR, COMPILATIONS};
use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::Driver;
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions, spirv};
use vkstash_layer_tests::work::Work;

use crate::callbacks::{COMMANDS, LISTING_COMMAND, Program};

/// What the thread that forks is told: a place, and whom to tell when the child has ended. None: everything is over.
type Request = Option<(String, Sender<()>)>;

static REQUESTS: OnceLock<Sender<Request>> = OnceLock::new();
/// The places of which a child was forked.
static SEEN: Mutex<Option<HashSet<String>>> = Mutex::new(None);
/// Held in commands in which the loader has a lock of its own. A child forked there cannot use them.
static LOADER: Mutex<()> = Mutex::new(());
/// What children inherit, once it is there.
static INHERITED: OnceLock<Program<'static>> = OnceLock::new();

thread_local! {
    /// The thread that forks, and the only one of each child.
    static FORKS: Cell<bool> = const { Cell::new(false) };
}

/// A thread has what the layer says: it goes on when a child has been forked and has ended.
extern "C" fn stop(place: *const u8, length: usize) {
    let parent = REQUESTS.get().filter(|_| !FORKS.get() && !is_child());
    let Some(parent) = parent else { return };
    // SAFETY: the layer passes a name with its length.
    let place = String::from_utf8_lossy(unsafe { std::slice::from_raw_parts(place, length) }).into_owned();
    if SEEN.lock().unwrap().get_or_insert_default().insert(place.clone()) {
        let (end, ends) = channel();
        if parent.send(Some((place, end))).is_ok() {
            // An error: nobody forks any more.
            let _ = ends.recv();
        }
    }
}

fn is_child() -> bool {
    static PARENT: OnceLock<u32> = OnceLock::new();
    *PARENT.get_or_init(std::process::id) != std::process::id()
}

/// An instance with a messenger, and a device.
fn create() -> (Arc<Instance>, Device) {
    let instance = Instance::new(&InstanceOptions { messages: true, ..InstanceOptions::default() }).unwrap();
    let options = DeviceOptions { identifiers: true, cache_control: true, ..DeviceOptions::default() };
    let device = Device::new(&instance, &options).unwrap();
    (instance, device)
}

/// A program from its first command to its last, of which it leaves one device alive.
fn live(api: &Api) {
    let use_api = |key: &[u8]| {
        api.identifier(&spirv::compute(1));
        let session = api.session(1);
        session.store(key, b"value");
        assert_eq!(session.find(key).as_deref(), Some(&b"value"[..]));
        api.control(COMPILATIONS, CLEAR);
        api.set_background_mode(0, 0, -1);
        api.statistics();
    };
    use_api(b"first");
    let loading = LOADER.lock().unwrap();
    let (instance, device) = create();
    drop(loading);
    let device = Box::leak(Box::new(device));
    let program = INHERITED.get_or_init(|| Program {
        instance: Box::leak(Box::new(instance)),
        device,
        shared: device.cache(&[]),
        next: AtomicU32::new(1),
    });
    let run_all = || {
        for number in 0..COMMANDS {
            let _loading = (number == LISTING_COMMAND).then(|| LOADER.lock().unwrap());
            program.run(number);
        }
    };
    run_all();
    use_api(b"second");
    let loading = LOADER.lock().unwrap();
    let own = create();
    assert!(Work::default().run(&own.1).all_made());
    drop(own);
    drop(loading);
    run_all();
}

/// The child's only thread: everything that the loader lets it do. Returns its exit status.
fn live_in_child(api: &Api) -> i32 {
    api.identifier(&spirv::compute(1));
    let inherited = INHERITED.get();
    let is_free = LOADER.try_lock().is_ok();
    if let Some(program) = inherited {
        program.next.fetch_add(1000, Ordering::Relaxed);
        let _ = program.instance.properties(program.device.physical);
        let numbers = (0..COMMANDS).filter(|number| is_free || *number != LISTING_COMMAND);
        numbers.for_each(|number| program.run(number));
    }
    if is_free {
        let own = create();
        assert!(Work::default().run(&own.1).all_made());
        drop(own);
    }
    7
}

/// Tells the thread that forks when its owner has ended.
struct End(Sender<Request>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.send(None).unwrap();
    }
}

/// Answers with each place, and how the child that was forked there ended: 7 is well.
fn fork_everywhere(_: &Value) -> Value {
    let (requests, requested) = channel();
    REQUESTS.set(requests.clone()).unwrap();
    assert!(!is_child());
    FORKS.set(true);
    let api = Api::load();
    api.observe(stop);
    let mut ends = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _end = End(requests);
            live(&Api::load());
        });
        while let Ok(Some((place, end))) = requested.recv() {
            // SAFETY: the child makes the calls that children of real programs make, and its parent waits for it.
            let status = unsafe {
                let child = libc::fork();
                if child == 0 {
                    libc::alarm(60);
                    libc::exit(live_in_child(&api));
                }
                let mut status = 0;
                libc::waitpid(child, &mut status, 0);
                status
            };
            let exited = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
            ends.push((place, exited.unwrap_or(-status)));
            end.send(()).unwrap();
        }
    });
    // What is asked for from now on is not answered.
    drop(requested);
    json!(ends)
}

#[test]
fn a_child_waits_for_nothing_that_its_parents_threads_have() {
    for (ask_first, workers) in [("stash", "0"), ("driver", "2")] {
        scenario(&[("step", fork_everywhere)], |scenario| {
            if !cfg!(debug_assertions) {
                return scenario.not_here("a release build does not know what it holds");
            }
            let env = scenario.on(Driver::Test(json!({ "identifiers": false }))).unwrap();
            // A fork waits for workers, which stop here, as long as this variable says.
            let env = env.without_var("VKSTASH_TEST_UNHURRIED");
            let env = env.var("VKSTASH_ASK_FIRST", ask_first).var("VKSTASH_BACKGROUND_WORKERS", workers);
            let outcome = scenario.run_ok::<Vec<(String, i32)>>("step", &env, &());
            let bad: Vec<_> = outcome.value.iter().filter(|(_, end)| *end != 7).collect();
            assert!(bad.is_empty(), "{bad:#?}\n{}", outcome.stderr);
            for file in [
                "hooks/messengers.rs",
                "state/process/session.rs",
                "state/devices/live_devices.rs",
                "part/queue.rs",
                "session.rs",
            ] {
                let is_met = outcome.value.iter().any(|(place, _)| place.contains(file));
                assert!(is_met, "{file}: {:#?}", outcome.value);
            }
        });
    }
}
