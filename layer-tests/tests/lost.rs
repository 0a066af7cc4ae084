//! The count of losses: a compile counts as a loss if the stash held the artifact before, and not if the stash never
//! held it.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use vkstash_layer_tests::child::{Run, Scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::suite::{assert_all_served, device_segments, files, on, run};
use vkstash_layer_tests::work::{Caches, Code, Done, Shader, Work};
use vkstash_model::app_name::AppName;
use vkstash_model::record::{Key, Kind};
use vkstash_store::stash::inspect::list_applications;
use vkstash_store::stash::open::Stash;

fn test_driver(script: Value) -> Driver {
    Driver::Test(script)
}

fn remove(segments: &[PathBuf]) {
    assert!(!segments.is_empty());
    segments.iter().for_each(|segment| fs::remove_file(segment).unwrap());
}

fn portable_segments(stash: &Path) -> Vec<PathBuf> {
    let portable = |path: &PathBuf| path.parent().is_some_and(|part| part.ends_with("portable"));
    files(stash, ".vks").into_iter().filter(portable).collect()
}

/// Recorded compiles, how many of them replace an artifact that was served before, and whether the latter have a
/// time.
fn losses(run: &Run<Done>) -> (u64, u64, bool) {
    let [compiled, before, spent] =
        ["compiled", "served_before", "served_before_ns"].map(|name| run.reports.sum(name));
    assert!(spent <= run.reports.sum("compile_ns"), "{:?}", run.reports);
    (compiled, before, spent > 0)
}

#[test]
fn an_artifact_that_is_evicted_after_it_was_served_counts_as_a_loss() {
    on(test_driver(json!({ "compile_us": 500 })), |scenario, env| {
        for (number, caches) in [Caches::None, Caches::Fresh, Caches::Shared].into_iter().enumerate() {
            let env = env.clone().stash(scenario.folder().join(format!("stash-{number}")));
            let work = Work { caches, ..Work::default() };
            assert_eq!(losses(&run(scenario, &env, &work)), (3, 0, false), "the first run");
            let artifacts = device_segments(&env.stash_folder());
            // From this run on the stash knows that the driver accepts the artifacts. That knowledge has a segment of
            // its own.
            assert_all_served(&run(scenario, &env, &work), 3);
            remove(&artifacts);
            let more = Work { count: 5, ..work.clone() };
            assert_eq!(losses(&run(scenario, &env, &more)), (5, 3, true), "two of them are new");
            let warm = run(scenario, &env, &more);
            assert_all_served(&warm, 5);
            assert_eq!(losses(&warm), (0, 0, false));
        }
    });
}

#[test]
fn an_artifact_that_was_never_served_is_no_loss() {
    on(test_driver(json!({})), |scenario, env| {
        run(scenario, env, &Work::default());
        remove(&device_segments(&env.stash_folder()));
        assert_eq!(losses(&run(scenario, env, &Work::default())), (3, 0, false));
    });
}

/// An artifact whose segment is so slow to read that the program compiles meanwhile is still in the stash: that
/// compile is no loss, and the layer does not write the artifact again.
#[test]
fn an_artifact_that_is_not_read_yet_is_no_loss_and_is_not_written_twice() {
    on(test_driver(json!({})), |scenario, env| {
        run(scenario, env, &Work::default());
        let [artifacts] = device_segments(&env.stash_folder()).try_into().unwrap();
        // The knowledge that the driver accepts the artifacts has a file of its own, and the layer reads that file at
        // once.
        assert_all_served(&run(scenario, env, &Work::default()), 3);
        // The file looks as if its writer had died and left that much space behind the records.
        let mut file = fs::File::options().append(true).open(&artifacts).unwrap();
        (0..64).for_each(|_| file.write_all(&[0x55; 1 << 20]).unwrap());
        let again = run(scenario, &env.clone().var("VKSTASH_OPEN_MS", "3"), &Work::default());
        assert!(again.reports.store().refused["put_off"] > 0, "{:?}", again.reports.store());
        assert_eq!(losses(&again).1, 0, "{:?}", again.reports.counters());
        let [application] = list_applications(&env.stash_folder()).unwrap().try_into().unwrap();
        let records: u64 = application.parts.iter().filter_map(|part| part.records.get("artifact")).sum();
        assert_eq!(records, 3, "compiled {}: {:?}", losses(&again).0, application.parts);
        assert_all_served(&run(scenario, env, &Work::default()), 3);
    });
}

