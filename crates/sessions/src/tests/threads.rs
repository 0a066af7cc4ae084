//! Many threads on one cache.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::tests::*;

#[test]
fn eight_threads_store_and_find_as_one() {
    for mode in [Mode::Disk, Mode::Memory] {
        let root = root();
        let description =
            Description { mode, maximum_in_memory_bytes: 1 << 20, maximum_in_memory_entries: 4000, ..disk() };
        let session = create(root.path(), &description).unwrap();
        let stored = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..8u64 {
                let (session, stored) = (&session, &stored);
                scope.spawn(move || {
                    for number in 0..200u64 {
                        // Each is offered by two threads.
                        let number = number + thread / 2 * 200;
                        match session.store(&key(number), &value(number)) {
                            Ok(()) => _ = stored.fetch_add(1, Ordering::Relaxed),
                            Err(Error::AlreadyExists) => {}
                            Err(error) => panic!("{error}"),
                        }
                        for before in [number, number / 2, 0] {
                            match get(session, &key(before)) {
                                Ok(found) => assert_eq!(found, value(before)),
                                Err(Error::NotFound) => assert_ne!(before, number),
                                Err(error) => panic!("{error}"),
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(stored.into_inner(), 800, "each by one thread");
        (0..800).for_each(|number| assert_eq!(get(&session, &key(number)).unwrap(), value(number)));
    }
}

#[test]
fn sessions_may_be_destroyed_while_others_find() {
    let root = root();
    open(root.path()).store(b"key", b"value").unwrap();
    let session = open(root.path());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    match session.find(b"key", Some(&mut [0; 5])) {
                        Ok(length) => assert_eq!(length, 5),
                        Err(Error::NotCurrentlyAvailable(_)) => break,
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        session.destroy();
        // Nobody has the cache open any more, whatever the threads do.
        create(root.path(), &Description { version: 2, ..disk() }).unwrap();
    });
}

#[test]
fn creating_and_destroying_in_many_threads_leaves_one_cache() {
    let root = root();
    open(root.path()).store(b"key", b"value").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                (0..50).for_each(|_| assert_eq!(get(&open(root.path()), b"key").unwrap(), b"value"))
            });
        }
    });
}

/// How many descriptors of this process are files of the caches below `root`.
fn descriptors(root: &Path) -> usize {
    let open =
        std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
    open.filter(|target| target.starts_with(root)).count()
}

/// A thread that has left its call, or that has ended, keeps nothing open, whatever other threads are doing.
#[test]
fn a_destroyed_session_leaves_no_descriptor_behind() {
    let root = root();
    let busy = create(root.path(), &Description { identifier: Guid([9; 16]), ..disk() }).unwrap();
    let before = descriptors(root.path());
    assert!(before >= 3, "the files of the first session");
    std::thread::scope(|scope| {
        for thread in 0..6u8 {
            let root = &root;
            scope.spawn(move || {
                for round in 0..20u8 {
                    let description = Description { identifier: Guid([thread + 10; 16]), ..disk() };
                    let session = create(root.path(), &description).unwrap();
                    session.store(&[round], b"value").unwrap();
                    session.destroy();
                    // Kept by the program, as the C API may do for a call that is still going on.
                    std::mem::forget(session);
                }
            });
        }
    });
    assert_eq!(descriptors(root.path()), before);
    drop(busy);
    assert_eq!(descriptors(root.path()), 0);
}
