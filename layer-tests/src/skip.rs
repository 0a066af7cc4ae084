//! Reports of tests that cannot run on this machine. Also compiled into the tests of the other crates.

use std::io::Write as _;

/// Makes a test fail, instead of being skipped, if its driver is missing.
pub const REQUIRE_DRIVERS: &str = "VKSTASH_REQUIRE_DRIVERS";
/// Names a file to which each skipped test adds a line: its name, a tab, and the reason.
pub const SKIPPED: &str = "VKSTASH_SKIPPED";

/// Something is missing that set-up should have installed: a failure with VKSTASH_REQUIRE_DRIVERS=1.
#[allow(dead_code, reason = "not every test program has such tests")]
pub fn missing(test: &str, reason: &str) {
    assert!(!drivers_are_required(), "{test}: {reason}");
    not_here(test, reason);
}

/// Whether a missing driver fails its tests.
pub fn drivers_are_required() -> bool {
    std::env::var(REQUIRE_DRIVERS).is_ok_and(|value| value == "1")
}

/// This machine cannot have it, or does not grant the right: never a failure.
#[allow(dead_code, reason = "not every test program has such tests")]
pub fn not_here(test: &str, reason: &str) {
    eprintln!("{test}: skipped: {reason}");
    let Some(path) = std::env::var_os(SKIPPED) else { return };
    let line = format!("{test}\t{}\n", reason.replace(['\n', '\t'], " "));
    // The line is written by one call: tests of one program run in parallel.
    let file = std::fs::File::options().append(true).create(true).open(path);
    let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
}

/// The name of the test that runs on this thread.
#[allow(dead_code, reason = "not every test program needs it")]
pub fn this_test() -> String {
    std::thread::current().name().unwrap_or("a test").to_owned()
}
