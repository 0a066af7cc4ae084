//! Costs of the commands that read a whole stash, where it is large.

use vkstash_model::app_name::AppName;
use vkstash_model::counters::Count;
use vkstash_model::record::Kind;
use vkstash_store::reports::model::{DeviceReport, RunReport};
use vkstash_store::stash::open::Stash;

use super::*;

const APPLICATIONS: u64 = 1000;
const RECORDS: u64 = 1000;

/// `cargo test --release -p vkstash-tool --test tool what_a_large_stash_costs -- --ignored --nocapture`
#[test]
#[ignore = "prints figures"]
fn what_a_large_stash_costs() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    for number in 0..APPLICATIONS {
        let name = AppName::new(None, format!("game{number}").as_bytes());
        let stash = Stash::open_patiently(&dir, &name).unwrap();
        let device = stash.device(&header()).unwrap();
        let counters = Count::ALL.iter().map(|what| (what.name().to_owned(), number)).collect();
        let devices =
            vec![DeviceReport { part: device.name().to_owned(), counters, ..DeviceReport::default() }];
        let report = RunReport { devices, updated_unix_ms: number + 1, ..RunReport::default() };
        stash.set_reporter(Box::new(move |store| RunReport { store, ..report.clone() }));
        stash.touch();
        for record in 0..RECORDS / 2 {
            let mut key = [0; 32];
            key[..16].copy_from_slice(&[number.to_le_bytes(), record.to_le_bytes()].concat());
            assert!(stash.portable().put(Kind::Recipe, &key, noise(300)));
            assert!(device.put(Kind::Artifact, &key, noise(1000)));
        }
    }
    for arguments in
        [&["list"] as &[&str], &["stats"], &["doctor"], &["verify"], &["show", "game7"], &["--help"]]
    {
        let mut times = Vec::new();
        for _ in 0..5 {
            let mut command = sandbox.tool();
            command.args(arguments);
            if arguments != ["--help"] {
                command.arg("--dir").arg(&dir);
            }
            let began = Instant::now();
            let output = output(&mut command);
            times.push(began.elapsed());
            assert!(!output.stdout.is_empty(), "{output:?}");
        }
        times.sort();
        println!("vkstash {}: {:.1?} (fastest {:.1?})", arguments.join(" "), times[2], times[0]);
    }
}
