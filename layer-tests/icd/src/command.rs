//! Runs every command: records it, applies the script's faults, and catches panics.

use std::time::Duration;

use ash::vk;

use vkstash_host::unwinding;

use crate::config::{self, Death, Fault, ShaderCode};
use crate::record::{self, Call};
use crate::{callbacks, forks, held, overlap};

/// Runs one command: records it, applies faults, and catches panics.
pub fn command(call: Call, body: impl FnOnce(&mut Call) -> vk::Result) -> vk::Result {
    let name = call.command;
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| guarded(call, body))).unwrap_or_else(|_| {
        record::violation(format!("{name}: the driver panicked"));
        vk::Result::ERROR_UNKNOWN
    })
}

/// [`command`] for commands without a result.
pub fn void(call: Call, body: impl FnOnce(&mut Call)) {
    let _ = command(call, |call| {
        body(call);
        vk::Result::SUCCESS
    });
}

fn guarded(mut call: Call, body: impl FnOnce(&mut Call) -> vk::Result) -> vk::Result {
    call.thread = record::thread();
    held::check(call.command, false);
    let _entered = forks::enter();
    let _under_way = overlap::begin(call.command);
    let (place, count) = record::begin(&call);
    callbacks::say_begun(call.command);
    let struck = strike(call.command, count);
    let result = struck.unwrap_or_else(|| body(&mut call));
    call.result = result.as_raw();
    record::end(place, call);
    result
}

fn strike(command: &str, count: u64) -> Option<vk::Result> {
    let config = config::current();
    let is_of_call = |fault: &&Fault| fault.word.is_none() && fault.code.is_none();
    let is_meant = |fault: &&Fault| is_of_call(fault) && fault.call.is_none_or(|call| call == count);
    let mut result = None;
    for fault in config.faults.iter().filter(|fault| is_of(fault, command)).filter(is_meant) {
        result = inflict(fault).or(result);
    }
    result
}

/// Applies the faults that name a word of the pipelines' modules. Called where a pipeline is compiled.
pub fn strike_compile(call: &Call) -> Option<vk::Result> {
    let config = config::current();
    let is_meant = |fault: &&Fault| fault.word.is_some_and(|word| call.words.contains(&word));
    let mut result = None;
    for fault in config.faults.iter().filter(|fault| is_of(fault, call.command)).filter(is_meant) {
        result = inflict(fault).or(result);
    }
    result
}

/// Applies the faults that name what shader objects are made of, to the one at this place of its call.
pub fn strike_shader(call: &Call, code: ShaderCode, place: usize) -> Option<vk::Result> {
    let config = config::current();
    let is_meant =
        |fault: &&Fault| fault.code == Some(code) && fault.shader.is_none_or(|shader| shader == place);
    let mut result = None;
    for fault in config.faults.iter().filter(|fault| is_of(fault, call.command)).filter(is_meant) {
        result = inflict(fault).or(result);
    }
    result
}

fn is_of(fault: &Fault, command: &str) -> bool {
    fault.command.trim_end_matches("KHR") == command.trim_end_matches("KHR")
}

/// The processor time of the calling thread.
fn ran() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec on this stack, which the call fills in.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn inflict(fault: &Fault) -> Option<vk::Result> {
    // Drivers are written in C: a thread may end in them.
    unwinding::let_forced_unwinds_pass();
    if let Some(file) = &fault.touch {
        std::fs::write(file, []).expect("the file can be made");
    }
    if let Some(ms) = fault.hang_ms {
        std::thread::sleep(Duration::from_millis(ms));
    }
    while fault.until.as_ref().is_some_and(|file| !file.exists()) {
        std::thread::sleep(Duration::from_millis(1));
    }
    if let Some(ms) = fault.burn_ms {
        let began = ran();
        while ran() - began < Duration::from_millis(ms) {
            std::hint::spin_loop();
        }
    }
    match fault.die {
        None => {}
        Some(Death::Exit) => std::process::exit(3),
        Some(Death::Abort) => {
            record::save();
            std::process::abort();
        }
        Some(Death::Kill) => {
            record::save();
            // SAFETY: a process may send itself a signal.
            unsafe { libc::raise(libc::SIGKILL) };
        }
        Some(Death::Segv) => {
            record::save();
            // SAFETY: none; the purpose of this write is to kill the process.
            unsafe { std::ptr::without_provenance_mut::<u8>(8).write_volatile(1) };
        }
    }
    fault.result.map(vk::Result::from_raw)
}
