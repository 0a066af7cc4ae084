//! Things that threads wait for although their holder is in a driver, each by its name in docs/process.md, which says
//! why that cannot meet the program.

use vkstash_host::held::Listed;

/// A place among the threads that a driver of one lock is entered by. Such a driver does not call back there.
pub const WIDTH: Listed = Listed { name: "Width", in_callbacks: false };
/// A worker behind the gate.
pub const WORKER: Listed = Listed { name: "Worker", in_callbacks: true };
/// The gate, closed for a call of the program's.
pub const CLOSED_GATE: Listed = Listed { name: "ClosedGate", in_callbacks: true };
/// The whole of a cache's answer.
pub const WHOLE_ANSWER: Listed = Listed { name: "WholeAnswer", in_callbacks: true };
/// A parked pipeline that a worker makes.
pub const PARKED_PIPELINE: Listed = Listed { name: "ParkedPipeline", in_callbacks: true };
/// The companion of a cache, to which a thread adds.
pub const COMPANION: Listed = Listed { name: "Companion", in_callbacks: true };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_in_a_driver_is_listed() {
        let text = include_str!("../../../docs/process.md");
        let (_, section) = text.split_once("### What is held in a driver").unwrap();
        let (section, _) = section.split_once("\n### ").unwrap();
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
        let names: Vec<&str> = rows.map(|(name, _)| name).collect();
        let all = [WIDTH, WORKER, CLOSED_GATE, WHOLE_ANSWER, PARKED_PIPELINE, COMPANION];
        assert_eq!(names, all.map(|listed| listed.name));
    }
}
