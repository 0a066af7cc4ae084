//! The Khronos validation layer below ours reports nothing that it does not report without ours.

use std::collections::BTreeSet;

use vkstash_layer_tests::env::{self, Driver, Layer};
use vkstash_layer_tests::suite::{on, run};
use vkstash_layer_tests::work::{Caches, Code, Shader, Work};

/// The validation layer's messages about this program, once without our layer and twice with it.
fn same_messages(driver: fn() -> Driver, works: &[Work]) {
    for layer in [Layer::Implicit, Layer::Explicit] {
        on(driver(), |scenario, env| {
            if env::validation_manifest().is_none() {
                return scenario.skip("the Khronos validation layer is not installed");
            }
            for (index, work) in works.iter().enumerate() {
                let work = Work { messages: true, ..work.clone() };
                let env = env.clone().validation().stash(scenario.folder().join(format!("stash-{index}")));
                let ids = |messages: &[String]| messages.iter().cloned().collect::<BTreeSet<_>>();
                let without = ids(&run(scenario, &env.clone().without_layer(), &work).value.messages);
                let env = env.layer(layer);
                for round in ["cold", "warm"] {
                    let with = run(scenario, &env, &work);
                    assert!(with.value.all_made(), "{with:?}");
                    assert!(!with.reports.0.is_empty(), "our layer is there");
                    let new: Vec<_> = ids(&with.value.messages).difference(&without).cloned().collect();
                    assert!(new.is_empty(), "{round} {layer:?} {work:?}: {new:?}, without us {without:?}");
                    assert_eq!(ids(&with.value.messages), without, "{round} {layer:?} {work:?}");
                }
            }
        });
    }
}

fn works() -> Vec<Work> {
    let mut works = Vec::new();
    for shader in [Shader::Compute, Shader::Specialized, Shader::RenderPass, Shader::DynamicRendering] {
        for caches in [Caches::None, Caches::Fresh, Caches::Shared] {
            works.push(Work { shader, caches, ..Work::default() });
        }
        works.push(Work { shader, feedback: true, cache_control: true, ..Work::default() });
        works.push(Work { shader, batch: 3, derivatives: true, ..Work::default() });
    }
    works
}

#[test]
fn the_layer_adds_no_validation_message_on_radv() {
    same_messages(|| Driver::Radv, &works());
}

#[test]
fn the_layer_adds_no_validation_message_on_lavapipe() {
    same_messages(|| Driver::Lavapipe, &works());
}

/// Neither VK_EXT_shader_module_identifier nor its structure reaches the layers below.
#[test]
fn emulated_identifiers_are_removed_before_the_call_goes_down() {
    let emulated = |shader| Work { shader, code: Code::ModuleAndEmptyIdentifier, ..Work::default() };
    same_messages_but_for_identifiers(&[emulated(Shader::Compute), emulated(Shader::RenderPass)]);
}

/// Without the layer the program could not run on lavapipe, so it is compared with one that does not use identifiers.
fn same_messages_but_for_identifiers(works: &[Work]) {
    on(Driver::Lavapipe, |scenario, env| {
        if env::validation_manifest().is_none() {
            return scenario.skip("the Khronos validation layer is not installed");
        }
        let env = env.clone().validation();
        for work in works {
            let work = Work { messages: true, cache_control: true, ..work.clone() };
            let plain = Work { code: Code::Module, ..work.clone() };
            let without = run(scenario, &env.clone().without_layer(), &plain).value.messages;
            let with = run(scenario, &env, &work);
            assert!(with.value.all_made(), "{with:?}");
            let ids = |messages: Vec<String>| messages.into_iter().collect::<BTreeSet<_>>();
            assert_eq!(ids(with.value.messages), ids(without), "{work:?}");
        }
    });
}

/// The validation layer works: the program's own mistakes are reported below our layer.
#[test]
fn the_programs_own_mistakes_are_still_reported() {
    on(Driver::Lavapipe, |scenario, env| {
        if env::validation_manifest().is_none() {
            return scenario.skip("the Khronos validation layer is not installed");
        }
        let env = env.clone().validation();
        let work = Work { messages: true, unknown_structure: true, ..Work::default() };
        let with = run(scenario, &env, &work);
        assert!(!with.value.messages.is_empty(), "{with:?}");
    });
}
