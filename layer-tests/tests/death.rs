//! Programs that end abruptly: records that reached the writer survive.

use vkstash_layer_tests::env::Driver;
use vkstash_layer_tests::suite::{assert_all_served, on, run, run_to_any_end};
use vkstash_layer_tests::work::{End, Work};

/// Milliseconds that suffice for the writer, which polls.
const A_WHILE: u64 = 400;

#[test]
fn a_killed_program_loses_no_record_that_reached_the_writer() {
    on(Driver::Radv, |scenario, env| {
        let killed = run_to_any_end(scenario, env, &Work { end: End::Kill(A_WHILE), ..Work::default() });
        assert_eq!(killed.signal(), Some(libc::SIGKILL), "{}", killed.ending());
        let warm = run(scenario, env, &Work::default());
        assert_all_served(&warm, 3);
    });
}

#[test]
fn a_program_that_calls_exit_directly_loses_no_record_that_reached_the_writer() {
    on(Driver::Radv, |scenario, env| {
        let work = Work { end: End::UnderscoreExit(A_WHILE), ..Work::default() };
        let gone = run_to_any_end(scenario, env, &work);
        assert!(gone.status.success(), "{}", gone.ending());
        let warm = run(scenario, env, &Work::default());
        assert_all_served(&warm, 3);
    });
}

#[test]
fn a_program_that_exits_with_a_live_device_loses_nothing() {
    on(Driver::Radv, |scenario, env| {
        let cold = run(scenario, env, &Work { end: End::Exit, count: 20, ..Work::default() });
        assert!(cold.value.all_made(), "{cold:?}");
        assert_eq!(cold.reports.sum("compiled"), 20, "{:?}", cold.reports);
        let warm = run(scenario, env, &Work { count: 20, ..Work::default() });
        assert_all_served(&warm, 20);
    });
}

/// The torn end of a file belongs to the dead program; the next program writes another file.
#[test]
fn a_program_killed_at_its_start_leaves_a_usable_stash() {
    on(Driver::Radv, |scenario, env| {
        for _ in 0..5 {
            let work = Work { end: End::Kill(0), count: 10, ..Work::default() };
            let killed = run_to_any_end(scenario, env, &work);
            assert_eq!(killed.signal(), Some(libc::SIGKILL), "{}", killed.ending());
        }
        let next = run(scenario, env, &Work { count: 10, ..Work::default() });
        assert!(next.value.all_made(), "{next:?}");
        // A segment whose writer died between creating and filling it.
        let refused = next.reports.refused();
        assert!(refused.keys().all(|reason| reason == "truncated"), "{refused:?}");
        let warm = run(scenario, env, &Work { count: 10, ..Work::default() });
        assert_all_served(&warm, 10);
    });
}

#[test]
fn two_programs_at_once_share_a_stash() {
    on(Driver::Radv, |scenario, env| {
        let one = scenario.start("work", env, &Work { count: 30, ..Work::default() });
        let two = scenario.start("work", env, &Work { count: 30, first: 16, ..Work::default() });
        one.wait().ok();
        two.wait().ok();
        let warm = run(scenario, env, &Work { count: 45, ..Work::default() });
        assert_all_served(&warm, 45);
    });
}
