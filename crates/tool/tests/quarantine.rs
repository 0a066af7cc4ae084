//! `vkstash quarantine` over stashes with and without quarantined artifacts.

use vkstash_store::format::app_name::AppName;
use vkstash_store::format::record::{CRASH_LIMIT, Kind};
use vkstash_store::part::admission::Admission;
use vkstash_store::part::open::Part;
use vkstash_store::stash::open::Stash;

use super::*;

fn with_part<T>(dir: &Path, with: impl FnOnce(&Part) -> T) -> T {
    let stash = Stash::open_patiently(dir, &AppName::new(Some(b"game"), b"/bin/game")).unwrap();
    with(&stash.device(&header()).unwrap())
}

fn quarantine(sandbox: &Sandbox, dir: &Path, release: bool) -> String {
    let mut command = sandbox.tool();
    command.arg("quarantine").arg("--dir").arg(dir);
    if release {
        command.arg("--release");
    }
    let output = output(&mut command);
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout).to_owned()
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
