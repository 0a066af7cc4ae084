//! Programs that translate shaders while they run: what they ask of the layer, cold, warm, after a driver update,
//! and when the layer is gone again (contract 8).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;
use serde_json::{Value, json};

use vkstash_layer_tests::child::{Run, Scenario, scenario};
use vkstash_layer_tests::env::{self, Driver, Env};
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::translators::report::{Links, Report};
use vkstash_layer_tests::translators::{self, Habit, Optimised, Plan};

/// What came of a client, and what the test driver saw of it.
#[derive(Debug, Deserialize)]
struct Seen {
    report: Report,
    violations: Vec<String>,
    compiles: u64,
}

/// Runs the client; the test driver is asked when everything is over. Its library stays mapped.
fn step(input: &Value) -> Value {
    let (plan, programmable): (Plan, bool) = serde_json::from_value(input.clone()).unwrap();
    let report = translators::run(&plan).unwrap();
    let record = if programmable { TestDriver::open().take_record() } else { json!({}) };
    let of = |name: &str, default: Value| record.get(name).cloned().unwrap_or(default);
    json!({
        "report": report,
        "violations": of("violations", json!([])),
        "compiles": of("compiles", json!(0)),
    })
}

/// A driver, and the same one after an update.
struct Machine {
    driver: fn() -> Driver,
    updated: fn(Env) -> Env,
    /// The device has identifiers without the layer.
    native: bool,
    /// The driver gives cache data out, so that there are artifacts.
    artifacts: bool,
    /// Libraries that retain what optimised links need are in no cache of this driver: it compiles them anew
    /// even where its own disk cache is warm (tried), so by identifier alone nobody gets them.
    retained_uncached: bool,
}

/// Identifiers of its own, and a real compiler. No second version of it is installed, but another chip has
/// another pipelineCacheUUID too, and the same algorithm for identifiers.
const RADV: Machine = Machine {
    driver: || Driver::Radv,
    updated: |env| env.var("RADV_FORCE_FAMILY", "navi23"),
    native: true,
    artifacts: true,
    retained_uncached: true,
};

/// Neither identifiers nor cache data. What it does depends on nothing that a variable could change.
const LAVAPIPE: Machine = Machine {
    driver: || Driver::Lavapipe,
    updated: |env| env,
    native: false,
    artifacts: false,
    retained_uncached: true,
};

fn reprogrammed(env: Env, script: Value) -> Env {
    env.var("VKSTASH_TEST_ICD", script.to_string())
}

/// Cache data, but no identifiers.
const EMULATED: Machine = Machine {
    driver: || Driver::Test(json!({})),
    updated: |env| reprogrammed(env, json!({ "driver_version": 2, "pipeline_cache_uuid": "22".repeat(16) })),
    native: false,
    artifacts: true,
    retained_uncached: false,
};

/// Cache data, and short identifiers.
const NATIVE: Machine = Machine {
    driver: || Driver::Test(json!({ "identifiers": true, "identifier_size": 8 })),
    updated: |env| {
        let script = json!({
            "identifiers": true,
            "identifier_size": 8,
            "driver_version": 2,
            "pipeline_cache_uuid": "22".repeat(16),
        });
        reprogrammed(env, script)
    },
    native: true,
    artifacts: true,
    retained_uncached: false,
};

/// A client on a machine: the same stash and store for every run.
struct Client<'a> {
    scenario: &'a Scenario,
    env: Env,
    plan: Plan,
}

