//! `vkstash gc` brings a stash within its limit.

use vkstash_model::app_name::AppName;
use vkstash_model::record::Kind;
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
    let app = |number: u64| AppName::of_folder(&format!("game-{number:08x}-{number:08x}")).unwrap();
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
fn empty_guard_files_of_killed_programs_are_removed() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    let app = AppName::new(Some(b"game"), b"/bin/game");
    let stash = Stash::open_patiently(&dir, &app).unwrap();
    assert!(stash.device(&header()).unwrap().put(Kind::Artifact, &[1; 32], noise(100)));
    drop(stash);
    let part = dir.join(&app.folder).join(format!("device-{}", header().short_digest()));
    // The second one is that of a program that runs, and the third one says what a program died of.
    let guards = [1, 2, 3].map(|number: u64| part.join(format!("00000001-{number:016x}.vkg")));
    guards.iter().for_each(|path| fs::write(path, "").unwrap());
    fs::write(&guards[2], "something").unwrap();
    let running = fs::File::open(&guards[1]).unwrap();
    rustix::fs::flock(&running, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let there = || guards.each_ref().map(|path| path.exists());
    assert_eq!(gc(&sandbox, &dir), "nothing to evict, and nothing to merge\n");
    assert_eq!(there(), [false, true, true]);
    drop(running);
    gc(&sandbox, &dir);
    assert_eq!(there(), [false, false, true]);
}

#[test]
fn records_beyond_the_limit_are_evicted_and_reported() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    assert_eq!(gc(&sandbox, &dir), "nothing to evict, and nothing to merge\n");
    let app = AppName::new(Some(b"game"), b"/bin/game");
    let stash = Stash::open_patiently(&dir, &app).unwrap();
    for number in 0..20 {
        assert!(stash.portable().put(Kind::Module, &[number; 32], noise(50_000)));
    }
    drop(stash);
    assert_eq!(gc(&sandbox, &dir), "nothing to evict, and nothing to merge\n");
    let set = output(sandbox.tool().args(["keep", "--limit", "500KiB", "--yes", "--dir"]).arg(&dir));
    assert!(set.status.success(), "{set:?}");
    let told = gc(&sandbox, &dir);
    assert!(told.contains("(total limit)") && told.contains("evicted: 11 records"), "{told}");
    let stash = Stash::open_patiently(&dir, &app).unwrap();
    assert_eq!(stash.portable().len(Kind::Module), 9);
}

/// A store's folder with the bases of two applications, of which the first one has replaced another.
fn pulled_bases(sandbox: &Sandbox) -> PathBuf {
    let store = sandbox.home().join(".local/share/vkstash/remote/0123456789abcdef");
    for (name, bytes) in [("old/game", 100_000), ("base/game", 300_000), ("base/other", 300_000)] {
        let folder = store.join(name).join("portable");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("new.vks"), noise(bytes)).unwrap();
    }
    // What both have is there once.
    fs::hard_link(store.join("base/game/portable/new.vks"), store.join("old/game/portable/kept.vks"))
        .unwrap();
    fs::create_dir(store.join("tmp")).unwrap();
    let older = fs::File::open(store.join("base/other")).unwrap();
    older.set_modified(std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1)).unwrap();
    store
}

