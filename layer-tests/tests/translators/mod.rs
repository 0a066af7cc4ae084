//! Programs that translate shaders at run time: cold, warm, after a driver update, and after the layer is removed.

mod clients;
mod dxvk;
mod validation;
mod vkd3d;

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

use vkstash_layer_tests::child::{Run, Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::translators::report::Report;
use vkstash_layer_tests::translators::{self, Habit, Plan};

/// The results of a client, and the test driver's record.
#[derive(Debug, Deserialize)]
struct Seen {
    report: Report,
    violations: Vec<String>,
    compiles: u64,
}

/// Runs the client; takes the test driver's record at the end. The driver's library stays mapped.
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

/// A driver, and the same driver after an update.
struct Machine {
    driver: fn() -> Driver,
    updated: fn(Env) -> Env,
    /// The device has identifiers without the layer.
    native: bool,
    /// The driver gives cache data, so there are artifacts.
    artifacts: bool,
    /// This driver caches no libraries that retain information for optimised links: it compiles them again even with
    /// its own warm disk cache (tried), so they are never created by identifier alone.
    retained_uncached: bool,
}

/// Identifiers of its own, and a real compiler. No second version of it is installed, but another chip also has
/// another pipelineCacheUUID, with the same algorithm for identifiers.
const RADV: Machine = Machine {
    driver: || Driver::Radv,
    updated: |env| env.var("RADV_FORCE_FAMILY", "navi23"),
    native: true,
    artifacts: true,
    retained_uncached: true,
};

/// lavapipe has neither identifiers nor cache data. No variable changes its behaviour.
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

/// A client on a machine, with the same stash and store for every run.
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

    /// Runs the client on this driver without the layer.
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

/// The layer described every pipeline.
fn assert_nothing_bypassed(run: &Run<Seen>) {
    assert!(!run.reports.0.is_empty(), "our layer is there: {}", run.stderr);
    assert_eq!(run.reports.bypassed(), Vec::new(), "{:?}", run.reports.counters());
}

/// Every pipeline was requested by identifier, and served.
fn assert_all_by_identifier(run: &Run<Seen>, count: u32) {
    let (report, counters) = (&run.value.report, run.reports.counters());
    assert_eq!(report.served_by_identifier, count, "{report:?} {counters:?}");
    assert_eq!(report.compile_required, 0, "{report:?} {counters:?}");
    assert_eq!(report.translations, 0, "{report:?} {counters:?}");
    assert_eq!(run.value.compiles, 0, "{counters:?}");
    assert_eq!(run.reports.sum("compiled"), 0, "{counters:?}");
    assert_nothing_bypassed(run);
}
