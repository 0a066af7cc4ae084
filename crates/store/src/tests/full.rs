//! A file system that is full.

use std::process::Command;

use crate::maintenance;
use crate::tests::processes::{FOLDER, child, folder_of_child};
use crate::tests::*;

/// Fills the disk. Says how many records are there.
fn fill(folder: &Path) -> u64 {
    let stash = open(folder);
    // Nothing that could be made smaller.
    let record = |number: u64| {
        let mut numbers = Numbers(number);
        (0..9000).map(|_| numbers.next() as u8).collect::<Box<[u8]>>()
    };
    for number in 0..200 {
        stash.portable().put(Kind::Module, &key(number), record(number));
    }
    stash.flush(LONG);
    let report = stash.report();
    assert!(!report.write_errors.is_empty(), "{report:?}");
    assert_eq!(report.written_records + report.dropped, 200, "{report:?}");
    drop(stash);
    let stash = open(folder);
    let (mut buffer, mut found) = (Vec::new(), 0);
    for number in 0..200 {
        let there = stash.portable().read(Kind::Module, &key(number), &mut buffer);
        assert!(!there || *buffer == *record(number), "wrong bytes for record {number}");
        found += u64::from(there);
    }
    assert_eq!(found, report.written_records, "{report:?}");
    assert_eq!(stash.report().damaged_records, 0);
    report.written_records
}

/// A file system of 1 MiB in a name space of its own, where the system lets users have those. Root of that name space
/// has no rights in the private home of another user, where this program may lie: a copy is started.
fn on_a_small_disk(test: &str, place: &Path) -> Command {
    let (program, folder) = (place.join("program"), place.join("disk"));
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    std::fs::create_dir(&folder).unwrap();
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs -o size=1m,mode=700 none \"$0\" && exec \"$@\"";
    command.args(["-Urm", "sh", "-c", script]).arg(&folder);
    let child = child(test);
    command.arg(program).args(child.get_args());
    command.envs(child.get_envs().filter_map(|(name, value)| Some((name, value?)))).env(FOLDER, folder);
    command
}

/// Some applications on a disk that others fill: nothing of theirs goes, unless the user's own limit says so.
fn others_fill(folder: &Path) {
    let applications = ["one", "two", "three"].map(|name| AppName::new(Some(name.as_bytes()), b"/bin/test"));
    let open = |app| Stash::open_patiently(folder, app).unwrap();
    for app in &applications {
        put_all(open(app).portable(), Kind::Module, 0..100);
    }
    let mut other = std::fs::File::create(folder.join("other")).unwrap();
    while std::io::Write::write(&mut other, &[1; 4096]).is_ok_and(|written| written > 0) {}
    let left = || applications.each_ref().map(|app| count_good(open(app).portable(), Kind::Module, 0..100));
    for app in &applications {
        // Looks for what is due, as a program does that is idle for a while.
        open(app);
        let outcome = maintenance::run(folder, |_, _| {}).unwrap();
        assert_eq!((outcome.evicted_records, outcome.short_by), (0, Default::default()));
        assert_eq!(left(), [100; 3]);
    }
    drop(other);
    std::fs::remove_file(folder.join("other")).unwrap();
    std::fs::write(folder.join("config.toml"), "limit = '40KiB'\n").unwrap();
    assert!(maintenance::run(folder, |_, _| {}).unwrap().evicted_records > 0);
}

#[test]
fn a_small_disk_that_is_full_costs_what_does_not_fit() {
    let test = "a_small_disk_that_is_full_costs_what_does_not_fit";
    if let Some(folder) = folder_of_child(test) {
        // As much as must stay free stays free.
        let written = fill(&folder);
        let space = rustix::fs::statvfs(&folder).unwrap();
        let (free, size) = (space.f_bavail * space.f_frsize, space.f_blocks * space.f_frsize);
        assert!(written > 90 && free > size / 50, "{written} records, {free} bytes of {size} are free");
        std::fs::remove_dir_all(folder.join(app().folder)).unwrap();
        // And where that is nothing, the disk is full.
        std::fs::write(folder.join("config.toml"), "free-space = \"none\"\n").unwrap();
        assert!(fill(&folder) > written);
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(&path)).unwrap();
        }
        others_fill(&folder);
        return;
    }
    let root = root();
    let mut probe = Command::new("unshare");
    probe.args(["-Urm", "sh", "-c", "mount -t tmpfs -o size=1m none \"$0\""]).arg(root.path());
    if !probe.status().is_ok_and(|status| status.success()) {
        // The limit of a file's length stands for it then: processes.rs.
        crate::skip::not_here(test, "no right to mount a file system");
        return;
    }
    assert!(on_a_small_disk(test, root.path()).status().unwrap().success());
}
