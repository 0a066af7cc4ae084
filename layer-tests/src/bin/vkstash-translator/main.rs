//! A headless program with a shader translator's habits, for measuring and for looking at what the layer makes
//! of them. Prints JSON: counts, and latencies in microseconds.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test program may stop at what it did not expect"
)]

mod options;
mod print;

use std::process::{Command, ExitCode};

use clap::Parser as _;
use vkstash_layer_tests::corpus::Failure;
use vkstash_layer_tests::translators::{self, report::Report};

use crate::options::Options;

/// Tells the child process of a comparison to print its report as it is.
const CHILD: &str = "VKSTASH_TRANSLATOR_CHILD";
/// The layer's own switch.
const DISABLE: &str = "VKSTASH_DISABLE";

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(healthy) => ExitCode::from(u8::from(!healthy)),
        Err(failure) => {
            eprintln!("vkstash-translator: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Whether nothing happened that a translator has no use for.
fn run(options: &Options) -> Result<bool, Failure> {
    if std::env::var_os(CHILD).is_some() {
        println!("{}", serde_json::to_string(&translators::run(&options.plan())?)?);
        return Ok(true);
    }
    let without = if options.compare { Some(without_layer()?) } else { None };
    let report = translators::run(&options.plan())?;
    println!("{}", serde_json::to_string_pretty(&print::json(&report, without.as_ref()))?);
    Ok(report.failures.is_empty())
}

/// The same without the layer, in a process of its own: what the layer does is decided when an instance is
/// made. Its store is a folder of its own too.
fn without_layer() -> Result<Report, Failure> {
    let store = tempfile::tempdir()?;
    let output = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .arg("--store")
        .arg(store.path())
        .env(CHILD, "1")
        .env(DISABLE, "1")
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
