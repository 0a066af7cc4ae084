//! Programs as lines of text. Names come from other processes: each line has passed the filter.

use ash::vk;

use super::program::{Call, Program, State};
use crate::reports::names;
use crate::term::time::span;
use crate::term::units::{counted, plain, size};

/// Digits of a key.
const DIGITS: usize = 8;

/// A program, with all that is known of it.
pub(super) fn lines(program: &Program) -> Vec<String> {
    let Some(state) = &program.state else {
        let why = program.unreadable.as_deref().unwrap_or_default();
        return vec![plain(&format!("process {}: {why}", program.pid))];
    };
    let mut lines = vec![plain(&format!(
        "{} (process {}), running for {}: {}, {} ready, {} compiling",
        state.application,
        program.pid,
        span(state.running_ns),
        counted(state.pipelines, "pipeline"),
        ready(state),
        state.compiling(),
    ))];
    let indented = |line: String| format!("  {line}");
    lines.extend(state.calls.iter().map(call).map(indented));
    lines.extend([sources(state), workers(state)].map(indented));
    lines
}

/// `97.5 %`.
pub(super) fn ready(state: &State) -> String {
    state.ready_percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent:.1} %"))
}

/// `3f2a91c4 vertex + fragment: compiling for 12 s, thread 1234`.
pub(super) fn call(call: &Call) -> String {
    let digits = call.key.as_deref().and_then(|key| key.get(..DIGITS)).unwrap_or("????????");
    let stages = names::stages(vk::ShaderStageFlags::from_raw(call.stages));
    let gap = if stages.is_empty() { "" } else { " " };
    let who = if call.worker { "worker" } else { "thread" };
    let span = span(call.running_ns);
    plain(&format!("{digits}{gap}{stages}: {} for {span}, {who} {}", call.words, call.thread))
}

/// Counters that are not zero: `served 3, compiled 1`.
pub(super) fn sources(state: &State) -> String {
    let shown = |name: &str, value: u64| match name.strip_suffix("_ns") {
        Some(name) => format!("{name} {}", span(value)),
        None => format!("{} {value}", name.replace('_', " ")),
    };
    let nonzero = state.counters.iter().filter(|(_, value)| **value != 0);
    let named: Vec<_> = nonzero.map(|(name, value)| shown(name, *value)).collect();
    if named.is_empty() { "nothing asked for yet".to_owned() } else { named.join(", ") }
}

/// `2 workers, 5 records written, 4.0 KiB`.
pub(super) fn workers(state: &State) -> String {
    let paused = if state.workers_paused { " (paused)" } else { "" };
    let workers = counted(state.workers, "worker");
    let records = counted(state.written_records, "record");
    format!("{workers}{paused}, {records} written, {}", size(state.written_bytes))
}

#[cfg(test)]
mod tests {
    use vkstash_model::live::LiveError;

    use super::super::program::tests::program;
    use super::*;

    #[test]
    fn a_program_says_what_is_compiling_and_for_how_long() {
        let expected = [
            "game (process 7), running for 12 s: 4 pipelines, 75.0 % ready, 1 compiling",
            "  3f2a91c4 vertex + fragment: compiling for 12 s, thread 1234",
            "  compiled 1, served 3",
            "  2 workers, 5 records written, 4.0 KiB",
        ];
        assert_eq!(lines(&program(7, "game")), expected);
    }

    #[test]
    fn names_move_no_cursor_and_other_versions_are_told() {
        let lines = lines(&program(7, "ga\x1b[2Jme\n\u{202e}"));
        assert!(lines[0].starts_with("ga\u{fffd}[2Jme\u{fffd}\u{fffd} (process 7)"), "{lines:?}");
        let unreadable = Program::of(7, &Err(LiveError::Version(9)), 0);
        let said = "process 7: its page has version 9, and this program reads version 1";
        assert_eq!(super::lines(&unreadable), [said]);
    }
}
