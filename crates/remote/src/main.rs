//! `vkstash-remote`: everything is in the library.

fn main() -> std::process::ExitCode {
    vkstash_remote::program::main(std::env::args_os())
}
