//! Several processes, and forked children.

use std::fs;
use std::sync::atomic::Ordering;

use crate::clock::STOPPED;
use crate::disk::names::open_lock;
use crate::disk::open::{Wanted, cache_hash, open_behind};
use crate::error::Other as OpenOther;
use crate::locks::{self, Byte, Kind};
use crate::patience;
use crate::tests::*;

#[test]
fn processes_see_at_once_what_others_store() {
    let test = "processes_see_at_once_what_others_store";
    let count = 400;
    if let Some(root) = folder_of_child(test) {
        let session = open(&root);
        let first: u64 = std::env::var("FIRST").unwrap().parse().unwrap();
        for number in first..first + count {
            patiently(|| session.store(&key(number), &value(number)));
            assert_eq!(get(&session, &key(number)).unwrap(), value(number));
        }
        // Exactly one of all processes may store each of these.
        let won = (0..100u64).filter(|number| {
            patiently(|| match session.store(&key(number + (1 << 40)), b"first") {
                Ok(()) => Ok(true),
                Err(Error::AlreadyExists) => Ok(false),
                Err(error) => Err(error),
            })
        });
        fs::write(root.join(format!("won-{first}")), won.count().to_string()).unwrap();
        return;
    }
    let root = root();
    let session = open(root.path());
    let firsts = [0, 10_000, 20_000, 30_000];
    let start = |first: &u64| child(test, root.path()).env("FIRST", first.to_string()).spawn().unwrap();
    let mut children: Vec<_> = firsts.iter().map(start).collect();
    assert!(children.iter_mut().all(|child| child.wait().unwrap().success()));
    for number in firsts.iter().flat_map(|first| *first..first + count) {
        assert_eq!(get(&session, &key(number)).unwrap(), value(number), "{number}");
    }
    let won =
        |first| fs::read_to_string(root.path().join(format!("won-{first}"))).unwrap().parse::<u64>().unwrap();
    assert_eq!(firsts.iter().map(won).sum::<u64>(), 100);
}

#[test]
fn another_version_waits_for_other_processes_to_go() {
    let test = "another_version_waits_for_other_processes_to_go";
    if let Some(root) = folder_of_child(test) {
        let session = open(&root);
        session.store(b"key", b"value").unwrap();
        return Other::wait(&root);
    }
    let root = root();
    let second = Description { version: 2, ..disk() };
    let other = Other::start(test, root.path());
    let answer = create(root.path(), &second);
    assert!(matches!(answer, Err(Error::OpenWithOther(OpenOther::Version))));
    assert_eq!(get(&open(root.path()), b"key").unwrap(), b"value", "nothing is lost by that");
    other.end();
    assert!(matches!(create(root.path(), &second).unwrap().find(b"key", None), Err(Error::NotFound)));
    // A process that was killed has nothing open.
    let other = Other::start(test, root.path());
    assert!(create(root.path(), &second).is_err());
    other.kill();
    create(root.path(), &second).unwrap();
}

