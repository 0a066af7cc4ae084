//! `vkstash-registry FILE`: prints the table of structures of a registry (vk.xml).

use std::process::ExitCode;

use vkstash_registry::Registry;

fn main() -> ExitCode {
    let table = std::env::args_os().nth(1).ok_or_else(|| "the path of a vk.xml, please".to_owned());
    let table = table.and_then(|path| std::fs::read_to_string(path).map_err(|error| error.to_string()));
    match table.and_then(|text| Registry::parse(&text)?.table()) {
        Ok(table) => print!("{table}"),
        Err(error) => {
            eprintln!("vkstash-registry: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
