//! A program as the tests of the layer's threads need it, which a test program of Rust's cannot be: its main thread may
//! leave by pthread_exit, it has 4 MiB of thread-local storage, and it has no threads of its own.
//!
//! `vkstash-process HOW`, where HOW is one of the words that `run` compares.
#![cfg_attr(not(test), no_main)]
#![allow(clippy::expect_used, reason = "a program of tests reports with panics")]
#![cfg_attr(test, allow(dead_code, reason = "the test harness is the program"))]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use ash::vk;
use vkstash_layer_tests::child::answer;
use vkstash_layer_tests::vulkan::{Device, DeviceOptions, Instance, InstanceOptions};
use vkstash_layer_tests::waiting::{self, until};
use vkstash_layer_tests::work::Work;

/// The C library takes this out of the stack of each thread.
const THREAD_LOCAL: usize = 4 << 20;

thread_local! {
    static LARGE: Cell<[u8; THREAD_LOCAL]> = const { Cell::new([0; THREAD_LOCAL]) };
}

/// What a program leaves alive at its end.
static ALIVE: Mutex<(Option<Device>, Option<std::sync::Arc<Instance>>)> = Mutex::new((None, None));

unsafe extern "C-unwind" {
    /// The C library's. It unwinds the stack of the thread.
    fn pthread_exit(value: *mut c_void) -> !;
}

fn work() -> Work {
    Work { count: 40, ..Work::default() }
}

fn device() -> Device {
    let instance = Instance::new(&InstanceOptions::default()).expect("an instance");
    Device::new(&instance, &work().device_options()).expect("a device")
}

fn make_all(device: &Device) {
    assert!(work().run_through(device, vk::PipelineCache::null()).all_made());
}

/// The names and scheduling policies of the layer's threads.
fn own_threads() -> Vec<(String, i32)> {
    let tasks = fs::read_dir("/proc/self/task").expect("this process has threads").flatten();
    let named = tasks.filter_map(|task| {
        let name = fs::read_to_string(task.path().join("comm")).ok()?.trim_end().to_owned();
        let number = task.file_name().to_str()?.parse().ok()?;
        // SAFETY: it takes a number. A thread that has ended meanwhile is an error.
        let policy = unsafe { libc::sched_getscheduler(number) };
        (name.starts_with("vkstash-") && name != "vkstash-process" && policy >= 0).then_some((name, policy))
    });
    named.collect()
}

/// Answers with the layer's threads when vkCreateDevice has returned, and waits for those that begin with
/// vkGetDeviceQueue.
fn threads_at_creation() {
    let instance = Instance::new(&InstanceOptions::default()).expect("an instance");
    let options = DeviceOptions { without_queue: true, ..work().device_options() };
    let device = Device::new(&instance, &options).expect("a device");
    answer(&serde_json::json!(own_threads()));
    // SAFETY: a live device with one queue of this family.
    unsafe { device.raw.get_device_queue(0, 0) };
    until("a worker begins", || !own_threads().is_empty());
}

/// The variables that threads of the layer have asked for.
static ASKED_FOR: Mutex<Vec<String>> = Mutex::new(Vec::new());

unsafe extern "C" {
    /// The C library's: NULL, or pointers to `NAME=VALUE` and at last NULL.
    static environ: *const *mut c_char;
}

/// `getenv` in the place of the C library's, for all libraries of this process.
///
/// # Safety
/// `name` is a NULL-terminated string; nobody changes the environment meanwhile.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn getenv(name: *const c_char) -> *mut c_char {
    // SAFETY: `name` is NULL-terminated, nobody changes `environ` meanwhile, and the kernel writes 16 bytes at most.
    unsafe {
        let name = CStr::from_ptr(name).to_bytes();
        let mut thread = [0; 16];
        libc::prctl(libc::PR_GET_NAME, thread.as_mut_ptr());
        if thread.starts_with(b"vkstash-") && !thread.starts_with(b"vkstash-process") {
            let name = String::from_utf8_lossy(name).into_owned();
            ASKED_FOR.lock().unwrap_or_else(PoisonError::into_inner).push(name);
        }
        let mut next = environ;
        while !next.is_null() && !(*next).is_null() {
            let text = CStr::from_ptr(*next).to_bytes();
            if text.starts_with(name) && text.get(name.len()) == Some(&b'=') {
                return (*next).add(name.len() + 1);
            }
            next = next.add(1);
        }
    }
    std::ptr::null_mut()
}

