//! Unfinished files of killed processes, and their removal.

use std::fs;
use std::fs::{File, FileTimes};
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use crate::format::file::PartIdentity;
use crate::segment::append::Appender;
use crate::segment::cleanup::clean_up;
use crate::tests::*;
use vkstash_host::disk::folder::Folder;

pub(super) const SEGMENT: &str = "0000000000000001-00000001-0000000000000001.vks";
const GUARD: &str = "00000001-0000000000000001.vkg";
pub(super) const OTHER: &str = ".tmp-1f-0123456789abcdef";

/// Makes the file so old that it counts as abandoned.
pub(crate) fn grow_old(path: &Path) {
    let long_ago = SystemTime::now() - Duration::from_secs(120);
    File::options().write(true).open(path).unwrap().set_modified(long_ago).unwrap();
}

fn make(path: &Path, content: &[u8]) -> PathBuf {
    fs::write(path, content).unwrap();
    path.to_owned()
}

/// Another process that checks the file holds its lock for a moment, and so does a forked child before its exec.
fn clean_up_until_gone(folder: &Folder, path: &Path) {
    let began = std::time::Instant::now();
    while path.exists() {
        assert!(began.elapsed() < LONG, "{} is left", path.display());
        clean_up(folder);
    }
}

#[test]
fn the_next_writer_removes_the_unfinished_files_of_dead_writers() {
    let root = root();
    let segment = filled(root.path(), 3);
    let folder = segment.parent().unwrap();
    let runs = folder.with_file_name("runs");
    drop(Folder::shared(&runs, true).unwrap());
    let temporary = |name: &str| format!(".tmp-{name}");
    let left = [
        make(&folder.join(SEGMENT), b""),
        make(&folder.join(GUARD), b""),
        make(&folder.join(temporary(SEGMENT)), b"some"),
        make(&folder.join(temporary(GUARD)), b""),
        make(&runs.join(OTHER), b"some"),
    ];
    left.iter().for_each(|path| grow_old(path));
    let stash = open(root.path());
    assert!(left.iter().all(|path| path.exists()), "who only reads changes nothing");
    stash.set_reporter(Box::new(|_| Default::default()));
    put_all(stash.portable(), Kind::Recipe, 3..6);
    drop(stash);
    left.iter().for_each(|path| assert!(!path.exists(), "{}", path.display()));
    let stash = open(root.path());
    assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..6), 6);
    assert!(stash.report().refused.is_empty());
}

#[test]
fn files_that_may_be_in_use_are_left_alone() {
    let root = root();
    let folder = Folder::root(root.path(), false).unwrap();
    let at = |name: &str| root.path().join(name);
    let segment = |number: u32| format!("{number:016x}-00000001-0000000000000001.vks");
    let temporary = |number: u32| format!(".tmp-{}", segment(number));
    // Young, or from the future.
    let young = make(&at(&temporary(1)), b"");
    let future = make(&at(&temporary(2)), b"");
    let times = FileTimes::new().set_modified(SystemTime::now() + Duration::from_secs(1000));
    File::options().write(true).open(&future).unwrap().set_times(times).unwrap();
    // Held by another descriptor, as by another process.
    let held = [make(&at(&temporary(3)), b""), make(&at(&segment(4)), b""), make(&at(OTHER), b"")];
    let locks = held.each_ref().map(|path| {
        grow_old(path);
        let file = File::open(path).unwrap();
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
        file
    });
    // Files with content, or with another name.
    let full = [make(&at(&segment(5)), b"x"), make(&at(&segment(6).replace("vks", "vkg")), b"")];
    let foreign =
        [".tmp-notes", "empty.vks", ".tmp-", "totals.vkt", ".lock", "0.vkg"].map(|name| make(&at(name), b""));
    foreign.iter().chain(&full).for_each(|path| grow_old(path));
    // No regular file, or a link to one elsewhere.
    let elsewhere = tempfile::NamedTempFile::new().unwrap();
    symlink(elsewhere.path(), at(&segment(7))).unwrap();
    symlink(elsewhere.path(), at(&temporary(8))).unwrap();
    fs::create_dir(at(&segment(9))).unwrap();

    clean_up(&folder);
    for path in [&young, &future].into_iter().chain(&held).chain(&full).chain(&foreign) {
        assert!(path.exists(), "{}", path.display());
    }
    assert!(elsewhere.path().exists() && at(&segment(7)).is_symlink() && at(&segment(9)).is_dir());
    if rustix::process::geteuid().is_root() {
        let other = make(&at(&segment(10)), b"");
        std::os::unix::fs::chown(&other, Some(65534), Some(65534)).unwrap();
        clean_up(&folder);
        assert!(other.exists(), "another user's file");
    }
    // The lock that was held until here is released.
    drop(locks);
    held.iter().for_each(|path| clean_up_until_gone(&folder, path));
}

/// Sets the flag when a test ends, also after a panic.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Between creation and lock a file looks abandoned to a process that reads a wrong age.
#[test]
fn the_file_of_a_living_writer_is_never_removed() {
    let root = root();
    let folder = Arc::new(Folder::root(root.path(), false).unwrap());
    let done = AtomicBool::new(false);
    let mut taken = 0;
    std::thread::scope(|scope| {
        let cleaners: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let folder = Folder::root(root.path(), false).unwrap();
                    let mut met = 0_u64;
                    while !done.load(Ordering::Relaxed) {
                        for name in folder.temporary_names().unwrap() {
                            // Files that are being created look old to it.
                            if let Ok(file) = File::options().write(true).open(root.path().join(&name)) {
                                let _ = file.set_modified(SystemTime::now() - Duration::from_secs(120));
                                met += 1;
                            }
                        }
                        clean_up(&folder);
                    }
                    met
                })
            })
            .collect();
        let stop = Stop(&done);
        let (mut age, mut made) = (0, 0);
        let began = std::time::Instant::now();
        while made < 150 {
            assert!(began.elapsed() < LONG, "{taken} writers could make no file, {made} could");
            age += 1;
            let identity = PartIdentity::Portable;
            // A writer that gives up its file too often says so, and its records are counted as dropped.
            let Ok(appender) = Appender::create(folder.clone(), identity, age) else {
                taken += 1;
                continue;
            };
            made += 1;
            let name = appender.segment().name().to_owned();
            std::thread::yield_now();
            let (fd, _) = folder.open_file(&name).unwrap();
            assert!(vkstash_host::disk::locks::is_locked(&fd), "{name} has no lock");
            drop(fd);
            assert!(root.path().join(&name).exists(), "{name} is gone");
            drop(appender);
            clean_up_until_gone(&folder, &root.path().join(&name));
        }
        drop(stop);
        let met: u64 = cleaners.into_iter().map(|cleaner| cleaner.join().unwrap()).sum();
        println!("{met} files met while they were made, {taken} of {age} writers stood back");
    });
}