#[test]
fn pulled_bases_count_against_the_limit_and_yield_before_records() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    let app = AppName::new(Some(b"game"), b"/bin/game");
    let stash = Stash::open_patiently(&dir, &app).unwrap();
    for number in 0..20 {
        assert!(stash.portable().put(Kind::Module, &[number; 32], noise(50_000)));
    }
    drop(stash);
    let store = pulled_bases(&sandbox);
    let there = || ["old/game", "base/game", "base/other"].map(|name| store.join(name).exists());
    fs::write(dir.join("config.toml"), "limit = '1500KiB'\n").unwrap();
    let own = |command: &str| {
        let told = output(sandbox.tool().arg(command).env("VKSTASH_DIR", &dir));
        assert!(told.status.success(), "{told:?}");
        text(&told.stdout).to_owned()
    };
    let shown = own("stats");
    assert!(shown.contains("the whole stash with 683.6 KiB of pulled bases: 1.6 MiB, 11"), "{shown}");
    // They are no part of a stash that the user's programs do not have.
    let other = sandbox.path("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("config.toml"), "limit = '1KiB'\n").unwrap();
    gc(&sandbox, &other);
    let lock = fs::File::create(store.join("lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    own("gc");
    assert_eq!(there(), [true; 3], "a pull is at work");
    drop(lock);
    let told = own("gc");
    assert_eq!(told, "removed: 1 pulled base, 390.6 KiB\n");
    assert_eq!(there(), [false, true, false], "first what was replaced, then what was fetched longest ago");
    assert_eq!(own("gc"), "nothing to evict, and nothing to merge\n");
    let stash = Stash::open_patiently(&dir, &app).unwrap();
    assert_eq!(stash.portable().len(Kind::Module), 20);
}

/// Where a file says something that cannot be read, it may be that no limit holds.
fn refused_for_unsound_settings(sandbox: &Sandbox, dir: &Path) {
    fs::write(dir.join("config.toml"), "limit = \n").unwrap();
    let refused = output(sandbox.tool().arg("gc").arg("--dir").arg(dir));
    assert!(one_error_line(&refused).contains("nothing was evicted, because"), "{refused:?}");
    assert_eq!(refused.status.code(), Some(1));
    fs::remove_file(dir.join("config.toml")).unwrap();
}

#[test]
fn caches_of_sessions_count_against_the_limits_and_old_drivers_ones_go() {
    use std::time::SystemTime;
    use vkstash_sessions::description::{Adapter, Description, Guid, Mode, Place};
    use vkstash_sessions::session::Session;

    let sandbox = Sandbox::new();
    let dir = sandbox.path("stash");
    let app = AppName::new(Some(b"game"), b"/bin/game");
    drop(Stash::open_patiently(&dir, &app).unwrap());
    let place = Place::new(&dir, &app);
    let create = |number: u8, driver_versioned| {
        let description = Description {
            identifier: Guid([number; 16]),
            mode: Mode::Disk,
            driver_versioned,
            working_directory: false,
            maximum_in_memory_bytes: 0,
            maximum_in_memory_entries: 0,
            maximum_value_file_bytes: 0,
            version: 7,
        };
        let adapter = Adapter { adapter: vec![1], driver: vec![2] };
        let session = Session::create(&description, Some(&place), Some(&adapter)).unwrap();
        session.store(b"key", &noise(100_000)).unwrap();
        session
    };
    let sessions = dir.join(&app.folder).join("sessions");
    let there = || {
        let names = fs::read_dir(&sessions).unwrap().map(|entry| entry.unwrap().file_name());
        let values = names.filter(|name| name.to_str().unwrap().ends_with(".val"));
        let mut numbers: Vec<_> = values.map(|name| name.as_encoded_bytes()[1] - b'0').collect();
        numbers.sort_unstable();
        numbers
    };
    // As if they were used last so many days ago.
    let age = |days: u64| {
        for entry in fs::read_dir(&sessions).unwrap() {
            let file = fs::File::options().write(true).open(entry.unwrap().path()).unwrap();
            let now = file.metadata().unwrap().modified().unwrap();
            file.set_modified(now - Duration::from_secs(days * 24 * 60 * 60)).unwrap();
        }
    };
    drop((create(1, true), create(2, false)));
    age(1000);
    gc(&sandbox, &dir);
    assert_eq!(there(), [1, 2], "nothing was used since, so it may be the clock that has jumped");
    drop(create(3, true));
    refused_for_unsound_settings(&sandbox, &dir);
    assert_eq!(there(), [1, 2, 3]);
    assert_eq!(gc(&sandbox, &dir).lines().count(), 1);
    assert_eq!(there(), [2, 3], "only a driver-versioned one is too old");
    age(1);
    let open = create(4, false);
    age(1);
    drop(create(5, false));
    assert!(fs::metadata(&sessions).unwrap().modified().unwrap() <= SystemTime::now());
    // Room for two: the two that were used last would stay, but the one that is open counts, too.
    let limit = |limit: &str| {
        let set = output(sandbox.tool().args(["keep", "--limit", limit, "--force", "--dir"]).arg(&dir));
        assert!(set.status.success(), "{set:?}");
    };
    limit("250KiB");
    let told = gc(&sandbox, &dir);
    assert!(told.starts_with("removed: 2 session caches, "), "{told}");
    assert_eq!(there(), [4, 5]);
    limit("1KiB");
    gc(&sandbox, &dir);
    assert_eq!(there(), [4], "what a process has open stays");
    drop(open);
}