/// Answers with the variables that threads of the layer ask for beside a program that makes pipelines.
fn asked_for() {
    beside_workers();
    let mut names = std::mem::take(&mut *ASKED_FOR.lock().unwrap_or_else(PoisonError::into_inner));
    names.sort();
    names.dedup();
    answer(&names.into());
}

/// Makes one pipeline, and the others when workers have, as the trace says.
fn beside_workers() {
    let device = device();
    let first = Work { count: 1, ..work() };
    assert!(first.run_through(&device, vk::PipelineCache::null()).all_made());
    let trace = PathBuf::from(std::env::var_os("VKSTASH_TRACE").expect("a trace is written"));
    until("workers make the others", || waiting::tasks(&trace, "park") + 1 >= work().count as usize);
    make_all(&device);
}

/// Waits until the parent closes standard input.
extern "C" fn waits(_: *mut c_void) -> *mut c_void {
    let _ = std::io::stdin().read(&mut [0]);
    std::ptr::null_mut()
}

/// The main thread is about to leave: an instance, or a device too, lives on. `threads`: another thread of the program
/// does, too, until standard input is closed.
fn leave(with_device: bool, threads: bool) {
    let instance = Instance::new(&InstanceOptions::default()).expect("an instance");
    let device = with_device.then(|| Device::new(&instance, &work().device_options()).expect("a device"));
    device.iter().for_each(make_all);
    *ALIVE.lock().expect("nobody has panicked") = (device, Some(instance));
    if threads {
        // SAFETY: attributes and a thread on this stack; the function has the type that the call expects.
        unsafe {
            let (mut attributes, mut thread) = std::mem::zeroed();
            libc::pthread_attr_init(&mut attributes);
            libc::pthread_attr_setstacksize(&mut attributes, THREAD_LOCAL + (1 << 20));
            assert_eq!(libc::pthread_create(&mut thread, &attributes, waits, std::ptr::null_mut()), 0);
        }
    }
    answer(&true.into());
}

/// Real-time threads start others that are such, too. Answers with the policies of the layer's, or with nothing where
/// the system does not allow it.
fn in_real_time() {
    // SAFETY: the parameter is on this stack; 0 is the calling thread.
    let is_allowed = unsafe {
        let mut parameter: libc::sched_param = std::mem::zeroed();
        parameter.sched_priority = 1;
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameter) == 0
    };
    // A thread that has just begun has not left the policy of its starter yet.
    let settled = || {
        let mut seen = Vec::new();
        until("the layer's threads have left real time", || {
            seen = own_threads();
            !is_allowed || seen.iter().all(|(_, policy)| *policy == libc::SCHED_OTHER)
        });
        seen
    };
    let device = device();
    let mut seen = settled();
    make_all(&device);
    seen.extend(settled());
    drop(device);
    answer(&if is_allowed { serde_json::json!(seen) } else { serde_json::Value::Null });
}

/// The number of a thread, and of the seccomp filters that it has.
type Filtered = (u64, u64);

/// Of each thread of the layer, and of this one.
fn filters() -> (Vec<Filtered>, u64) {
    let of = |task: PathBuf| {
        let status = fs::read_to_string(task.join("status")).ok()?;
        let value = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let is_of_layer = value("Name:")?.starts_with("vkstash-") && value("Name:")? != "vkstash-process";
        Some((is_of_layer, (value("Pid:")?.parse().ok()?, value("Seccomp_filters:")?.parse().ok()?)))
    };
    let tasks = fs::read_dir("/proc/self/task").expect("this process has threads").flatten();
    let layers = tasks.filter_map(|task| of(task.path())).filter(|(is_of_layer, _)| *is_of_layer);
    let own = of("/proc/thread-self".into()).map_or(0, |(_, (_, filters))| filters);
    (layers.map(|(_, filtered)| filtered).collect(), own)
}

