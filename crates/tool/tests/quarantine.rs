//! `vkstash quarantine` over stashes with and without quarantined artifacts.

use vkstash_model::app_name::AppName;
use vkstash_model::crash_count::{CompileDeaths, CrashCount};
use vkstash_model::record::{CRASH_LIMIT, Kind};
use vkstash_store::part::admission::Admission;
use vkstash_store::part::open::Part;
use vkstash_store::stash::open::Stash;

use super::*;

fn with_part<T>(dir: &Path, with: impl FnOnce(&Part) -> T) -> T {
    let stash = Stash::open_patiently(dir, &AppName::new(Some(b"game"), b"/bin/game")).unwrap();
    with(&stash.device(&header()).unwrap())
}

fn asked(sandbox: &Sandbox, dir: &Path, arguments: &[&str]) -> Output {
    output(sandbox.tool().arg("quarantine").args(arguments).arg("--dir").arg(dir))
}

fn said(sandbox: &Sandbox, dir: &Path, arguments: &[&str]) -> String {
    let output = asked(sandbox, dir, arguments);
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout).to_owned()
}

fn quarantine(sandbox: &Sandbox, dir: &Path, release: bool) -> String {
    said(sandbox, dir, if release { &["--release"] } else { &[] })
}

#[test]
fn quarantined_artifacts_are_listed_and_released() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    assert_eq!(quarantine(&sandbox, &dir, false), "nothing is quarantined\n");
    with_part(&dir, |part| {
        for (key, count) in [(1, CRASH_LIMIT - 1), (2, CRASH_LIMIT)] {
            assert!(part.put(Kind::CrashCount, &[key; 32], Box::new([count])));
        }
    });
    let listed = quarantine(&sandbox, &dir, false);
    assert_eq!(listed.lines().count(), 1, "{listed}");
    assert!(listed.starts_with(&format!("quarantined: {} of game", "02".repeat(32))), "{listed}");
    assert!(with_part(&dir, |part| matches!(part.admit(&[2; 32]), Admission::Quarantined)));
    assert!(quarantine(&sandbox, &dir, true).starts_with("released: "));
    assert_eq!(quarantine(&sandbox, &dir, false), "nothing is quarantined\n");
    assert!(with_part(&dir, |part| matches!(part.admit(&[2; 32]), Admission::Granted(_))));
}

#[test]
fn pipelines_that_programs_ended_at_are_listed_by_key_and_released_alone() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    with_part(&dir, |part| {
        for (key, deaths, stages) in [(1, 1, 0x11), (2, 2, 0x20), (3, 3, 0x100)] {
            let compile = Some(CompileDeaths { deaths, stages, unix_ms: 1_000_000_000_000 });
            let count = CrashCount { of_artifact: 0, compile };
            assert!(part.put(Kind::CrashCount, &[key; 32], count.record()));
        }
    });
    let listed = said(&sandbox, &dir, &[]);
    let expected = [
        ("01", "died once while compiling, graphics"),
        ("02", "died twice while compiling, compute"),
        ("03", "died 3 times while compiling, ray tracing"),
    ];
    let part = header().short_digest();
    let line = |done: &str, (key, what): (&str, &str)| {
        format!("{done}: {} of game ({what}), part {part}\n", key.repeat(32))
    };
    assert_eq!(listed, expected.map(|of| line("quarantined", of)).concat());
    assert_eq!(said(&sandbox, &dir, &["0202"]), line("quarantined", expected[1]));

    let unknown = asked(&sandbox, &dir, &["--release", "0101", "AB"]);
    assert!(
        one_error_line(&unknown).contains("begins with \"ab\": `vkstash quarantine` lists"),
        "{unknown:?}"
    );
    assert_eq!(
        text(&unknown.stdout),
        line("released", expected[0]),
        "the known one is released all the same"
    );
    assert_eq!(said(&sandbox, &dir, &["--release", "0202"]), line("released", expected[1]));
    assert_eq!(said(&sandbox, &dir, &[]), line("quarantined", expected[2]));
    assert!(with_part(&dir, |part| part.compile_deaths(&[2; 32]) == 0 && part.compile_deaths(&[3; 32]) == 3));
}

/// Such a death takes no artifact from anybody, and a release of it leaves what is counted of the artifact.
#[test]
fn deaths_in_a_compile_and_of_the_artifact_are_told_and_released_together() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    let put = |of_artifact| {
        let compile = Some(CompileDeaths { deaths: 2, stages: 0x20, unix_ms: 1_000_000_000_000 });
        let count = CrashCount { of_artifact, compile };
        with_part(&dir, |part| assert!(part.put(Kind::CrashCount, &[1; 32], count.record())));
    };
    put(CRASH_LIMIT - 1);
    assert!(with_part(&dir, |part| matches!(part.admit(&[1; 32]), Admission::Granted(_))));
    assert!(said(&sandbox, &dir, &["--release"]).contains(" of game (died twice while compiling, compute)"));
    assert_eq!(with_part(&dir, |part| part.crash_count(&[1; 32])), CRASH_LIMIT - 1);
    put(CRASH_LIMIT);
    let listed = said(&sandbox, &dir, &[]);
    let both = format!("({CRASH_LIMIT} processes died, died twice while compiling, compute)");
    assert!(listed.contains(&both) && listed.lines().count() == 1, "{listed}");
    said(&sandbox, &dir, &["--release"]);
    assert_eq!(said(&sandbox, &dir, &[]), "nothing is quarantined\n");
}
