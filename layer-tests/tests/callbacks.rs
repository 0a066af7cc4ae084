//! A driver may call the program in any command: its debug messengers and its allocators. The program may wait there
//! for another thread of its own, which calls the layer meanwhile, whatever the first one was doing. Without the layer
//! both go on; so the layer holds nothing that the second one waits for.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex};

use ash::ext::debug_utils;
use ash::vk;
use serde_json::{Value, json};

use vkstash_layer_tests::child::{Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions, allocator, spirv};
use vkstash_layer_tests::waiting::PATIENCE;
use vkstash_layer_tests::work::Work;

/// Where the thread that is in a callback waits for a round of the other one.
struct Meeting {
    state: Mutex<Rounds>,
    changed: Condvar,
}

#[derive(Default)]
struct Rounds {
    wanted: u32,
    made: u32,
    is_over: bool,
}

static MEETING: Meeting =
    Meeting { state: Mutex::new(Rounds { wanted: 0, made: 0, is_over: false }), changed: Condvar::new() };

thread_local! {
    /// In how many further callbacks this thread waits.
    static MEETS: Cell<u32> = const { Cell::new(0) };
}

/// Callbacks of one command that wait: an allocator is called hundreds of times.
const MOST: u32 = 8;

impl Meeting {
    /// In a callback: waits until the other thread has made a round.
    fn meet(&self) {
        let left = MEETS.replace(0);
        if left == 0 {
            return;
        }
        let mut rounds = self.state.lock().unwrap();
        rounds.wanted += 1;
        self.changed.notify_all();
        let (rounds, waited) =
            self.changed.wait_timeout_while(rounds, PATIENCE, |rounds| rounds.made < rounds.wanted).unwrap();
        if waited.timed_out() {
            // Neither thread would end.
            eprintln!("the other thread waits for this one, which is in a callback");
            std::process::abort();
        }
        drop(rounds);
        MEETS.set(left - 1);
    }

    /// The other thread: makes the rounds that are wanted.
    fn serve(&self, round: impl Fn()) {
        loop {
            let rounds = self.state.lock().unwrap();
            let nothing = |rounds: &mut Rounds| rounds.made == rounds.wanted && !rounds.is_over;
            let rounds = self.changed.wait_while(rounds, nothing).unwrap();
            if rounds.made == rounds.wanted {
                return;
            }
            drop(rounds);
            round();
            self.state.lock().unwrap().made += 1;
            self.changed.notify_all();
        }
    }

    fn end(&self) {
        self.state.lock().unwrap().is_over = true;
        self.changed.notify_all();
    }
}

unsafe extern "system" fn message(
    _: vk::DebugUtilsMessageSeverityFlagsEXT,
    _: vk::DebugUtilsMessageTypeFlagsEXT,
    _: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    _: *mut c_void,
) -> vk::Bool32 {
    MEETING.meet();
    vk::FALSE
}

unsafe extern "system" fn allocate(
    _: *mut c_void,
    size: usize,
    _: usize,
    _: vk::SystemAllocationScope,
) -> *mut c_void {
    MEETING.meet();
    // SAFETY: malloc takes any size; the other callbacks are those of `allocator::of_malloc`.
    unsafe { libc::malloc(size) }
}

/// Commands of a program, each by its number.
pub struct Program<'a> {
    pub instance: &'a Instance,
    pub device: &'a Device,
    pub shared: vk::PipelineCache,
    /// Constants of pipelines that are new.
    pub next: AtomicU32,
}

pub const COMMANDS: usize = 10;
/// The command in which the loader has a lock of its own.
pub const LISTING_COMMAND: usize = 8;

impl Program<'_> {
    fn create(&self, cache: vk::PipelineCache, first: u32) {
        let work = Work { first, count: 1, ..Work::default() };
        assert!(work.run_through(self.device, cache).all_made());
    }

    /// Creates a pipeline of shaders that another one has, and asks for a second one without compiling: the layer fills
    /// and asks the companion of the cache.
    fn create_with_known_shaders(&self, cache: vk::PipelineCache) {
        assert_eq!(self.create_by_layout(cache, vk::PipelineCreateFlags::empty()), vk::Result::SUCCESS);
        let may_not_compile = vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED;
        assert!(self.create_by_layout(cache, may_not_compile).as_raw() >= 0);
    }

    fn create_by_layout(&self, cache: vk::PipelineCache, flags: vk::PipelineCreateFlags) -> vk::Result {
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(self.device.module(&spirv::compute(0)))
            .name(c"main");
        let layout = self.device.compute_layout_with(self.next.fetch_add(1, Ordering::Relaxed));
        let info = vk::ComputePipelineCreateInfo::default().flags(flags).stage(stage).layout(layout);
        // SAFETY: a valid create info, and a live cache of the device or none.
        unsafe { self.device.create_compute(cache, &[info]) }.0
    }

    pub fn run(&self, number: usize) {
        let new = || self.next.fetch_add(1, Ordering::Relaxed);
        match number {
            0 => self.create(self.shared, new()),
            1 => self.create(vk::PipelineCache::null(), new()),
            2 => self.create(self.shared, 1),
            3 => self.create_with_known_shaders(self.shared),
            4 => self.create_with_known_shaders(vk::PipelineCache::null()),
            5 => _ = self.device.cache_size(self.shared),
            6 => _ = self.device.cache_data_into(self.shared, 1 << 20),
            7 => {
                let own = self.device.cache(&[]);
                self.create(own, new());
                // SAFETY: live caches, of which nobody else has the destination.
                unsafe { self.device.raw.merge_pipeline_caches(own, &[self.shared]) }.unwrap();
                self.device.destroy_cache(own);
            }
            LISTING_COMMAND => _ = self.instance.identifier_support(self.device.physical),
            _ => _ = self.device.module(&spirv::compute(new())),
        }
    }
}

