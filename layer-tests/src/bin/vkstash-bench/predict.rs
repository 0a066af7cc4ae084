//! `predict`: how many requests each predictor would have had ready, in a replay of the orders that stashes have
//! recorded.

use std::collections::HashMap;

use vkstash_layer_tests::bench::data::Data;
use vkstash_layer_tests::bench::predict::{NAMES, Recorded, Sum};
use vkstash_model::app_name::AppName;
use vkstash_model::key;
use vkstash_model::recipe::{Code, Recipe};
use vkstash_model::record::{Key, Kind};
use vkstash_store::stash::inspect::{list_applications, recorded_uses};
use vkstash_store::stash::open::Stash;

use crate::failure::Failure;
use crate::machine::Machine;
use crate::options::Predict;
use crate::progress::progress;
use crate::table::aligned;

/// Columns before those of the predictors.
const COLUMNS: usize = 5;

type Row = [String; COLUMNS + NAMES.len()];

/// Prints one table, and returns it.
pub(crate) fn run(options: &Predict) -> Result<Data, Failure> {
    let programs = programs(options)?;
    let mut rows = vec![head()];
    for &makes in &options.makes {
        let mut shares = vec![[0.0; 2]; NAMES.len()];
        let mut all = [0; 3];
        for (name, recorded) in &programs {
            let sums = recorded.replay(makes);
            let cells = sums.iter().map(|sum| [share(sum.ready, sum), share(sum.in_vain(), sum)]);
            let cells: Vec<_> = cells.collect();
            for (sum, cell) in shares.iter_mut().zip(&cells) {
                sum.iter_mut().zip(cell).for_each(|(sum, cell)| *sum += cell / programs.len() as f64);
            }
            let counts = [recorded.predicted(), sums[0].requests, sums[0].new];
            all.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
            rows.push(row(name, counts, makes, &cells));
        }
        rows.push(row("mean of the programs", all, makes, &shares));
    }
    print!("{}", aligned(rows.clone()));
    let here = Machine::here();
    Ok(Data {
        topic: "Background work".to_owned(),
        what: "requests that each predictor would have had ready, in a replay of recorded orders".to_owned(),
        command: here.command.clone(),
        machine: here.words("a replay, which calls no driver"),
        rows: rows.into_iter().map(Vec::from).collect(),
    })
}

/// The programs that ran more than once, with their runs.
fn programs(options: &Predict) -> Result<Vec<(String, Recorded)>, Failure> {
    let mut programs = Vec::new();
    for root in &options.stashes {
        for application in list_applications(root)? {
            let uses = recorded_uses(root, &application.folder);
            let name = AppName { display: application.display.clone(), folder: application.folder.clone() };
            let stash = Stash::open_patiently(root, &name)?;
            let mut parts = HashMap::new();
            stash.portable().for_each(Kind::Recipe, &mut |key, payload| {
                parts.insert(*key, parts_of(payload));
            });
            let recorded = Recorded::new(uses, &parts);
            let folder = root.file_name().unwrap_or_default().to_string_lossy();
            let name = format!("{folder}: {}", application.display);
            if recorded.predicted() == 0 {
                progress(&format!("{name} is left out: fewer than two runs"));
            } else {
                programs.push((name, recorded));
            }
        }
    }
    if programs.is_empty() {
        return Err("no program there has recorded more than one run".into());
    }
    Ok(programs)
}

/// The identities of the modules and the keys of the libraries in an encoded recipe.
fn parts_of(recipe: &[u8]) -> Vec<Key> {
    let Ok(recipe) = key::decode::<Recipe<'_>>(recipe) else { return Vec::new() };
    let modules = recipe.pipeline.stages().iter().filter_map(|stage| match stage.code {
        Code::Module(identity) => Some(identity),
        Code::Native { .. } => None,
    });
    modules.chain(recipe.pipeline.libraries().iter().copied()).collect()
}

/// Of the requests, in percent.
fn share(count: usize, sum: &Sum) -> f64 {
    100.0 * count as f64 / sum.requests.max(1) as f64
}

fn head() -> Row {
    let columns = ["program", "predicted runs", "requests", "new keys", "made before each request"];
    let columns = columns.map(str::to_owned).into_iter();
    let predictors = NAMES.iter().map(|name| format!("{name}: ready (in vain)"));
    row_of(columns.chain(predictors))
}

fn row(name: &str, counts: [usize; 3], makes: f64, cells: &[[f64; 2]]) -> Row {
    let [runs, requests, new] = counts;
    let percent = 100.0 * new as f64 / requests.max(1) as f64;
    let columns = [
        name.to_owned(),
        runs.to_string(),
        requests.to_string(),
        format!("{percent:.1} %"),
        makes.to_string(),
    ];
    let predictors = cells.iter().map(|[ready, in_vain]| format!("{ready:.1} % ({in_vain:.1} %)"));
    row_of(columns.into_iter().chain(predictors))
}

fn row_of(cells: impl Iterator<Item = String>) -> Row {
    let mut row = Row::default();
    row.iter_mut().zip(cells).for_each(|(place, cell)| *place = cell);
    row
}
