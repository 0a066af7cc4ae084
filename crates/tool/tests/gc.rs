//! `vkstash gc`: a stash that is larger than its limit is not afterwards.

use vkstash_store::format::app_name::AppName;
use vkstash_store::format::record::Kind;
use vkstash_store::stash::open::Stash;

use super::*;

fn gc(house: &House, dir: &Path) -> String {
    let output = output(house.tool().arg("gc").arg("--dir").arg(dir));
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout).to_owned()
}

#[test]
fn folders_without_a_record_go() {
    let house = House::new();
    let dir = house.path("stash");
    let app = |number: u64| AppName::of_folder(&format!("game-{number:016x}")).unwrap();
    let part = |number, name: &str| dir.join(app(number).folder).join(name);
    for number in 0..5 {
        drop(Stash::open_patiently(&dir, &app(number)).unwrap().device(&header()).unwrap());
    }
    fs::write(part(0, "portable").join(format!(".tmp-{:016x}-00000001-{:016x}.vks", 1, 1)), "").unwrap();
    // The user's, somebody else's, not empty, and open.
    fs::write(part(1, "settings"), "limit = 1MiB\n").unwrap();
    fs::write(part(2, "portable").join("notes.txt"), "").unwrap();
    fs::write(part(3, "portable").join(format!("{:016x}-00000001-{:016x}.vks", 1, 1)), "something").unwrap();
    let open = Stash::open_patiently(&dir, &app(4)).unwrap();
    fs::create_dir(dir.join("elsewhere")).unwrap();
    let told = gc(&house, &dir);
    assert_eq!(told, "removed: 1 folder without records\n");
    let there = |number| dir.join(app(number).folder).is_dir();
    assert_eq!([0, 1, 2, 3, 4].map(there), [false, true, true, true, true]);
    assert!(dir.join("elsewhere").is_dir());

    // Who has it open can still write to it.
    assert!(open.portable().put(Kind::Module, &[1; 32], noise(100)));
    drop(open);
    assert_eq!(Stash::open_patiently(&dir, &app(4)).unwrap().portable().len(Kind::Module), 1);
}

#[test]
fn what_is_beyond_the_limit_goes_and_is_told() {
    let house = House::new();
    let dir = house.path("stash");
    assert_eq!(gc(&house, &dir), "nothing had to go, and nothing had to be merged\n");
    let app = AppName::new(Some(b"game"), b"/bin/game", &[]);
    let stash = Stash::open_patiently(&dir, &app).unwrap();
    for number in 0..20 {
        assert!(stash.portable().put(Kind::Module, &[number; 32], noise(50_000)));
    }
    drop(stash);
    assert_eq!(gc(&house, &dir), "nothing had to go, and nothing had to be merged\n");
    let set = output(house.tool().args(["keep", "--limit", "500KiB", "--dir"]).arg(&dir));
    assert!(set.status.success(), "{set:?}");
    let told = gc(&house, &dir);
    assert!(told.contains("(total_limit)") && told.contains("evicted: 11 records"), "{told}");
    let stash = Stash::open_patiently(&dir, &app).unwrap();
    assert_eq!(stash.portable().len(Kind::Module), 9);
}
