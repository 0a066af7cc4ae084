//! Switching caches off, and clearing them. In processes of their own, because the switch is one for the process.

use std::fs;

use vkstash_model::variables::CONFIG_FILE;
use vkstash_store::settings::CacheKinds;

use crate::control;
use crate::tests::*;

fn in_a_child(test: &str, body: impl FnOnce(&Path)) {
    if let Some(root) = folder_of_child(test) {
        return body(&root);
    }
    let root = root();
    assert!(child(test, root.path()).status().unwrap().success());
}

#[test]
fn while_disabled_nothing_is_created_found_or_stored() {
    in_a_child("while_disabled_nothing_is_created_found_or_stored", |root| {
        let session = open(root);
        session.store(b"key", b"value").unwrap();
        control::disable(true);
        assert!(control::is_disabled());
        assert!(matches!(session.find(b"key", None), Err(Error::NotCurrentlyAvailable(_))));
        assert!(matches!(session.store(b"other", b"value"), Err(Error::NotCurrentlyAvailable(_))));
        assert!(matches!(create(root, &disk()), Err(Error::NotCurrentlyAvailable(_))));
        control::disable(false);
        assert_eq!(get(&session, b"key").unwrap(), b"value");
    });
}

#[test]
fn an_application_is_disabled_in_all_its_processes() {
    let root = root();
    let session = open(root.path());
    session.store(b"key", b"value").unwrap();
    let place = place(root.path());
    for _ in 0..2 {
        control::disable_stored(&place, true).unwrap();
    }
    assert!(control::is_stored_disabled(&place).unwrap());
    let is_off = |result: Result<usize, Error>| matches!(result, Err(Error::NotCurrentlyAvailable(_)));
    await_that("the open session notices", || is_off(session.find(b"key", None)));
    assert!(matches!(session.store(b"other", b"value"), Err(Error::NotCurrentlyAvailable(_))));
    let description = Description { identifier: Guid([1; 16]), ..disk() };
    assert!(matches!(create(root.path(), &description), Err(Error::NotCurrentlyAvailable(_))));
    for _ in 0..2 {
        control::disable_stored(&place, false).unwrap();
    }
    await_that("the open session notices", || session.find(b"key", None).is_ok());
    assert!(!control::is_stored_disabled(&place).unwrap());
}

/// What a user has disabled reaches sessions that have nothing in the stash, too.
#[test]
fn the_settings_disable_sessions_in_memory_and_in_the_working_directory() {
    in_a_child("the_settings_disable_sessions_in_memory_and_in_the_working_directory", |root| {
        std::env::set_current_dir(root).unwrap();
        let memory = Description { identifier: Guid([6; 16]), mode: Mode::Memory, ..disk() };
        let working = Description { identifier: Guid([7; 16]), working_directory: true, ..disk() };
        let on_disk = Description { identifier: Guid([5; 16]), ..disk() };
        let all = [on_disk, memory, working];
        let sessions: Vec<_> = all.iter().map(|description| create(root, description).unwrap()).collect();
        sessions.iter().for_each(|session| session.store(b"key", b"value").unwrap());
        let place = place(root);
        let store = |kinds: CacheKinds| {
            let text = format!("disabled-caches = '{}'\n", kinds.text());
            std::fs::write(place.root().join(CONFIG_FILE), text).unwrap();
        };
        let is_off = |result: Result<usize, Error>| matches!(result, Err(Error::NotCurrentlyAvailable(_)));
        store(CacheKinds::SESSIONS);
        for (session, description) in sessions.iter().zip(&all) {
            await_that("the open session notices", || is_off(session.find(b"key", None)));
            let other = Description { identifier: Guid([8; 16]), version: 9, ..description.clone() };
            for description in [description, &other] {
                let created = create(root, description).map(|_| 0);
                assert!(is_off(created), "{description:?}");
            }
        }
        store(CacheKinds::NONE);
        for session in &sessions {
            await_that("the open session notices", || session.find(b"key", None).is_ok());
        }
    });
}

fn elsewhere() -> Description {
    Description { identifier: Guid([3; 16]), version: 77, ..disk() }
}

/// Not a test: the process that the next test starts, and that has a cache open.
#[test]
fn holds_a_cache_until_it_is_cleared() {
    let Some(root) = folder_of_child("holds_a_cache_until_it_is_cleared") else { return };
    let session = create(&root, &elsewhere()).unwrap();
    session.store(b"key", b"value").unwrap();
    Other::wait(&root);
    // The other process looks every 100 ms.
    await_that("the other process has cleared it", || {
        matches!(session.find(b"key", None), Err(Error::NotFound))
    });
    session.store(b"key", b"again").unwrap();
}

/// In a process of its own: all caches of the process are cleared.
#[test]
fn clearing_empties_what_is_open_and_deletes_what_is_not() {
    in_a_child("clearing_empties_what_is_open_and_deletes_what_is_not", |root| {
        let other = Other::start("holds_a_cache_until_it_is_cleared", root);
        let closed = Description { identifier: Guid([2; 16]), version: 5, ..disk() };
        create(root, &closed).unwrap().store(b"key", b"value").unwrap();
        let memory = Description { identifier: Guid([4; 16]), mode: Mode::Memory, ..disk() };
        let (session, memory) = (open(root), create(root, &memory).unwrap());
        session.store(b"key", b"value").unwrap();
        memory.store(b"key", b"value").unwrap();
        fs::write(folder(root).join("foreign.idx"), "not ours").unwrap();

        control::clear(Some(&place(root))).unwrap();

        for session in [&session, &memory] {
            assert!(matches!(session.find(b"key", None), Err(Error::NotFound)));
            session.store(b"key", b"again").unwrap();
            assert_eq!(get(session, b"key").unwrap(), b"again");
        }
        let there = |identifier: Guid| folder(root).join(format!("{}.idx", identifier.text())).exists();
        assert!(!there(Guid([2; 16])) && there(Guid([3; 16])) && there(GUID));
        assert_eq!(fs::read(folder(root).join("foreign.idx")).unwrap(), b"not ours");
        other.end();
        assert_eq!(get(&create(root, &elsewhere()).unwrap(), b"key").unwrap(), b"again");
    });
}
