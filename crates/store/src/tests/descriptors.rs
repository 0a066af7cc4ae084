//! Programs that close descriptors which they did not open, and programs without standard streams.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::RawFd;

use crate::tests::processes::in_a_child;
use crate::tests::*;

/// The content of the program's own files.
const OWN: &[u8] = b"the program's own";

/// The numbers of this process's descriptors, each with its file.
fn descriptors() -> BTreeMap<RawFd, PathBuf> {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    let entries = entries.filter_map(|entry| {
        let path = entry.unwrap().path();
        let number = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
        Some((number, std::fs::read_link(path).ok()?))
    });
    // Without the descriptor of the list itself, which is closed by now.
    entries.filter(|(number, _)| is_open(*number)).collect()
}

fn is_open(number: RawFd) -> bool {
    // SAFETY: F_GETFD takes no argument, and any number may be asked for, whether it is open or not.
    unsafe { libc::fcntl(number, libc::F_GETFD) >= 0 }
}

/// Opens a file of the program's at the lowest free number.
fn open_own(path: &Path, flags: libc::c_int) -> RawFd {
    let path = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: `path` is a C string that lives during the call; the descriptor is left open until the process ends.
    let number = unsafe { libc::open(path.as_ptr(), flags) };
    assert!(number >= 0);
    number
}

fn stash_of(process: &Path) -> Vec<(RawFd, PathBuf)> {
    descriptors().into_iter().filter(|(_, path)| path.starts_with(process)).collect()
}

/// A stash with every kind of file open: two parts, in each a segment that is being written and sealed ones, and a
/// guard file.
fn busy(root: &Path) -> (Arc<Stash>, Arc<Part>) {
    for number in 0..3 {
        let stash = open(root);
        put_all(stash.portable(), Kind::Recipe, number * 10..number * 10 + 10);
        put_all(&stash.device(&header()).unwrap(), Kind::Artifact, number * 10..number * 10 + 10);
    }
    let stash = open(root);
    let device = stash.device(&header()).unwrap();
    put_all(stash.portable(), Kind::Recipe, 100..110);
    put_all(&device, Kind::Artifact, 100..110);
    assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..30), 30);
    assert_eq!(count_good(&device, Kind::Artifact, 0..30), 30);
    drop(device.admit(&key(1)));
    note_use(&stash, &key(1));
    assert!(stash.flush(LONG));
    // The helper and the threads that open parts have descriptors for a moment, which a daemon closes under them.
    while threads().iter().any(|name| name.contains("vkstash-open") || name.contains("vkstash-helper")) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    (stash, device)
}

/// The names of this process's threads.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name =
        |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks.flatten().map(name).collect()
}

/// Closes all descriptors that the program did not open, opens `own` at each of these numbers, and goes on as before.
fn goes_on_with_its_own(own: impl Fn(&Path, usize) -> RawFd) {
    let (root, elsewhere) = (root(), root());
    let (stash, device) = busy(root.path());
    let before = stash_of(root.path());
    assert!(before.len() >= 6, "{before:?}");
    let last = before.last().unwrap().0;
    // SAFETY: close takes a number. The descriptors are the stash's, which must bear that, as with a daemon that closes
    // all; nothing of the harness has a descriptor that it needs until this process ends.
    (3..=last).for_each(|number| _ = unsafe { libc::close(number) });
    let mut taken = Vec::new();
    while taken.last().is_none_or(|taken| *taken < last) {
        taken.push(own(elsewhere.path(), taken.len()));
    }
    let owned = descriptors();

    stash.portable().put(Kind::Recipe, &key(200), payload(200));
    device.put(Kind::Artifact, &key(200), payload(200));
    drop(device.admit(&key(2)));
    note_use(&stash, &key(2));
    stash.touch();
    stash.flush(LONG);
    // All bytes that are read are right.
    count_good(stash.portable(), Kind::Recipe, 0..110);
    count_good(&device, Kind::Artifact, 0..110);
    let errors = stash.report().write_errors;
    assert!(errors.contains_key("descriptor closed by the program"), "{errors:?}");
    drop((device, stash));

    let now = descriptors();
    for number in taken {
        assert_eq!(now.get(&number), owned.get(&number), "{number}");
        // SAFETY: lseek by 0 from the current place takes numbers alone and moves nothing.
        let place = unsafe { libc::lseek(number, 0, libc::SEEK_CUR) };
        assert_eq!(place, 0, "{number}");
    }
    for entry in std::fs::read_dir(elsewhere.path()).unwrap() {
        let path = entry.unwrap().path();
        let again = std::fs::File::open(&path).unwrap();
        rustix::fs::flock(&again, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
        if path.is_dir() {
            assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0, "{}", path.display());
        } else {
            assert_eq!(std::fs::read(&path).unwrap(), OWN, "{}", path.display());
        }
    }
    // The next process reads what was recorded before.
    let stash = open(root.path());
    assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..30), 30);
    assert_eq!(count_good(stash.portable(), Kind::Recipe, 100..110), 10);
    assert_eq!(stash.report().damaged_records, 0);
}

