//! The clients themselves: refused links, running as programs of their own, and real shaders.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use vkstash_layer_tests::child::{Scenario, scenario};
use vkstash_layer_tests::env::Driver;
use vkstash_layer_tests::translators::Plan;
use vkstash_layer_tests::translators::report::Links;

use super::{Client, RADV, assert_nothing_bypassed, dxvk, on, step, vkd3d};

/// A driver with a disk cache and identifiers of its own, which refuses one link.
fn refusing(scenario: &Scenario, call: u32) -> Driver {
    let required = 1_000_297_000;
    Driver::Test(json!({
        "identifiers": true,
        "disk_cache": true,
        "disk_cache_dir": scenario.folder().join("driver-disk"),
        "faults": [{ "command": "vkCreateGraphicsPipelines", "call": call, "result": required }],
    }))
}

/// The client: libraries may be created by identifier and then not be linkable (contract 2.6).
#[test]
fn dxvk_does_not_repeat_a_refused_link() {
    scenario(&[("client", step)], |scenario| {
        // Four libraries, a link and an optimised pipeline; then two libraries by identifier and their link.
        let Some(env) = scenario.on(refusing(scenario, 9)) else { return };
        let plan = Plan { store: scenario.folder().join("store"), compute: 0, graphics: 1, ..dxvk() };
        let client = Client { scenario, env, plan };
        let report = client.alone().value.report;
        assert_eq!(report.served_by_identifier, 2, "{report:?}");
        assert_eq!(report.links, Links { fast: 1, optimised: 1, failed: 1, memoised: 1 });
    });
}

/// The client: if a link is refused, it translates.
#[test]
fn vkd3d_translates_when_a_link_is_refused() {
    scenario(&[("client", step)], |scenario| {
        // A library and its link; in the second run the link is refused.
        let Some(env) = scenario.on(refusing(scenario, 100)) else { return };
        let store = scenario.folder().join("store");
        let plan = Plan { store, compute: 0, graphics: 1, libraries: true, ..vkd3d() };
        let client = Client { scenario, env, plan };
        client.alone();
        let served = client.alone().value.report;
        assert_eq!((served.served_by_identifier, served.links.failed), (1, 0), "{served:?}");
        let env = scenario.on(refusing(scenario, 2)).unwrap();
        let report = Client { env, ..client }.alone().value.report;
        assert_eq!((report.compile_required, report.fallback_translations), (1, 1), "{report:?}");
        assert_eq!(report.links, Links { fast: 1, optimised: 0, failed: 1, memoised: 0 });
    });
}

/// The client as a program of its own.
#[test]
fn the_command_line_prints_counts_and_latencies() {
    scenario(&[("client", step)], |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        for habit in ["vkd3d", "dxvk"] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_vkstash-translator"));
            env.apply(&mut command);
            command.args(["--habit", habit, "--count", "2", "--compare", "--store"]);
            let output = command.arg(scenario.folder().join(habit)).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(printed["pipelines"], 4, "{printed}");
            assert!(printed["us"]["from_code"]["p50"].as_f64().unwrap() > 0.0, "{printed}");
            let ratio = &printed["without_layer"]["fast_link_ratio"];
            assert_eq!(ratio.is_f64(), habit == "dxvk", "{printed}");
        }
    });
}

/// The folder of real shaders from scripts/corpus.sh.
fn corpus() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../corpus"))
}

#[test]
fn both_clients_are_served_with_real_shaders() {
    for plan in [vkd3d(), dxvk()] {
        on(&RADV, Plan { compute: 8, graphics: 0, modules: Some(corpus()), ..plan }, |client| {
            if !corpus().join("index.tsv").exists() {
                return client.scenario.skip("there is no corpus: run scripts/corpus.sh");
            }
            client.run();
            let warm = client.run();
            assert_eq!(warm.value.report.served_by_identifier, 8, "{warm:?}");
            assert_eq!(warm.value.report.compile_required, 0);
            assert_eq!(warm.reports.sum("compiled"), 0, "{:?}", warm.reports.counters());
            assert_nothing_bypassed(&warm);
        });
    }
}