/// The stash holds the artifact, and the driver rejects it: that is a rejection, not a loss.
#[test]
fn an_artifact_that_the_driver_refuses_is_no_loss() {
    on(test_driver(json!({})), |scenario, env| {
        run(scenario, env, &Work::default());
        assert_all_served(&run(scenario, env, &Work::default()), 3);
        let stubborn = test_driver(json!({ "ignore_blobs": true, "compile_us": 200_000 }));
        let stubborn = scenario.on(stubborn).unwrap().stash(env.stash_folder());
        let refused = run(scenario, &stubborn, &Work::default());
        assert_eq!(refused.reports.sum("not_taken"), 3, "{:?}", refused.reports);
        assert_eq!(losses(&refused), (3, 0, false));
    });
}

/// A program that names its shader by an identifier of the layer, and a program that has the code.
fn by_identifier(shader: Shader) -> (Work, Work) {
    let by_code = Work { shader, identifiers: true, ..Work::default() };
    (Work { code: Code::Identifier, ..by_code.clone() }, by_code)
}

#[test]
fn an_artifact_whose_modules_are_evicted_counts_as_missing() {
    on(test_driver(json!({})), |scenario, env| {
        for (number, shader) in [Shader::Compute, Shader::RenderPass].into_iter().enumerate() {
            let env = env.clone().stash(scenario.folder().join(format!("stash-{number}")));
            let (by_identifier, by_code) = by_identifier(shader);
            run(scenario, &env, &by_code);
            let warm = run(scenario, &env, &by_identifier);
            assert_eq!((warm.reports.sum("identifier_served"), warm.reports.sum("module_missing")), (3, 0));
            remove(&portable_segments(&env.stash_folder()));
            assert_eq!(missing(scenario, &env, &by_identifier), 3);
        }
    });
}

/// Removes the modules from the stash, as an eviction does. Every recipe stays.
fn evict_modules(stash: &Path) {
    let [application] = list_applications(stash).unwrap().try_into().unwrap();
    let name = AppName { display: application.display, folder: application.folder };
    let mut recipes: Vec<(Key, Vec<u8>)> = Vec::new();
    Stash::open_patiently(stash, &name)
        .unwrap()
        .portable()
        .for_each(Kind::Recipe, &mut |key, payload| recipes.push((*key, payload.to_vec())));
    remove(&portable_segments(stash));
    let stash = Stash::open_patiently(stash, &name).unwrap();
    for (key, payload) in recipes {
        assert!(stash.portable().put(Kind::Recipe, &key, payload.into()));
    }
}

fn missing(scenario: &Scenario, env: &Env, work: &Work) -> u64 {
    let seen = run(scenario, env, work);
    assert!(seen.value.all_refused(), "{:?}", seen.value.results);
    seen.reports.sum("module_missing")
}

#[test]
fn requests_that_have_no_artifact_do_not_count_as_missing() {
    on(test_driver(json!({})), |scenario, env| {
        let (by_identifier, by_code) = by_identifier(Shader::Compute);
        // No program has shown the modules to this stash yet.
        assert_eq!(missing(scenario, env, &by_identifier), 0);
        run(scenario, env, &by_code);
        remove(&device_segments(&env.stash_folder()));
        evict_modules(&env.stash_folder());
        // Without an artifact the code alone would not help.
        assert_eq!(missing(scenario, env, &by_identifier), 0);
    });
}
