//! One engine's habit of caching pipelines, as a program: prints what it took.
#![allow(clippy::unwrap_used, reason = "a test program may stop at what it did not expect")]

use std::path::PathBuf;

use clap::Parser;
use vkstash_layer_tests::engines::{self, Kind, Program};

/// Creates pipelines as an engine does, and prints the time that it took as JSON.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// The engine.
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(engines::names()))]
    engine: String,
    /// The folder of the engine's own files; created if it is missing.
    folder: PathBuf,
    /// Number of pipelines.
    #[arg(long, value_name = "N", default_value_t = 6)]
    count: u32,
    /// Kind of the pipelines.
    #[arg(long, value_enum, default_value_t = Kind::Compute)]
    kind: Kind,
    /// Make each call so many times more, and time the last one.
    #[arg(long, value_name = "N", default_value_t = 0)]
    again: u32,
}

fn main() {
    let options = Options::parse();
    std::fs::create_dir_all(&options.folder).unwrap();
    let Options { kind, count, again, .. } = options;
    let program = Program { kind, count, feedback: false, described: false, again };
    let done = engines::run(&options.engine, &options.folder, program);
    println!("{}", serde_json::to_string(&done).unwrap());
}
