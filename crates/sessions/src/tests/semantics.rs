//! Tests of the D3D12 specification's semantics, sentence by sentence.

use crate::error::Other;
use crate::tests::*;

#[test]
fn a_value_is_found_in_two_calls() {
    let root = root();
    let session = open(root.path());
    assert!(matches!(session.find(b"key", None), Err(Error::NotFound)));
    session.store(b"key", b"value").unwrap();
    for _ in 0..2 {
        assert_eq!(session.find(b"key", None).unwrap(), 5);
        let mut short = [1; 4];
        let answer = session.find(b"key", Some(&mut short));
        assert!(matches!(answer, Err(Error::BufferTooSmall { needed: 5 })) && short == [1; 4]);
        let mut long = [1; 7];
        assert_eq!(session.find(b"key", Some(&mut long)).unwrap(), 5);
        assert_eq!(&long, b"value\x01\x01", "not a byte more");
        assert!(matches!(session.find(b"Key", None), Err(Error::NotFound)));
    }
    assert!(matches!(session.store(b"key", b"other"), Err(Error::AlreadyExists)));
    assert_eq!(get(&session, b"key").unwrap(), b"value");
}

#[test]
fn values_outlast_the_session_and_large_ones_the_memory() {
    let root = root();
    let large = vec![3; 300_000];
    let session = open(root.path());
    session.store(b"large", &large).unwrap();
    for number in 0..500 {
        session.store(&key(number), &value(number)).unwrap();
    }
    drop(session);
    let session = open(root.path());
    assert!(matches!(
        session.find(b"large", Some(&mut [0; 10])),
        Err(Error::BufferTooSmall { needed: 300_000 })
    ));
    assert_eq!(get(&session, b"large").unwrap(), large);
    for number in 0..500 {
        assert_eq!(get(&session, &key(number)).unwrap(), value(number));
        assert!(matches!(session.store(&key(number), b"x"), Err(Error::AlreadyExists)));
    }
}

#[test]
fn arguments_that_no_cache_accepts_are_refused_before_a_byte_is_read() {
    let root = root();
    let memory = Description { mode: Mode::Memory, identifier: Guid([8; 16]), ..disk() };
    for description in [disk(), memory] {
        let session = create(root.path(), &description).unwrap();
        assert!(matches!(session.find(b"", None), Err(Error::InvalidArgument(_))));
        assert!(matches!(session.store(b"", b"x"), Err(Error::InvalidArgument(_))));
        assert!(matches!(session.store(b"x", b""), Err(Error::InvalidArgument(_))));
        assert!(matches!(session.find(&vec![0; (16 << 20) + 1], None), Err(Error::InvalidArgument(_))));
        let huge = [u32::MAX as usize, usize::MAX];
        for huge in huge {
            assert!(matches!(session.check_lengths(huge, None), Err(Error::InvalidArgument(_))));
            assert!(matches!(session.check_lengths(1, Some(huge)), Err(Error::CacheFull)));
        }
        assert!(matches!(session.check_lengths(1, Some(0)), Err(Error::InvalidArgument(_))));
        session.check_lengths(1, Some(1)).unwrap();
    }
}

#[test]
fn the_same_identifier_is_the_same_cache() {
    let root = root();
    let (one, two) = (open(root.path()), open(root.path()));
    one.store(b"key", b"value").unwrap();
    assert_eq!(get(&two, b"key").unwrap(), b"value");
    let other = create(root.path(), &Description { identifier: Guid([9; 16]), ..disk() }).unwrap();
    assert!(matches!(other.find(b"key", None), Err(Error::NotFound)));
    drop(one);
    assert_eq!(get(&two, b"key").unwrap(), b"value");

    let with = |change: fn(&mut Description)| {
        let mut description = disk();
        change(&mut description);
        Session::create(&description, Some(&place(root.path())), Some(&adapter("a", "1"))).err()
    };
    let is =
        |error: Option<Error>, other| matches!(error, Some(Error::OpenWithOther(found)) if found == other);
    assert!(is(with(|description| description.mode = Mode::Memory), Other::Mode));
    assert!(is(with(|description| description.working_directory = true), Other::Flags));
    assert!(is(with(|description| description.driver_versioned = true), Other::Flags));
    assert!(is(with(|description| description.version = 2), Other::Version));
    let smaller = Description { maximum_in_memory_bytes: 99, ..disk() };
    assert_eq!(create(root.path(), &smaller).unwrap().description(), &smaller);
}

