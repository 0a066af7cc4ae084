//! `siblings`: whether a driver takes cache data that was made on a device which enables other features or extensions.
//! The layer is left out. For each feature and extension by itself: pipelines are compiled on a device without it, each
//! into a cache of its own, and asked for on a device with it, with that data and FAIL_ON_COMPILE_REQUIRED.
//!
//! One process compiles and another one asks, so a driver that remembers pipelines in its process cannot answer. If
//! the asking process dies, another one goes on behind the case that it died of.

mod ask;
pub(crate) mod config;
pub(crate) mod model;
pub(crate) mod pipelines;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use clap::ValueEnum as _;

use crate::environment::{self, Environment, Home};
use crate::failure::Failure;
use crate::options::{Driver, Siblings};
use crate::progress::progress;
use crate::siblings::model::{Answer, Case, Class, Step, Toggled};

/// Prints one row for each class and comparison.
pub(crate) fn run(options: &Siblings) -> Result<(), Failure> {
    if let Some(step) = &options.step {
        return ask::run(&serde_json::from_str(step)?);
    }
    environment::check(options.driver)?;
    let folder = tempfile::Builder::new().prefix("vkstash-bench-").tempdir()?;
    let home = Home::new(folder.path(), None)?;
    let chosen =
        |list: &[Class]| if list.is_empty() { Class::value_variants().to_vec() } else { list.to_vec() };
    let toggled = match options.toggled.as_slice() {
        [] => Toggled::value_variants(),
        some => some,
    };
    let mut is_first = true;
    for class in chosen(&options.class) {
        for &toggled in toggled {
            let row = row(options.driver, &home, folder.path(), class, toggled)?;
            if std::mem::take(&mut is_first) {
                println!("{}\n", row.device);
                println!(
                    "| pipelines | toggled | taken | of | same bytes as a compile | not created | unknown | not taken |"
                );
                println!("|---|---|---|---|---|---|---|---|");
            }
            println!("{}", row.text);
        }
    }
    Ok(())
}

/// A row of the table.
struct Row {
    device: String,
    text: String,
}

fn row(driver: Driver, home: &Home, folder: &Path, class: Class, toggled: Toggled) -> Result<Row, Failure> {
    let file = folder.join(format!("{class:?}-{toggled:?}"));
    let file = file.to_str().ok_or("the temporary folder is not UTF-8")?.to_owned();
    let mut step = Step { class, toggled, from: None, file };
    progress(&format!("{class:?}, {toggled:?}"));
    let made = child(driver, home, folder, &step)?;
    let device = made.output.lines().next().unwrap_or_default().to_owned();
    if !made.is_complete {
        let text = format!("| {class:?} | {toggled:?} | none: {} | | | | | |", made.complaint.trim());
        return Ok(Row { device, text });
    }
    let mut cases: Vec<Case> = Vec::new();
    loop {
        step.from = Some(cases.len());
        let asked = child(driver, home, folder, &step)?;
        for line in asked.output.lines() {
            cases.extend(serde_json::from_str::<Case>(line));
        }
        if asked.is_complete {
            break;
        }
        if cases.is_empty() {
            return Err(format!("nothing toggled: {}", asked.complaint).into());
        }
        let name = format!("case {}", cases.len());
        cases.push(Case { index: cases.len(), name, answer: Answer::Failed, same: false });
    }
    Ok(Row { device, text: text_of(class, toggled, &cases) })
}

/// A row's text. The first case is the control: nothing is toggled in it.
fn text_of(class: Class, toggled: Toggled, cases: &[Case]) -> String {
    let Some((control, cases)) = cases.split_first() else { return String::new() };
    if control.answer != Answer::Taken {
        let answer = control.answer;
        return format!("| {class:?} | {toggled:?} | none: the same device answers {answer:?} | | | | | |");
    }
    let of = |answer| cases.iter().filter(move |case| case.answer == answer);
    let names = |answer| {
        let names: Vec<_> = of(answer).map(|case| case.name.as_str()).collect();
        names.join(", ")
    };
    let (taken, refused) = (of(Answer::Taken).count(), of(Answer::Refused).count());
    let same = of(Answer::Taken).filter(|case| case.same).count();
    let others = of(Answer::Taken).filter(|case| !case.same).map(|case| case.name.as_str());
    let same = match (control.same, same == taken) {
        (false, _) => "no two compiles give the same".to_owned(),
        (true, true) => same.to_string(),
        (true, false) => format!("{same}; others: {}", others.collect::<Vec<_>>().join(", ")),
    };
    let unknown = [names(Answer::Known), names(Answer::Failed)].join(" ");
    format!(
        "| {class:?} | {toggled:?} | {taken} | {} | {same} | {} | {} {unknown} | {} |",
        taken + refused,
        of(Answer::NoDevice).count(),
        of(Answer::Known).count() + of(Answer::Failed).count(),
        names(Answer::Refused),
    )
}

/// A child process that has ended.
struct Ended {
    output: String,
    complaint: String,
    is_complete: bool,
}

fn child(driver: Driver, home: &Home, folder: &Path, step: &Step) -> Result<Ended, Failure> {
    let reports = folder.join("reports");
    fs::create_dir_all(&reports)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("siblings").arg("--step").arg(serde_json::to_string(step)?);
    Environment::bare(driver).apply(&mut command, home, &reports);
    let ended = command.stdin(Stdio::null()).output()?;
    Ok(Ended {
        output: String::from_utf8_lossy(&ended.stdout).into_owned(),
        complaint: String::from_utf8_lossy(&ended.stderr).into_owned(),
        is_complete: ended.status.success(),
    })
}