/// Runs each command, and in each callback of it, on another thread, all of them.
fn meet(input: &Value) -> Value {
    let callbacks = allocator::of_malloc().pfn_allocation(Some(allocate));
    let chosen = |name: &str| (input == name).then_some(&callbacks);
    let says = input == "messenger";
    let options = InstanceOptions {
        extensions: if says { vec![debug_utils::NAME] } else { Vec::new() },
        ..InstanceOptions::default()
    };
    let instance = Instance::with_allocator(&options, chosen("instance")).unwrap();
    let all = vk::DebugUtilsMessageSeverityFlagsEXT::from_raw(u32::MAX);
    let info = vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(all)
        .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION)
        .pfn_user_callback(Some(message));
    let messengers = says.then(|| debug_utils::Instance::new(&instance.entry, &instance.raw));
    // SAFETY: a live instance with the extension, and a valid create info.
    messengers.map(|messengers| unsafe { messengers.create_debug_utils_messenger(&info, None) }.unwrap());

    let physical = instance.physical_device();
    let queue = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
    let mut features = vk::PhysicalDeviceVulkan13Features::default().pipeline_creation_cache_control(true);
    let info = vk::DeviceCreateInfo::default().queue_create_infos(&queue).push_next(&mut features);
    // SAFETY: a live physical device and a valid create info.
    let raw = unsafe { instance.raw.create_device(physical, &info, chosen("device")) }.unwrap();
    let device = Device::adopt(&instance, physical, raw);
    let next = AtomicU32::new(1);
    let program = Program { instance: &instance, device: &device, shared: device.cache(&[]), next };

    let met = std::thread::scope(|scope| {
        scope.spawn(|| MEETING.serve(|| (0..COMMANDS).for_each(|number| program.run(number))));
        let mut met = Vec::new();
        for number in 0..2 * COMMANDS {
            MEETS.set(MOST);
            program.run(number % COMMANDS);
            met.push(MOST - MEETS.replace(0));
        }
        MEETING.end();
        met
    });
    // Destroying them would need the allocators again.
    std::mem::forget((device, instance));
    json!(met)
}

fn in_each_run(scenario: &Scenario, env: &Env, from: &str) {
    for layer in [false, true] {
        // Waits have limits, which that variable takes away.
        let env = env.clone().without_var("VKSTASH_TEST_UNHURRIED");
        let env = if layer { env } else { env.without_layer() };
        for round in ["cold", "warm"] {
            let run = scenario.run_ok::<Vec<u32>>("meet", &env, &from);
            assert!(run.value.iter().any(|met| *met > 0), "{from}, {round}, layer {layer}: {:?}", run.value);
        }
    }
}

/// What all other suites rely on: the test driver ends a process that enters it with a lock.
#[test]
fn a_lock_that_is_held_in_a_driver_ends_the_process() {
    scenario(&[("meet", meet)], |scenario| {
        if !cfg!(debug_assertions) {
            return scenario.not_here("a release build does not know what it holds");
        }
        let env = scenario.on(Driver::Test(json!({}))).unwrap();
        let ended = scenario.run("meet", &env.var("VKSTASH_TEST_HOLDS", "device looked up"), &"nobody");
        assert_eq!(ended.signal(), Some(libc::SIGABRT), "{}", ended.ending());
        assert!(ended.stderr.contains("while the layer holds"), "{}", ended.ending());
        assert!(ended.stderr.contains("OnPurpose"), "{}", ended.ending());
    });
}

#[test]
fn a_messenger_may_wait_for_another_thread_in_every_command() {
    for (ask_first, workers) in [("stash", "0"), ("driver", "2")] {
        scenario(&[("meet", meet)], |scenario| {
            let env = scenario.on(Driver::Test(json!({ "messages": "all" }))).unwrap();
            let env = env.var("VKSTASH_ASK_FIRST", ask_first).var("VKSTASH_BACKGROUND_WORKERS", workers);
            in_each_run(scenario, &env, "messenger");
        });
    }
}

#[test]
fn an_allocator_may_wait_for_another_thread_on_radv() {
    for from in ["instance", "device"] {
        scenario(&[("meet", meet)], |scenario| {
            let Some(env) = scenario.on(Driver::Radv) else { return };
            in_each_run(scenario, &env.var("VKSTASH_BACKGROUND_WORKERS", "2"), from);
        });
    }
}
