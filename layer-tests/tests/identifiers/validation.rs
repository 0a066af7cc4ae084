//! The Khronos validation layer is below ours: nothing that the layer answers itself reaches it.

use std::collections::BTreeSet;

use super::*;
use vkstash_layer_tests::env;

/// With our layer the validation layer reports nothing about these jobs that it does not report about `plain` without
/// it. Each job runs twice, in the stash of the one before.
fn nothing_new(setting: &Setting, plain: impl Fn(&Work) -> Job, jobs: &[Job]) {
    each(vec![setting.clone()], &[("job", do_job)], |scenario, env, _| {
        if env::validation_manifest().is_none() {
            return scenario.skip("the Khronos validation layer is not installed");
        }
        let env = env.clone().validation();
        let alone = env.clone().without_layer();
        let messages = |env: &Env, job: Job| {
            let work = Work { messages: true, ..job.work };
            let run = run(scenario, env, Job { work, ..job });
            (run.value.done.messages.iter().cloned().collect::<BTreeSet<_>>(), run.value.done)
        };
        for job in jobs {
            let (without, made) = messages(&alone, plain(&job.work));
            assert!(made.all_made());
            for round in ["first", "second"] {
                let (with, done) = messages(&env, job.clone());
                assert!(done.all_made() || done.all_refused(), "{round} {job:?} {:?}", done.results);
                // A call that is not passed on causes no messages.
                let new: Vec<_> = with.difference(&without).collect();
                assert!(new.is_empty(), "{round} {job:?}: {new:?}");
            }
        }
    });
}

/// The program without the features that only our layer offers.
fn without_what_we_offer(work: &Work) -> Work {
    Work { code: Code::Module, fail_on: false, early_return: false, identifiers: false, ..work.clone() }
}

#[test]
fn a_driver_without_cache_control_is_called_as_by_a_program_without_it() {
    let mut jobs = Vec::new();
    for shader in [Shader::Compute, Shader::RenderPass] {
        let caches = Caches::Fresh;
        let work = Work { shader, caches, ..Work::default() };
        jobs.extend([
            work.clone(),
            Work { early_return: true, ..work.clone() },
            Work { fail_on: true, ..work.clone() },
            Work { code: Code::Identifier, ..work.clone() },
            Work { code: Code::ModuleAndEmptyIdentifier, ..work },
        ]);
    }
    let jobs: Vec<_> = jobs.into_iter().map(Job::on_old_driver).collect();
    let plain = |work: &Work| Job { work: without_what_we_offer(work), asks: Asks::Neither };
    nothing_new(&Setting::auto(old_driver()), plain, &jobs);
}

#[test]
fn calls_with_stored_code_are_as_valid_as_those_of_a_program_with_the_code() {
    for setting in [Setting::auto(Driver::Lavapipe), Setting::forced(Driver::Radv)] {
        let mut jobs = Vec::new();
        for shader in [Shader::Compute, Shader::DynamicRendering] {
            let work = Work { shader, identifiers: true, cache_control: true, ..Work::default() };
            jobs.push(Job::from(work.clone()));
            jobs.push(Job::from(Work { code: Code::Identifier, ..work }));
        }
        nothing_new(&setting, |work| without_what_we_offer(work).into(), &jobs);
    }
}
