//! `vkstash-worker prewarm-worker LIBRARY`: the worker for programs of another pointer width than the tool's, which
//! starts it in the place of itself, with the same arguments.

use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(library) = std::env::args_os().nth(2) else {
        eprintln!("vkstash-worker: only vkstash prewarm starts this program");
        return ExitCode::from(2);
    };
    vkstash_worker::serve(&library).unwrap_or_else(|error| {
        eprintln!("vkstash-worker: {error}");
        ExitCode::FAILURE
    })
}