/// The program gives its thread a filter after the layer has threads. Answers with what each had before and after, or
/// with nothing where the system does not say it.
fn filter_itself() {
    let device = device();
    make_all(&device);
    until("the layer has threads", || !own_threads().is_empty());
    let before = filters();
    load_filter(&mut [statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW)]);
    let after = filters();
    make_all(&device);
    let said = fs::read_to_string("/proc/self/status").expect("proc(5)").contains("Seccomp_filters:");
    answer(&if said { serde_json::json!([before, after]) } else { serde_json::Value::Null });
}

/// From now on the system refuses this process each further thread, as it does at RLIMIT_NPROC (which root does not
/// have).
fn refuse_threads() {
    let load = |offset: usize| statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset as u32);
    let jump = |kind, value, yes, no| statement(libc::BPF_JMP | kind | libc::BPF_K, yes, no, value);
    let answer = |value| statement(libc::BPF_RET | libc::BPF_K, 0, 0, value);
    let errno = |number: c_int| libc::SECCOMP_RET_ERRNO | number as u32;
    let low_half = if cfg!(target_endian = "big") { 4 } else { 0 };
    let mut filter = [
        load(std::mem::offset_of!(libc::seccomp_data, nr)),
        // Its flags are in memory: the C library then uses clone.
        jump(libc::BPF_JEQ, libc::SYS_clone3 as u32, 0, 1),
        answer(errno(libc::ENOSYS)),
        jump(libc::BPF_JEQ, libc::SYS_clone as u32, 0, 3),
        load(std::mem::offset_of!(libc::seccomp_data, args) + low_half),
        jump(libc::BPF_JSET, libc::CLONE_THREAD as u32, 0, 1),
        answer(errno(libc::EAGAIN)),
        answer(libc::SECCOMP_RET_ALLOW),
    ];
    load_filter(&mut filter);
    assert!(std::thread::Builder::new().spawn(|| ()).is_err(), "threads are refused");
}

/// For the calling thread, and those that it starts.
fn load_filter(filter: &mut [libc::sock_filter]) {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: it takes numbers, and a filter that outlives the call, which the kernel copies.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program), 0);
    }
}

fn statement(code: u32, yes: u8, no: u8, value: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: yes, jf: no, k: value }
}

extern "C" fn in_constructor() {
    make_all(&device());
}

/// A library is loaded whose constructor makes pipelines on a device, and destroys it: all of that under the lock of
/// the dynamic loader. `library` calls the function whose address is in the environment.
fn under_the_loaders_lock(library: &str) {
    let address = format!("{:#x}", in_constructor as *const () as usize);
    let library = std::ffi::CString::new(library).expect("a path");
    // SAFETY: no other thread uses the environment; a path of a library that the test has built.
    unsafe {
        std::env::set_var("VKSTASH_HOST_CALL", address);
        assert!(!libc::dlopen(library.as_ptr(), libc::RTLD_NOW).is_null());
    }
    answer(&true.into());
}

/// The program's entry, as the C library calls it.
#[cfg_attr(not(test), unsafe(export_name = "main"))]
pub extern "C-unwind" fn run(_: c_int, _: *const *const c_char) -> c_int {
    LARGE.with(|large| std::hint::black_box(large.as_ptr()));
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("make") => {
            make_all(&device());
            answer(&true.into());
        }
        Some("make-beside-workers") => {
            beside_workers();
            answer(&true.into());
        }
        Some("make-without-threads") => {
            refuse_threads();
            make_all(&device());
            assert!(own_threads().is_empty());
            answer(&true.into());
        }
        Some("asked-for") => asked_for(),
        Some("threads-at-creation") => threads_at_creation(),
        Some("in-real-time") => in_real_time(),
        Some("filter-itself") => filter_itself(),
        Some("under-the-loaders-lock") => under_the_loaders_lock(&arguments[2]),
        Some(how @ ("leaves-instance" | "leaves-device" | "leaves-thread")) => {
            leave(how != "leaves-instance", how == "leaves-thread");
            drop(arguments);
            // SAFETY: nothing of this frame has to be dropped, and the frames above are the C library's.
            unsafe { pthread_exit(std::ptr::null_mut()) };
        }
        other => panic!("vkstash-process does not know {other:?}"),
    }
    0
}
