//! The document in Markdown: a table for each size, the targets, and a description of the measures.

use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use crate::engines::Engine;
use crate::measures::{self, Measure, in_words, ratio_in_words};
use crate::report::{Report, Size};
use crate::table::table;
use crate::targets;

/// The whole document.
pub fn text(report: &Report) -> String {
    let mut text = String::from("# The store against other engines\n\n");
    let machine = &report.machine;
    let _ = write!(
        text,
        "Made by `scripts/store-bench.sh --plot` (`{}`) on {}: {}, {} cores, {:.0} GiB, Linux {}, {}, warm page \
         cache.\nCompare within a table, not across machines. The number in brackets is the ratio to LMDB.\n\n\
         ![The same as bars](store-bench.svg)\n",
        machine.command.join(" "),
        date(machine.unix_time),
        machine.processor,
        machine.cores,
        machine.memory_bytes as f64 / f64::from(1 << 30),
        machine.kernel,
        machine.file_system,
    );
    for size in &report.sizes {
        one(size, &mut text);
    }
    text.push_str(&targets::section(report));
    notes(report, &mut text);
    text
}

fn one(size: &Size, text: &mut String) {
    let engines: Vec<Engine> = size.engines().collect();
    let turns = if size.together { "job by job" } else { "round by round" };
    let _ = write!(
        text,
        "\n## {} entries, {:.1} MB\n\nRounds: {}; the engines took turns {turns}.\n\n",
        size.entries,
        size.payload as f64 / 1e6,
        size.rounds
    );
    let mut rows = vec![vec!["measure".to_owned()]];
    rows[0].extend(engines.iter().map(|engine| engine.name().to_owned()));
    for measure in &measures::ALL {
        let cells: Vec<String> = engines.iter().map(|&engine| cell(measure, size, engine)).collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            rows.push([vec![measure.title.to_owned()], cells].concat());
        }
    }
    table(&rows, text);
}

fn cell(measure: &Measure, size: &Size, engine: Engine) -> String {
    let Some(value) = measure.value(size, engine) else { return String::new() };
    let words = in_words(value, measure.unit);
    let itself = engine == Engine::Lmdb && measure.peer == measure.name;
    match measure.ratio(size, engine).filter(|_| !itself) {
        Some(ratio) => format!("{words} ({})", ratio_in_words(ratio)),
        None => words,
    }
}

fn notes(report: &Report, text: &mut String) {
    text.push_str(
        "\n## What is measured\n\n\
         Keys are SHA-256 of a counter, values 1 to 64 KiB of incompressible bytes, 9 KiB in the mean. Each job has \
         a process of its own. Nobody syncs, except where the list below says so.\n\n\
         * bulk insert: payload over the time to insert 32 MiB after 32 MiB and to close the store, just after a file \
         of that size (2 GiB at most) was written and removed, so that no engine waits for the host of a virtual \
         machine to hand out memory\n\
         * single put: into the full store, until this process can read the entry and the engine has it\n\
         * open to first get: a fresh process, after main; the value is copied and compared afterwards\n\
         * after kill -9: the writer filled the store and was killed before it closed it; the first process that \
         opens it gets the entry put last. The stash seals a segment when it is full, so one writer leaves little \
         unsealed; in the row with none sealed so many writers were killed together that none of them had filled one\n\
         * get hit: random keys, after each entry was read once in this process and verified; the value is copied \
         into a buffer\n\
         * get miss: random absent keys; other live writers are processes that put an entry every few milliseconds; \
         redb allows none\n\
         * memory: growth of the process from an empty store, closed again, to the full one with each key looked up, \
         from /proc/self/smaps_rollup, over the number of entries. LMDB's are pages of its file, and those \
         around them that the kernel maps with them; redb and SQLite keep caches of their own, redb's with values in them\n",
    );
    let timer = report.sizes.iter().find_map(|size| measures::TIMER.value(size, Engine::Lmdb));
    if let Some(timer) = timer {
        let _ = writeln!(text, "* every time of a single call includes the clock's own {timer:.0} ns\n");
    }
    for engine in Engine::ALL {
        let _ = writeln!(text, "* {}: {}", engine.name(), engine.describe());
    }
}

/// Year, month and day.
fn date(unix_time: u64) -> String {
    let time = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(unix_time)).to_string();
    time.split('T').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(951_782_400), "2000-02-29");
        assert_eq!(date(1_795_219_200), "2026-11-21");
    }
}