#[test]
fn of_two_versions_only_one_is_open_at_any_time() {
    let test = "of_two_versions_only_one_is_open_at_any_time";
    if let Some(root) = folder_of_child(test) {
        let version: u64 = std::env::var("FIRST").unwrap().parse().unwrap();
        let description = Description { version, ..disk() };
        let mut opened = 0;
        for round in 0..150u64 {
            match create(&root, &description) {
                Ok(session) => {
                    // While it is open, nobody wipes it.
                    let key = key(u64::from(std::process::id()) << 20 | round);
                    patiently(|| session.store(&key, b"mine"));
                    std::thread::yield_now();
                    assert_eq!(get_from(&fresh(&root, version), &key).unwrap(), b"mine");
                    opened += 1;
                }
                Err(Error::OpenWithOther(OpenOther::Version) | Error::NotCurrentlyAvailable(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        fs::write(root.join(format!("opened-{}", std::process::id())), opened.to_string()).unwrap();
        return;
    }
    let root = root();
    let start = |version: &&str| child(test, root.path()).env("FIRST", version).spawn().unwrap();
    let mut children: Vec<_> = ["1", "1", "2", "2"].iter().map(start).collect();
    assert!(children.iter_mut().all(|child| child.wait().unwrap().success()));
    let opened = |child: &std::process::Child| {
        fs::read_to_string(root.path().join(format!("opened-{}", child.id())))
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    // How often depends on how the processes take turns.
    assert!(children.iter().map(opened).sum::<u64>() > 0);
}

/// Another process opens the cache between this one's creation of the lock file and its turn to open.
#[test]
fn whoever_has_created_the_lock_file_deletes_it_only_alone() {
    let root = root();
    let folder = Folder::root(&folder(root.path()), true).unwrap();
    let names = Names::of(&GUID.text());
    let second = Identity { identifier: GUID.0, version: 2, driver: [0; 32], number: 0 };
    let wanted = Wanted {
        folder: &folder,
        names: &names,
        identity: &second,
        versions: Versions::Own,
        is_stash: false,
    };
    let (lock, is_new) = open_lock(&folder, &names.lock).unwrap().unwrap();
    assert!(is_new);
    let first = files(root.path()).unwrap();
    let answer = open_behind(&wanted, lock, is_new).map(|_| ());
    assert!(matches!(answer, Err(Error::OpenWithOther(OpenOther::Version))));
    // The next one finds the lock of the first.
    let answer = create(root.path(), &Description { version: 2, ..disk() }).map(|_| ());
    assert!(matches!(answer, Err(Error::OpenWithOther(OpenOther::Version))));
    drop(first);
}

/// The files, opened apart from the session of this process.
fn fresh(root: &Path, version: u64) -> Files {
    let folder = Folder::root(&folder(root), false).unwrap();
    let identity = Identity { identifier: GUID.0, version, driver: [0; 32], number: 0 };
    let location = || Location::Working(Folder::root(folder.path(), false).unwrap());
    patiently(|| Files::open(location(), Names::of(&GUID.text()), identity, Versions::Own))
}

#[test]
fn the_last_process_deletes_what_another_one_was_told_to_delete() {
    let test = "the_last_process_deletes_what_another_one_was_told_to_delete";
    if let Some(root) = folder_of_child(test) {
        let session = open(&root);
        session.store(b"key", b"value").unwrap();
        return Other::wait(&root);
    }
    let root = root();
    let count = || fs::read_dir(folder(root.path())).unwrap().count();
    let other = Other::start(test, root.path());
    let session = open(root.path());
    session.set_delete_on_destroy();
    drop(session);
    assert_eq!(count(), 3, "another process has it open");
    assert_eq!(get(&open(root.path()), b"key").unwrap(), b"value");
    other.end();
    assert_eq!(count(), 0);
    // If the last one was killed, the next one that opens the cache finds nothing.
    let other = Other::start(test, root.path());
    let session = open(root.path());
    session.set_delete_on_destroy();
    drop(session);
    other.kill();
    let session = open(root.path());
    assert!(matches!(session.find(b"key", None), Err(Error::NotFound)));
    drop(session);
    assert_eq!(count(), 3, "the new one stays");
}

#[test]
fn opening_a_cache_while_others_clear_it_and_let_it_grow_loses_nothing() {
    let root = root();
    let first = files(root.path()).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    drop(patiently(|| files(root.path())));
                }
            });
        }
        // Also after a failure.
        let _end = End(&done);
        for round in 0..100u64 {
            patiently(|| first.clear());
            patiently(|| store_in(&first, &key(round), b"value"));
            let other = patiently(|| files(root.path()));
            assert_eq!(get_from(&other, &key(round)).unwrap(), b"value", "round {round}");
            patiently(|| store_in(&other, &key(round + (1 << 40)), b"other"));
            assert_eq!(get_from(&first, &key(round + (1 << 40))).unwrap(), b"other", "round {round}");
        }
    });
}

struct End<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_process_that_stands_still_keeps_nobody_waiting_for_long() {
    let root = root();
    let session = open(root.path());
    session.store(b"key", b"value").unwrap();
    let lock = Folder::root(&folder(root.path()), false)
        .unwrap()
        .open_to_seal(&format!("{}.lock", GUID.text()))
        .unwrap();
    assert!(locks::set(&lock, Byte::Writing, Kind::Exclusive).unwrap());
    assert!(matches!(session.store(b"other", b"value"), Err(Error::NotCurrentlyAvailable(_))));
    assert_eq!(get(&session, b"key").unwrap(), b"value");
    assert!(matches!(session.find(b"other", None), Err(Error::NotFound)));
    assert!(locks::set(&lock, Byte::Writing, Kind::Free).unwrap());
    session.store(b"other", b"value").unwrap();
    drop(session);
    assert!(locks::set(&lock, Byte::Opening, Kind::Exclusive).unwrap());
    assert!(matches!(create(root.path(), &disk()), Err(Error::NotCurrentlyAvailable(_))));
    drop(lock);
    assert_eq!(get(&open(root.path()), b"other").unwrap(), b"value");
}

