//! A headless program with the habits of a shader translator, for measurements and for inspecting the layer. Prints
//! counts, and latencies in microseconds, as JSON.
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

/// Tells the child process of a comparison to print its full report.
const CHILD: &str = "VKSTASH_TRANSLATOR_CHILD";
/// The variable that switches the layer off.
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

/// Runs the client; whether there was no result that a translator cannot use.
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

/// Runs the client without the layer, in a process of its own because the layer is loaded with the instance, and with
/// a store of its own.
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
