//! `objects`: shader objects (VK_EXT_shader_object) of a whole program, served from the stash, against a program that
//! keeps the driver's binaries itself, and against one that has the driver compile, with and without its disk cache.

use crate::child::{Outcome, Runner};
use crate::environment::{self, Environment};
use crate::failure::Failure;
use crate::options::{Driver, OnDriver};
use crate::progress::progress;
use crate::table::{Figure, Table};

const CODE: [&str; 2] = ["--shader-objects", "code"];

/// One table.
pub(crate) fn run(runner: &Runner, options: &OnDriver, rounds: usize) -> Result<Vec<Table>, Failure> {
    let driver = options.driver.unwrap_or(Driver::Radv);
    environment::check(driver)?;
    let (disk, stash) = (runner.folder("disk")?, runner.path("stash"));
    let plain = Environment::bare(driver);
    let (warm, layered) = (plain.with_disk(&disk), plain.with_stash(&stash));
    let binaries = format!("file:{}", runner.path("binaries").display());
    let own = ["--shader-objects", binaries.as_str()];
    progress("filling the stash, the driver's disk cache and the program's own file");
    runner.run(&layered, CODE)?;
    let filled = runner.run(&warm, CODE)?;
    runner.run(&plain, own)?;
    let mut runs: [Vec<Outcome>; 5] = Default::default();
    for round in 0..rounds {
        progress(&format!("round {} of {rounds}", round + 1));
        let empty = runner.path("empty");
        let recorded = plain.with_stash(&empty);
        let mut ways = [
            (layered, CODE, Way::Served),
            (plain, own, Way::Own),
            (warm, CODE, Way::Warm),
            (plain, CODE, Way::Compiled),
            (recorded, CODE, Way::Recorded),
        ];
        ways.rotate_left(round % 5);
        for (environment, arguments, way) in ways {
            let outcome = runner.run(&environment, arguments)?;
            all_served(&outcome, way)?;
            runs[way as usize].push(outcome);
        }
        std::fs::remove_dir_all(&empty)?;
    }
    let mut figures = Vec::new();
    for (what, unit, of) in [("all calls", "ms", calls as Of), ("whole process", "ms", wall)] {
        let values = |way: Way| runs[way as usize].iter().map(of).collect::<Vec<f64>>();
        let mut row = |id: &str, way: Way, name: &str, peer: Way, against: &str| {
            let id = format!("objects.{id}.{}", what.replace(' ', "_"));
            figures.push(Figure::pairs(
                id,
                format!("{name}: {what}"),
                &values(way),
                against,
                &values(peer),
                unit,
            ));
        };
        row("served", Way::Served, "served", Way::Own, "of binaries that the program keeps");
        row("served_warm", Way::Served, "served", Way::Warm, "compiled, the driver's disk cache warm");
        row("served_compiled", Way::Served, "served", Way::Compiled, "compiled, no disk cache");
        row("recorded", Way::Recorded, "compiled and recorded", Way::Compiled, "compiled, no disk cache");
    }
    Ok(vec![Table {
        title: "Shader objects".to_owned(),
        device: filled.report.device.clone(),
        modules: filled.report.modules.len(),
        figures,
    }])
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Served,
    Own,
    Warm,
    Compiled,
    Recorded,
}

/// What is measured as served, or as recorded, must have been.
fn all_served(outcome: &Outcome, way: Way) -> Result<(), Failure> {
    let name = match way {
        Way::Served => "shaders_served",
        Way::Recorded => "shaders_recorded",
        Way::Own | Way::Warm | Way::Compiled => return Ok(()),
    };
    let (counted, all) = (outcome.counter(name).unwrap_or_default(), outcome.report.modules.len() as u64);
    if counted == all { Ok(()) } else { Err(format!("{name}: {counted} of {all}").into()) }
}

type Of = fn(&Outcome) -> f64;

fn calls(outcome: &Outcome) -> f64 {
    let calls = outcome.report.rounds.iter().flat_map(|round| &round.calls);
    calls.map(|call| call.create_ns as f64).sum::<f64>() / 1e6
}

fn wall(outcome: &Outcome) -> f64 {
    outcome.wall * 1e3
}