/// In a process of its own, with a stopped clock: the time without waiting after a wait in vain ends only when this
/// test says so, and caches of other tests do not share its entry of [`patience`].
#[test]
fn of_many_calls_behind_another_process_few_wait() {
    let test = "of_many_calls_behind_another_process_few_wait";
    let Some(root) = folder_of_child(test) else {
        let root = root();
        assert!(child(test, root.path()).status().unwrap().success());
        return;
    };
    let mut session = Some(open(&root));
    let folder = Folder::root(&folder(&root), false).unwrap();
    let names = Names::of(&GUID.text());
    let cache = cache_hash(&folder, &names).unwrap();
    let lock = folder.open_to_seal(&names.lock).unwrap();
    STOPPED.store(1_000_000, Ordering::SeqCst);
    for byte in [Byte::Writing, Byte::Opening] {
        let patience = match byte {
            Byte::Writing => patience::writing(cache),
            _ => patience::opening(cache),
        };
        let waits = || patience.in_vain.load(Ordering::SeqCst);
        assert!(locks::set(&lock, byte, Kind::Exclusive).unwrap());
        let call = |number| match &session {
            Some(session) => session.store(&key(number), &value(number)),
            None => create(&root, &disk()).map(drop),
        };
        let calls = || {
            std::thread::scope(|scope| {
                for thread in 0..32 {
                    scope.spawn(move || {
                        for round in 0..5 {
                            let answer = call(thread * 5 + round);
                            assert!(matches!(answer, Err(Error::NotCurrentlyAvailable(_))), "{answer:?}");
                        }
                    });
                }
            });
        };
        // The times without waiting, in milliseconds. All of 160 calls come within one.
        for (expected, pause) in [100, 200, 400].into_iter().enumerate() {
            let expected = expected as u64;
            assert_eq!(waits(), expected, "{byte:?}");
            calls();
            assert_eq!(waits(), expected + 1, "{byte:?}: one of all threads waits");
            STOPPED.fetch_add(pause - 1, Ordering::SeqCst);
            calls();
            assert_eq!(waits(), expected + 1, "{byte:?}: nobody waits for {pause} ms");
            STOPPED.fetch_add(1, Ordering::SeqCst);
        }
        assert!(locks::set(&lock, byte, Kind::Free).unwrap());
        match &session {
            Some(session) => session.store(b"key", b"value").unwrap(),
            None => drop(create(&root, &disk()).unwrap()),
        }
        // The next round opens the cache.
        session = None;
    }
}

#[test]
fn a_forked_child_has_no_session_of_its_parents_but_may_have_its_own() {
    let root = root();
    let session = open(root.path());
    session.store(b"key", b"value").unwrap();
    session.set_delete_on_destroy();
    let status = forked(|| {
        let refuses = |result: Result<usize, Error>| matches!(result, Err(Error::NotCurrentlyAvailable(_)));
        let refused =
            refuses(session.find(b"key", None)) && refuses(session.store(b"child", b"value").map(|()| 0));
        // SAFETY: the parent's session is dropped in the child, as an exit of the program would; nothing uses it again.
        drop(unsafe { std::ptr::read(&session) });
        let own = create(root.path(), &disk());
        let found = own.as_ref().is_ok_and(|own| get(own, b"key").is_ok_and(|value| value == b"value"));
        let stored = own.is_ok_and(|own| own.store(b"child's own", b"value").is_ok());
        i32::from(!refused) + 2 * i32::from(!found) + 4 * i32::from(!stored)
    });
    assert_eq!(status, 0);
    assert_eq!(get(&session, b"key").unwrap(), b"value");
    assert_eq!(get(&session, b"child's own").unwrap(), b"value");
    drop(session);
    assert_eq!(fs::read_dir(folder(root.path())).unwrap().count(), 0);
}
