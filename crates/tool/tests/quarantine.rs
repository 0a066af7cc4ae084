//! `vkstash quarantine` over stashes with and without artifacts of which programs died.

use vkstash_store::format::app_name::AppName;
use vkstash_store::format::record::Kind;
use vkstash_store::part::open::{DEATHS_LIMIT, Handing, Part};
use vkstash_store::stash::open::Stash;

use super::*;

fn with_part<T>(dir: &Path, with: impl FnOnce(&Part) -> T) -> T {
    let stash = Stash::open_patiently(dir, &AppName::new(Some(b"game"), b"/bin/game", &[])).unwrap();
    with(&stash.device(&header()).unwrap())
}

fn quarantine(house: &House, dir: &Path, release: bool) -> String {
    let mut command = house.tool();
    command.arg("quarantine").arg("--dir").arg(dir);
    if release {
        command.arg("--release");
    }
    let output = output(&mut command);
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout).to_owned()
}

#[test]
fn what_kills_is_listed_and_released() {
    let house = House::new();
    let dir = house.path("stash");
    assert_eq!(quarantine(&house, &dir, false), "nothing is quarantined\n");
    with_part(&dir, |part| {
        for (key, deaths) in [(1, DEATHS_LIMIT - 1), (2, DEATHS_LIMIT)] {
            assert!(part.put(Kind::Deaths, &[key; 32], Box::new([deaths])));
        }
    });
    let listed = quarantine(&house, &dir, false);
    assert_eq!(listed.lines().count(), 1, "{listed}");
    assert!(listed.starts_with(&format!("quarantined: {} of game", "02".repeat(32))), "{listed}");
    assert!(with_part(&dir, |part| matches!(part.hand_out(&[2; 32]), Handing::Quarantined)));
    assert!(quarantine(&house, &dir, true).starts_with("released: "));
    assert_eq!(quarantine(&house, &dir, false), "nothing is quarantined\n");
    assert!(with_part(&dir, |part| matches!(part.hand_out(&[2; 32]), Handing::Yes(_))));
}