#[test]
fn files_of_a_program_that_closed_our_descriptors_are_not_changed() {
    in_a_child("files_of_a_program_that_closed_our_descriptors_are_not_changed", &[], || {
        goes_on_with_its_own(|folder, number| {
            let path = folder.join(number.to_string());
            std::fs::write(&path, OWN).unwrap();
            open_own(&path, libc::O_RDWR)
        });
    });
}

#[test]
fn folders_of_a_program_that_closed_our_descriptors_are_not_changed() {
    in_a_child("folders_of_a_program_that_closed_our_descriptors_are_not_changed", &[], || {
        goes_on_with_its_own(|folder, number| {
            let path = folder.join(number.to_string());
            std::fs::create_dir(&path).unwrap();
            open_own(&path, libc::O_RDONLY | libc::O_DIRECTORY)
        });
    });
}

#[test]
fn a_program_that_closed_our_descriptors_and_opened_nothing_goes_on() {
    in_a_child("a_program_that_closed_our_descriptors_and_opened_nothing_goes_on", &[], || {
        let root = root();
        let (stash, device) = busy(root.path());
        for (number, _) in stash_of(root.path()) {
            // SAFETY: close takes a number. The descriptor is the stash's, which must bear that a daemon closes it.
            unsafe { libc::close(number) };
        }
        put_all(stash.portable(), Kind::Recipe, 200..201);
        stash.flush(LONG);
        assert!(!stash.report().write_errors.is_empty());
        drop((device, stash));
        assert_eq!(count_good(open(root.path()).portable(), Kind::Recipe, 0..30), 30);
    });
}

#[test]
fn no_descriptor_of_ours_has_the_number_of_a_standard_stream() {
    in_a_child("no_descriptor_of_ours_has_the_number_of_a_standard_stream", &[], || {
        let root = root();
        let moved = [0, 1, 2].map(|number| {
            // SAFETY: F_DUPFD_CLOEXEC takes numbers alone: it copies a standard stream, which is put back below.
            let moved = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 100) };
            assert!(moved >= 100);
            // SAFETY: close takes a number, here that of a standard stream, which nothing uses until it is put back
            // below.
            unsafe { libc::close(number) };
            moved
        });
        let (stash, device) = busy(root.path());
        let taken: Vec<_> = stash_of(root.path()).into_iter().filter(|(number, _)| *number < 3).collect();
        drop((device, stash));
        let left: Vec<_> = (0..3).filter(|&number| is_open(number)).collect();
        for (number, moved) in moved.into_iter().enumerate() {
            // SAFETY: `moved` is the copy of the standard stream from above; dup2 puts it back at its number.
            unsafe { libc::dup2(moved, number as RawFd) };
        }
        assert!(taken.is_empty() && left.is_empty(), "{taken:?} {left:?}");
    });
}