impl Client<'_> {
    fn run_in(&self, env: &Env, plan: &Plan) -> Run<Seen> {
        let programmable = matches!(env.driver(), Driver::Test(_));
        let run = self.scenario.run_ok::<Seen>("client", env, &(plan, programmable));
        let (report, counters) = (&run.value.report, run.reports.counters());
        assert_eq!(report.failures, Vec::<String>::new(), "{plan:?} {counters:?}");
        assert_eq!(run.value.violations, Vec::<String>::new(), "{plan:?} {counters:?}");
        assert_eq!(report.pipelines, plan.compute + plan.graphics, "{plan:?} {report:?} {counters:?}");
        assert_eq!(
            report.served_by_identifier + report.compile_required,
            report.requested_by_identifier,
            "a request is served or refused: {report:?}"
        );
        assert_eq!(report.fallback_translations, report.compile_required, "{report:?}");
        run
    }

    fn run(&self) -> Run<Seen> {
        self.run_in(&self.env, &self.plan)
    }

    /// The same client, on the same driver, without the layer.
    fn alone(&self) -> Run<Seen> {
        self.run_in(&self.env.clone().without_layer(), &self.plan)
    }

    fn updated(&self, machine: &Machine) -> Run<Seen> {
        self.run_in(&(machine.updated)(self.env.clone()), &self.plan)
    }
}