/// A process has one cache with an identifier, whatever it calls itself.
#[test]
fn the_name_of_the_application_makes_no_second_cache() {
    for mode in [Mode::Disk, Mode::Memory] {
        let root = root();
        let named = |name: &[u8]| {
            let place = Place::new(root.path(), &AppName::new(Some(name), b"/bin/test"));
            Session::create(&Description { mode, ..disk() }, Some(&place), None).unwrap()
        };
        let (one, two) = (named(b"one"), named(b"two"));
        one.store(b"key", b"value").unwrap();
        assert_eq!(get(&two, b"key").unwrap(), b"value");
        drop(one);
        assert_eq!(get(&two, b"key").unwrap(), b"value");
        assert_eq!(get(&named(b"three"), b"key").unwrap(), b"value");
    }
}

/// [`Session::description`] says what a session may rely on.
#[test]
fn of_several_sessions_the_largest_limits_count() {
    for mode in [Mode::Disk, Mode::Memory] {
        let root = root();
        let with = |bytes, entries, file| {
            let description = Description {
                mode,
                maximum_in_memory_bytes: bytes,
                maximum_in_memory_entries: entries,
                maximum_value_file_bytes: file,
                ..disk()
            };
            create(root.path(), &description).unwrap()
        };
        let first = with(40, 2, 400);
        first.store(b"key", &[1; 30]).unwrap();
        let is_full = |key: &[u8], length| {
            matches!(first.store(key, &vec![1; length]), Err(Error::CacheFull))
                && (length < 400
                    || matches!(first.check_lengths(key.len(), Some(length)), Err(Error::CacheFull)))
        };
        assert!(is_full(b"large", 400));
        let larger = with(1000, 100, 1000);
        first.store(b"large", &[1; 400]).unwrap();
        assert_eq!(get(&larger, b"large").unwrap(), [1; 400]);
        // A maximum that was raised stays so, whatever other sessions ask for and whichever session ends.
        drop((with(10, 1, 10), larger));
        first.store(b"other", &[1; 100]).unwrap();
        assert!(is_full(b"last", 1000));
    }
}

#[test]
fn another_version_wipes_a_cache_that_nobody_has_open() {
    let root = root();
    open(root.path()).store(b"key", b"value").unwrap();
    let second = Description { version: 2, ..disk() };
    let session = create(root.path(), &second).unwrap();
    assert!(matches!(session.find(b"key", None), Err(Error::NotFound)));
    session.store(b"key", b"second").unwrap();
    drop(session);
    assert_eq!(get(&create(root.path(), &second).unwrap(), b"key").unwrap(), b"second");
}

#[test]
fn each_adapter_has_a_cache_and_another_driver_wipes_it() {
    let root = root();
    let description = Description { driver_versioned: true, ..disk() };
    let on = |name: &str, driver: &str| {
        Session::create(&description, Some(&place(root.path())), Some(&adapter(name, driver)))
    };
    let (one, two) = (on("one", "1").unwrap(), on("two", "1").unwrap());
    one.store(b"key", b"one").unwrap();
    two.store(b"key", b"two").unwrap();
    assert!(matches!(on("one", "2"), Err(Error::OpenWithOther(Other::Version))));
    drop((one, two));
    assert_eq!(get(&on("one", "1").unwrap(), b"key").unwrap(), b"one");
    assert!(matches!(on("one", "2").unwrap().find(b"key", None), Err(Error::NotFound)));
    assert_eq!(get(&on("two", "1").unwrap(), b"key").unwrap(), b"two");
    assert!(
        matches!(create(root.path(), &description), Err(Error::InvalidArgument(_))),
        "without an adapter"
    );
    let newer = Description { version: 9, ..description.clone() };
    let newer = Session::create(&newer, Some(&place(root.path())), Some(&adapter("two", "1"))).unwrap();
    assert!(matches!(newer.find(b"key", None), Err(Error::NotFound)), "the version counts too");
}

