//! `--last-run`: how the last run got its pipelines.

use std::io::{self, Write};

use serde::Serialize;
use vkstash_model::steps::{self, CreationResult, OrderReason, StepAnswer, StepSource};
use vkstash_store::reports::timeline::Creation;

use super::words::DIGITS;
use crate::term::screen;
use crate::term::table::{Column, Table};
use crate::term::time::{moment, span};
use crate::term::units::counted;

const COLUMNS: [Column; 4] = [
    Column::words("key", 3),
    Column::numbers("after", 0),
    Column::numbers("took", 2),
    Column::words("tried", 1),
];

/// There is no timeline, or none that can be read.
const NONE: &str = "no run has noted how it got its pipelines";

/// How the last run got a pipeline once.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Created {
    /// The first half of the pipeline's key, 32 hexadecimal digits.
    key: String,
    /// When the call began, in Unix microseconds.
    unix_us: u64,
    /// The frame in which the call began; 0: none.
    frame: u32,
    /// What the call took.
    took_ns: u64,
    /// Why these sources were asked in this order, in words.
    why: &'static str,
    /// What the program got: `pipeline`, `compile_required` or `error`.
    got: &'static str,
    /// The sources that were tried, in their order.
    tried: Vec<Step>,
}

/// One source that was tried.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Step {
    /// `parked`: what background work had made before the program asked. `driver`: the driver's caches, asked by the
    /// program's own call, which must not compile. `stash`: the driver takes what the stash has of it. `companion`: a
    /// cache of what was served for the same shaders. `compile`: the driver compiles it. `own call`: the program's
    /// call, as it is. `unknown`: a newer version's.
    source: &'static str,
    /// `had it`, `had it on disk` (no object in memory can have had it), `had nothing`, `not asked` (it could not be
    /// asked), `refused` (the driver did not take what the stash had), `of other features refused` (nor what was
    /// recorded with other features enabled), `error`, `left alone` (the driver has refused the artifact too often),
    /// `module missing` (the code is no longer kept), `forbidden` (the program forbids compiling), `deferred` (a
    /// deferred operation goes on), `quarantined` (processes died of the artifact), `not read in time` (the disk was
    /// too slow), or `unknown`.
    answer: &'static str,
    /// The time that it took.
    took_ns: u64,
}

fn nanos(tenths: u32) -> u64 {
    u64::from(tenths).saturating_mul(100)
}

impl Created {
    pub(super) fn of(creation: &Creation) -> Created {
        let step = |step: &steps::Step| Step {
            source: StepSource::word(step.source),
            answer: StepAnswer::word(step.answer),
            took_ns: nanos(step.tenths),
        };
        Created {
            key: hex::encode(creation.key),
            unix_us: creation.unix_us,
            frame: creation.frame,
            took_ns: nanos(creation.tenths),
            why: OrderReason::word(creation.reason),
            got: match creation.result {
                result if result == CreationResult::Pipeline as u8 => "pipeline",
                result if result == CreationResult::CompileRequired as u8 => "compile_required",
                _ => "error",
            },
            tried: creation.steps().iter().map(step).collect(),
        }
    }
}

/// What was tried: `parked had nothing (0.2 us), driver had it on disk (61 us)`.
fn steps(creation: &Creation) -> String {
    let step = |step| format!("{} ({})", steps::words(step), span(nanos(step.tenths)));
    creation.steps().iter().map(step).collect::<Vec<_>>().join(", ")
}

/// All of them, in the order of their ends.
pub(super) fn tell_all(out: &mut impl Write, creations: &[Creation]) -> io::Result<()> {
    let Some(began) = creations.iter().map(|creation| creation.unix_us).min() else {
        return writeln!(out, "{NONE}");
    };
    writeln!(out, "the last run created its first pipeline at {}", moment(began / 1000))?;
    let mut table = Table::new(&COLUMNS);
    for creation in creations {
        let key = hex::encode(creation.key);
        let after = span((creation.unix_us - began).saturating_mul(1000));
        table.row([key[..DIGITS].to_owned(), after, span(nanos(creation.tenths)), steps(creation)]);
    }
    out.write_all(table.lines(screen::width()).as_bytes())?;
    writeln!(out, "{}", counted(creations.len() as u64, "creation"))
}

/// Writes the creations of one pipeline, out of all of the last run.
pub(super) fn tell(out: &mut impl Write, all: &[Creation], of_pipeline: &[&Creation]) -> io::Result<()> {
    if all.is_empty() {
        return writeln!(out, "{NONE}");
    }
    if of_pipeline.is_empty() {
        return writeln!(out, "the last run did not create this pipeline");
    }
    for creation in of_pipeline {
        let (took, when) = (span(nanos(creation.tenths)), moment(creation.unix_us / 1000));
        let got = match creation.result {
            result if result == CreationResult::Pipeline as u8 => "created",
            result if result == CreationResult::CompileRequired as u8 => "VK_PIPELINE_COMPILE_REQUIRED",
            _ => "an error",
        };
        writeln!(out, "last run: {got} in {took}, {when}: {}", steps(creation))?;
        writeln!(out, "  the order: {}", OrderReason::word(creation.reason))?;
    }
    Ok(())
}