fn on(machine: &Machine, plan: Plan, test: impl FnOnce(&Client<'_>)) {
    scenario(&[("client", step)], |scenario| {
        let Some(env) = scenario.on((machine.driver)()) else { return };
        let plan = Plan { store: scenario.folder().join("store"), ..plan };
        test(&Client { scenario, env, plan });
    });
}

fn vkd3d() -> Plan {
    Plan::new(Habit::Vkd3d, PathBuf::new())
}

fn dxvk() -> Plan {
    Plan::new(Habit::Dxvk, PathBuf::new())
}

/// The layer understood every pipeline.
fn assert_nothing_bypassed(run: &Run<Seen>) {
    assert!(!run.reports.0.is_empty(), "our layer is there: {}", run.stderr);
    assert_eq!(run.reports.bypassed(), Vec::new(), "{:?}", run.reports.counters());
}

/// Everything was asked for by identifier, and the stash had it.
fn assert_all_by_identifier(run: &Run<Seen>, count: u32) {
    let (report, counters) = (&run.value.report, run.reports.counters());
    assert_eq!(report.served_by_identifier, count, "{report:?} {counters:?}");
    assert_eq!(report.compile_required, 0, "{report:?} {counters:?}");
    assert_eq!(report.translations, 0, "{report:?} {counters:?}");
    assert_eq!(run.value.compiles, 0, "{counters:?}");
    assert_eq!(run.reports.sum("compiled"), 0, "{counters:?}");
    assert_nothing_bypassed(run);
}

/// vkd3d-proton's client from its first start until the layer is uninstalled. `asked` is how many requests by
/// identifier a run makes that has a complete book.
fn vkd3d_life(machine: &Machine, plan: Plan) {
    on(machine, plan, |client| {
        let asked = client.plan.compute + client.plan.graphics;

        let cold = client.run();
        assert!(cold.value.report.identifiers, "{cold:?}");
        assert_eq!(cold.value.report.requested_by_identifier, 0);
        assert_eq!(cold.value.report.blobs, asked);
        assert_nothing_bypassed(&cold);

        let warm = client.run();
        assert!(!warm.value.report.book_rejected, "the algorithm is the same in every run: {warm:?}");
        assert_eq!(warm.value.report.algorithm, cold.value.report.algorithm);
        assert_eq!(warm.value.report.requested_by_identifier, asked);
        assert_nothing_bypassed(&warm);
        if machine.artifacts {
            assert_all_by_identifier(&warm, asked);
        } else {
            // Nobody could serve it: translating again is all that is left, and it works.
            assert_eq!(warm.value.report.compile_required, asked, "{warm:?}");
        }

        // An update: identifiers stay what they are, artifacts do not fit any more.
        let updated = client.updated(machine);
        assert!(!updated.value.report.book_rejected, "{updated:?}");
        assert_eq!(updated.value.report.requested_by_identifier, asked);
        assert_nothing_bypassed(&updated);
        if machine.artifacts {
            assert_eq!(updated.value.report.compile_required, asked, "{updated:?}");
            assert_all_by_identifier(&client.updated(machine), asked);
        }
        // The old driver's artifacts are still there for whoever goes back.
        if machine.artifacts {
            assert_all_by_identifier(&client.run(), asked);
        }

        let alone = client.alone();
        let report = &alone.value.report;
        assert_eq!(report.identifiers, machine.native, "{report:?}");
        if machine.native {
            // The identifiers were the driver's own all the time.
            assert!(!report.book_rejected, "{report:?}");
            assert_eq!(report.requested_by_identifier, asked);
        } else {
            assert!(report.book_rejected, "an algorithm that is gone: {report:?}");
            assert_eq!(report.requested_by_identifier, 0);
            assert_eq!(report.translations, asked);
        }
    });
}

#[test]
fn vkd3d_lives_with_radv() {
    vkd3d_life(&RADV, vkd3d());
}

#[test]
fn vkd3d_lives_with_lavapipe() {
    vkd3d_life(&LAVAPIPE, vkd3d());
}

#[test]
fn vkd3d_lives_with_a_driver_without_identifiers() {
    vkd3d_life(&EMULATED, vkd3d());
}

#[test]
fn vkd3d_lives_with_a_driver_with_short_identifiers() {
    vkd3d_life(&NATIVE, vkd3d());
}

#[test]
#[ignore = "needs library capture"]
fn vkd3d_lives_with_libraries_on_radv() {
    vkd3d_life(&RADV, Plan { libraries: true, ..vkd3d() });
}

#[test]
#[ignore = "needs library capture"]
fn vkd3d_lives_with_libraries_on_lavapipe() {
    vkd3d_life(&LAVAPIPE, Plan { libraries: true, ..vkd3d() });
}

#[test]
#[ignore = "needs library capture"]
fn vkd3d_lives_with_libraries_on_a_driver_without_identifiers() {
    vkd3d_life(&EMULATED, Plan { libraries: true, ..vkd3d() });
}

#[test]
#[ignore = "needs library capture"]
fn vkd3d_lives_with_libraries_on_a_driver_with_short_identifiers() {
    vkd3d_life(&NATIVE, Plan { libraries: true, ..vkd3d() });
}

/// What it reads from its caches in a run that the stash serves is worth as much as without the stash.
#[test]
fn vkd3d_keeps_cache_data_that_serves_it_when_the_layer_is_gone() {
    for machine in [RADV, NATIVE] {
        on(&machine, vkd3d(), |client| {
            client.run();
            let warm = client.run();
            assert_all_by_identifier(&warm, 6);
            let plan = Plan { load_blobs: true, ..client.plan.clone() };
            let alone = client.run_in(&client.env.clone().without_layer(), &plan);
            assert_eq!(alone.value.report.served_by_identifier, 6, "{alone:?}");
        });
    }
}

/// The driver's answer without the layer and the layer's: the same to vkd3d-proton's identifier file.
#[test]
fn identifiers_kept_without_the_layer_are_known_to_it() {
    for machine in [RADV, NATIVE] {
        on(&machine, vkd3d(), |client| {
            let alone = client.alone();
            assert!(alone.value.report.identifiers);
            // The layer has seen nothing yet: everything is asked for, refused and translated once.
            let first = client.run();
            assert!(!first.value.report.book_rejected);
            assert_eq!(first.value.report.compile_required, 6, "{first:?}");
            assert_all_by_identifier(&client.run(), 6);
        });
    }
}

#[test]
fn a_client_that_loads_its_own_cache_data_is_served_too() {
    for machine in [RADV, EMULATED, NATIVE] {
        on(&machine, Plan { load_blobs: true, ..vkd3d() }, |client| {
            client.run();
            let warm = client.run();
            let report = &warm.value.report;
            assert_eq!(report.served_by_identifier, 6, "{report:?} {:?}", warm.reports.counters());
            assert_eq!(warm.value.compiles, 0);
            assert_nothing_bypassed(&warm);
        });
    }
}

/// DXVK's compute pipelines: made from code, destroyed, and wanted again by identifier.
fn dxvk_compute_life(machine: &Machine) {
    on(machine, Plan { graphics: 0, ..dxvk() }, |client| {
        let count = client.plan.compute;
        // What was compiled a moment ago is there already; of a later run the first half is served too.
        let back = |run: &Run<Seen>, served: u32| {
            let (report, counters) = (&run.value.report, run.reports.counters());
            assert!(report.identifiers, "{report:?}");
            assert_eq!(report.requested_by_identifier, count);
            assert_nothing_bypassed(run);
            if machine.artifacts {
                assert_eq!(report.served_by_identifier, count, "{report:?} {counters:?}");
                assert_eq!(report.translations, count, "{report:?}");
                assert_eq!(run.reports.sum("served"), u64::from(served), "{counters:?}");
                assert_eq!(run.reports.sum("compiled"), u64::from(2 * count - served), "{counters:?}");
            }
        };
        back(&client.run(), count);
        back(&client.run(), 2 * count);
        back(&client.updated(machine), count);
        back(&client.updated(machine), 2 * count);
        back(&client.run(), 2 * count);

        let alone = client.alone();
        assert_eq!(alone.value.report.identifiers, machine.native);
    });
}

#[test]
fn dxvk_computes_on_radv() {
    dxvk_compute_life(&RADV);
}

#[test]
fn dxvk_computes_on_lavapipe() {
    dxvk_compute_life(&LAVAPIPE);
}

#[test]
fn dxvk_computes_on_a_driver_without_identifiers() {
    dxvk_compute_life(&EMULATED);
}

#[test]
fn dxvk_computes_on_a_driver_with_short_identifiers() {
    dxvk_compute_life(&NATIVE);
}

/// DXVK's client with everything, in every situation: it always draws, whatever is served.
fn dxvk_draws(machine: &Machine, optimised: Optimised) {
    on(machine, Plan { optimised, ..dxvk() }, |client| {
        let count = client.plan.graphics;
        let complete = |run: &Run<Seen>| {
            let links = run.value.report.links;
            // Twice, because the first ones are thrown away.
            let expected = Links { fast: 2 * count, optimised: count, failed: 0, memoised: 0 };
            assert_eq!(links, expected, "{:?}", run.reports.counters());
        };
        for _ in 0..2 {
            complete(&client.run());
        }
        complete(&client.updated(machine));
        complete(&client.alone());
    });
}

#[test]
fn dxvk_draws_on_radv() {
    dxvk_draws(&RADV, Optimised::Link);
    dxvk_draws(&RADV, Optimised::Whole);
}

#[test]
fn dxvk_draws_on_lavapipe() {
    dxvk_draws(&LAVAPIPE, Optimised::Link);
    dxvk_draws(&LAVAPIPE, Optimised::Whole);
}

#[test]
fn dxvk_draws_on_a_driver_without_identifiers() {
    dxvk_draws(&EMULATED, Optimised::Link);
    dxvk_draws(&EMULATED, Optimised::Whole);
}

#[test]
fn dxvk_draws_on_a_driver_with_short_identifiers() {
    dxvk_draws(&NATIVE, Optimised::Link);
    dxvk_draws(&NATIVE, Optimised::Whole);
}

/// Libraries come back by identifier at once, in every run.
fn dxvk_libraries_come_back(machine: &Machine, optimised: Optimised) {
    on(machine, Plan { optimised, ..dxvk() }, |client| {
        // Three compute pipelines, two vertex shaders, three fragment shaders.
        let asked = 3 + 2 + 3;
        let back = |run: &Run<Seen>| {
            let (report, counters) = (&run.value.report, run.reports.counters());
            assert_nothing_bypassed(run);
            assert_eq!(report.requested_by_identifier, asked, "{report:?} {counters:?}");
            if !machine.artifacts {
                return;
            }
            if optimised == Optimised::Link && machine.retained_uncached {
                assert!(report.served_by_identifier >= 3, "the compute pipelines: {report:?} {counters:?}");
                return;
            }
            assert_eq!(report.compile_required, 0, "{report:?} {counters:?}");
            assert_eq!(report.translations, asked, "the first time, from code: {report:?} {counters:?}");
        };
        back(&client.run());
        back(&client.run());
        back(&client.updated(machine));
        back(&client.updated(machine));
        back(&client.run());
    });
}

#[test]
#[ignore = "needs library capture"]
fn dxvk_libraries_come_back_on_radv() {
    dxvk_libraries_come_back(&RADV, Optimised::Link);
    dxvk_libraries_come_back(&RADV, Optimised::Whole);
}

#[test]
#[ignore = "needs library capture"]
fn dxvk_libraries_come_back_on_lavapipe() {
    dxvk_libraries_come_back(&LAVAPIPE, Optimised::Link);
    dxvk_libraries_come_back(&LAVAPIPE, Optimised::Whole);
}

#[test]
#[ignore = "needs library capture"]
fn dxvk_libraries_come_back_on_a_driver_without_identifiers() {
    dxvk_libraries_come_back(&EMULATED, Optimised::Link);
    dxvk_libraries_come_back(&EMULATED, Optimised::Whole);
}

#[test]
#[ignore = "needs library capture"]
fn dxvk_libraries_come_back_on_a_driver_with_short_identifiers() {
    dxvk_libraries_come_back(&NATIVE, Optimised::Link);
    dxvk_libraries_come_back(&NATIVE, Optimised::Whole);
}

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

/// The client itself: libraries may come back by identifier and then refuse to be linked (contract 2.6).
#[test]
fn dxvk_remembers_a_link_that_was_refused() {
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

/// The client itself, again: what cannot be linked is translated.
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

/// Where scripts/corpus.sh puts real shaders.
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

/// The judge below our layer finds nothing that it does not find without us. Where the layer brings the
/// identifiers along, the client without it does without them.
fn same_messages(machine: &Machine, plan: Plan) {
    // The judge that distributions ship knows no maintenance5: it would take libraries for pipelines.
    on(machine, Plan { messages: true, flags2: false, ..plan }, |client| {
        if env::validation_manifest().is_none() {
            return client.scenario.skip("the Khronos validation layer is not installed");
        }
        let env = client.env.clone().validation();
        let ids = |run: &Run<Seen>| run.value.report.messages.iter().cloned().collect::<BTreeSet<_>>();
        let other_store = Plan { store: client.scenario.folder().join("alone"), ..client.plan.clone() };
        let mut without = BTreeSet::new();
        for _ in 0..2 {
            without.extend(ids(&client.run_in(&env.clone().without_layer(), &other_store)));
        }
        for round in ["cold", "warm"] {
            let with = client.run_in(&env, &client.plan);
            assert!(!with.reports.0.is_empty(), "our layer is there");
            let new: Vec<_> = ids(&with).difference(&without).cloned().collect();
            assert!(new.is_empty(), "{round} {:?}: {new:?}, without us {without:?}", client.plan);
        }
    });
}

#[test]
fn vkd3d_brings_no_new_validation_messages() {
    for machine in [RADV, LAVAPIPE] {
        same_messages(&machine, vkd3d());
        same_messages(&machine, Plan { libraries: true, ..vkd3d() });
    }
}

#[test]
fn dxvk_brings_no_new_validation_messages() {
    for machine in [RADV, LAVAPIPE] {
        same_messages(&machine, dxvk());
        same_messages(&machine, Plan { optimised: Optimised::Link, ..dxvk() });
    }
}
