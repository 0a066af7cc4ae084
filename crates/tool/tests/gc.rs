//! `vkstash gc` brings a stash within its limit.

use vkstash_store::format::app_name::AppName;
use vkstash_store::format::record::Kind;
use vkstash_store::stash::open::Stash;

use super::*;

fn gc(sandbox: &Sandbox, dir: &Path) -> String {
    let output = output(sandbox.tool().arg("gc").arg("--dir").arg(dir));
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout).to_owned()
}

#[test]
fn folders_without_a_record_are_removed() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    let app = |number: u64| AppName::of_folder(&format!("game-{number:016x}")).unwrap();
    let part = |number, name: &str| dir.join(app(number).folder).join(name);
    for number in 0..5 {
        drop(Stash::open_patiently(&dir, &app(number)).unwrap().device(&header()).unwrap());
    }
    fs::write(part(0, "portable").join(format!(".tmp-{:016x}-00000001-{:016x}.vks", 1, 1)), "").unwrap();
    // A user's file, a foreign folder, a folder that is not empty, and an open stash.
    fs::write(part(1, "settings"), "limit = 1MiB\n").unwrap();
    fs::write(part(2, "portable").join("notes.txt"), "").unwrap();
    fs::write(part(3, "portable").join(format!("{:016x}-00000001-{:016x}.vks", 1, 1)), "something").unwrap();
    let open = Stash::open_patiently(&dir, &app(4)).unwrap();
    fs::create_dir(dir.join("elsewhere")).unwrap();
    let told = gc(&sandbox, &dir);
    assert_eq!(told, "removed: 1 folder without records\n");
    let there = |number| dir.join(app(number).folder).is_dir();
    assert_eq!([0, 1, 2, 3, 4].map(there), [false, true, true, true, true]);
    assert!(dir.join("elsewhere").is_dir());

    // The process that has it open can still write to it.
    assert!(open.portable().put(Kind::Module, &[1; 32], noise(100)));
    drop(open);
    assert_eq!(Stash::open_patiently(&dir, &app(4)).unwrap().portable().len(Kind::Module), 1);
}

#[test]
fn records_beyond_the_limit_are_evicted_and_reported() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    assert_eq!(gc(&sandbox, &dir), "nothing to evict, and nothing to merge\n");
    let app = AppName::new(Some(b"game"), b"/bin/game", &[]);
    let stash = Stash::open_patiently(&dir, &app).unwrap();
    for number in 0..20 {
        assert!(stash.portable().put(Kind::Module, &[number; 32], noise(50_000)));
    }
    drop(stash);
    assert_eq!(gc(&sandbox, &dir), "nothing to evict, and nothing to merge\n");
    let set = output(sandbox.tool().args(["keep", "--limit", "500KiB", "--dir"]).arg(&dir));
    assert!(set.status.success(), "{set:?}");
    let told = gc(&sandbox, &dir);
    assert!(told.contains("(total_limit)") && told.contains("evicted: 11 records"), "{told}");
    let stash = Stash::open_patiently(&dir, &app).unwrap();
    assert_eq!(stash.portable().len(Kind::Module), 9);
}