#[test]
fn a_cache_in_memory_has_no_files_and_ends_with_its_last_session() {
    let root = root();
    let memory = Description { mode: Mode::Memory, ..disk() };
    let one = Session::create(&memory, None, None).unwrap();
    let two = Session::create(&memory, None, None).unwrap();
    one.store(b"key", b"value").unwrap();
    assert!(matches!(one.store(b"key", b"value"), Err(Error::AlreadyExists)));
    assert!(matches!(one.store(b"long", &[0; 1021]), Err(Error::CacheFull)), "1 KB unless more is asked for");
    drop(one);
    assert_eq!(get(&two, b"key").unwrap(), b"value");
    drop(two);
    let again = Session::create(&memory, None, None).unwrap();
    assert!(matches!(again.find(b"key", None), Err(Error::NotFound)));
    for number in 0..128u8 {
        again.store(&[number], b"x").unwrap();
    }
    assert!(matches!(again.store(b"one too many", b"x"), Err(Error::CacheFull)));
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn a_value_file_never_grows_beyond_its_maximum() {
    let root = root();
    let session = create(root.path(), &Description { maximum_value_file_bytes: 1020, ..disk() }).unwrap();
    let mut number = 0;
    let full = loop {
        match session.store(&key(number), &[1; 50]) {
            Ok(()) => number += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, Error::CacheFull));
    let length = || std::fs::metadata(path(root.path(), "val")).unwrap().len();
    assert!(number > 5 && length() <= 1020 && length() + 98 > 1020, "{number} entries, {} bytes", length());
    let rest = 1020 - length().next_multiple_of(8) - 32 - 16;
    assert!(matches!(session.store(&key(number), &vec![1; rest as usize + 1]), Err(Error::CacheFull)));
    session.store(&key(number), &vec![1; rest as usize]).unwrap();
    assert_eq!(length(), 1020, "to the last byte");
    (0..number).for_each(|number| assert_eq!(get(&session, &key(number)).unwrap(), [1; 50]));
}

#[test]
fn another_key_with_the_same_hash_is_a_collision() {
    fn all_alike(_: &[u8]) -> u64 {
        77
    }
    fn by_length(key: &[u8]) -> u64 {
        key.len() as u64
    }
    for (hash, mode) in
        [(all_alike as fn(&[u8]) -> u64, Mode::Disk), (by_length, Mode::Disk), (by_length, Mode::Memory)]
    {
        let root = root();
        let description = Description { mode, maximum_in_memory_bytes: 4, ..disk() };
        let open = || Session::create_with(&description, Some(&place(root.path())), None, hash).unwrap();
        let session = open();
        session.store(b"a", b"one").unwrap();
        for session in [&session, &open()] {
            assert!(matches!(session.find(b"b", None), Err(Error::HashCollision)));
            assert!(matches!(session.find(b"b", Some(&mut [0; 9])), Err(Error::HashCollision)));
            assert!(matches!(session.store(b"b", b"two"), Err(Error::HashCollision)));
            assert_eq!(get(session, b"a").unwrap(), b"one");
        }
        drop(session);
        if mode == Mode::Disk {
            let session = open();
            // From disk: without a buffer, too.
            assert!(matches!(session.find(b"b", None), Err(Error::HashCollision)));
            assert!(matches!(session.store(b"b", b"two"), Err(Error::HashCollision)));
            assert_eq!(get(&session, b"a").unwrap(), b"one");
        }
    }
}

#[test]
fn files_are_deleted_when_the_last_session_that_was_told_so_is_gone() {
    let root = root();
    let (one, two) = (open(root.path()), open(root.path()));
    one.store(b"key", b"value").unwrap();
    two.set_delete_on_destroy();
    drop(two);
    assert_eq!(get(&one, b"key").unwrap(), b"value");
    drop(one);
    assert_eq!(std::fs::read_dir(folder(root.path())).unwrap().count(), 0);
    assert!(matches!(open(root.path()).find(b"key", None), Err(Error::NotFound)));
}

#[test]
fn a_destroyed_session_answers_so_and_destroying_it_twice_is_harmless() {
    let root = root();
    let (one, two) = (open(root.path()), open(root.path()));
    one.store(b"key", b"value").unwrap();
    one.destroy();
    one.destroy();
    assert!(matches!(one.find(b"key", None), Err(Error::NotCurrentlyAvailable(_))));
    assert!(matches!(one.store(b"other", b"value"), Err(Error::NotCurrentlyAvailable(_))));
    drop(one);
    assert_eq!(get(&two, b"key").unwrap(), b"value");
}

#[test]
fn a_cache_grows_beyond_its_first_index_while_others_have_it_open() {
    let root = root();
    let session = open(root.path());
    let other = files(root.path()).unwrap();
    let before = std::fs::metadata(path(root.path(), "idx")).unwrap().len();
    let count = 24_000_i32;
    for number in 0..count {
        session.store(&number.to_le_bytes(), &number.to_be_bytes()).unwrap();
    }
    assert!(std::fs::metadata(path(root.path(), "idx")).unwrap().len() > before);
    for number in (0..count).step_by(7) {
        assert_eq!(get_from(&other, &number.to_le_bytes()).unwrap(), number.to_be_bytes());
    }
    store_in(&other, b"of the other", b"value").unwrap();
    assert_eq!(get(&session, b"of the other").unwrap(), b"value");
    drop(session);
    let session = open(root.path());
    (0..count)
        .for_each(|number| assert_eq!(get(&session, &number.to_le_bytes()).unwrap(), number.to_be_bytes()));
}
