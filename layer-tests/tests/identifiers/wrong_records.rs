//! Valid records with other content than their keys say: another module's code under an identity, another module
//! under a driver's identifier. No pipeline is made of them, and they are replaced when a program passes the code.

use std::path::Path;

use serde_json::json;

use vkstash_model::app_name::AppName;
use vkstash_model::record::{Key, Kind};
use vkstash_store::part::open::Part;
use vkstash_store::stash::inspect::list_applications;
use vkstash_store::stash::open::Stash;

use super::*;

/// Replaces the payload of each record of this kind by that of another one. The store writes them, so they are newer
/// and their checksums are right.
fn rotate(part: &Part, kind: Kind) {
    let mut records: Vec<(Key, Vec<u8>)> = Vec::new();
    part.for_each(kind, &mut |key, payload| records.push((*key, payload.to_vec())));
    assert!(records.len() >= 3, "{}", records.len());
    for (number, (key, _)) in records.iter().enumerate() {
        let (_, other) = &records[(number + 1) % records.len()];
        assert!(part.put(kind, key, other.as_slice().into()));
    }
}

/// Rotates the payloads of this kind in the part that holds it: the portable part, or each device part.
fn rotate_in(stash: &Path, kind: Kind) {
    let [application] = list_applications(stash).unwrap().try_into().unwrap();
    let name = AppName { display: application.display, folder: application.folder };
    let stash = Stash::open_patiently(stash, &name).unwrap();
    if kind == Kind::Module {
        return rotate(stash.portable(), kind);
    }
    for header in application.parts.iter().filter_map(|part| part.device.as_ref()) {
        rotate(&stash.device(header).unwrap(), kind);
    }
}

/// The step: requests by identifier alone, and with the code if that is refused, as translators do.
fn translate(input: &Value) -> Value {
    let work: Work = serde_json::from_value(input.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &work.device_options()).unwrap();
    let asked = Work { code: Code::Identifier, ..work.clone() }.run(&device);
    if asked.all_refused() {
        assert!(work.run(&device).all_made());
    }
    drop(device);
    answer(asked, instance)
}

const STEPS: &[(&str, Step)] = &[("job", do_job), ("translate", translate)];

fn translating(scenario: &Scenario, env: &Env, work: &Work) -> Run<Seen> {
    scenario.run_ok("translate", env, work)
}

fn asks_by_identifier(scenario: &Scenario, env: &Env, work: &Work) -> Run<Seen> {
    run(scenario, env, Work { code: Code::Identifier, ..work.clone() })
}

fn made_modules(seen: &Seen) -> usize {
    seen.calls("vkCreateShaderModule").count()
}

#[test]
fn code_under_another_modules_identity_never_reaches_the_driver() {
    let settings = [Setting::auto(test_driver(json!({}))), Setting::forced(Driver::Radv)];
    for setting in settings {
        each(vec![setting], STEPS, |scenario, env, setting| {
            let by_code = Work { identifiers: true, ..Work::default() };
            run(scenario, env, by_code.clone());
            let sound = asks_by_identifier(scenario, env, &by_code);
            assert!(sound.value.done.all_made(), "{:?}: {:?}", setting.driver, sound.reports);
            rotate_in(&env.stash_folder(), Kind::Module);
            let wrong = asks_by_identifier(scenario, env, &by_code);
            assert!(wrong.value.done.all_refused(), "{:?}: {:?}", setting.driver, wrong.reports);
            assert_eq!((made_modules(&wrong.value), wrong.value.compiles), (0, 0), "{:?}", wrong.value.calls);
            assert!(wrong.stderr.contains("something else under a module's identity"), "{}", wrong.stderr);
            assert_eq!(wrong.reports.sum("compiled_unrecorded"), 0);
            let back = translating(scenario, env, &by_code);
            assert!(back.value.done.all_refused(), "{:?}", back.reports);
            let healed = asks_by_identifier(scenario, env, &by_code);
            assert!(healed.value.done.all_made(), "{:?}: {:?}", setting.driver, healed.reports);
            assert!(!healed.stderr.contains("something else"), "{}", healed.stderr);
        });
    }
}

/// The driver checks what it is offered, so no wrong pipeline results; the record is replaced by the driver's answer.
#[test]
fn a_record_with_the_wrong_identifier_is_corrected() {
    each(native(), STEPS, |scenario, env, setting| {
        let by_code = Work { identifiers: true, ..Work::default() };
        run(scenario, env, by_code.clone());
        assert!(asks_by_identifier(scenario, env, &by_code).value.done.all_made());
        rotate_in(&env.stash_folder(), Kind::IdentifierPair);
        let back = translating(scenario, env, &by_code);
        assert!(back.value.done.all_refused(), "{:?} {:?}", setting.driver, back.reports);
        assert_eq!((back.reports.sum("served"), back.reports.sum("compiled")), (3, 0), "{:?}", back.reports);
        let healed = asks_by_identifier(scenario, env, &by_code);
        assert!(healed.value.done.all_made(), "{:?} {:?}", setting.driver, healed.reports);
        assert_eq!(healed.reports.sum("identifier_served"), 3, "{:?}", healed.reports);
    });
}
