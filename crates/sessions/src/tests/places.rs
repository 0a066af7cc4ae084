//! Folders and disks: what can be written, and what can be trusted.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};

use vkstash_host::disk::errors::FileError;

use crate::error::Reason;
use crate::tests::*;

#[test]
fn a_cache_in_the_working_directory_has_three_files_there() {
    let test = "a_cache_in_the_working_directory_has_three_files_there";
    if let Some(root) = folder_of_child(test) {
        let here = root.join("here");
        std::env::set_current_dir(&here).unwrap();
        let description = Description { working_directory: true, ..disk() };
        let open = || Session::create(&description, None, None).unwrap();
        let session = open();
        session.store(b"key", b"value").unwrap();
        let mut names: Vec<_> = fs::read_dir(&here)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["idx", "lock", "val"].map(|end| format!("{}.{end}", GUID.text())));
        // The files stay where they are.
        std::env::set_current_dir(&root).unwrap();
        session.store(b"other", b"value").unwrap();
        drop(session);
        std::env::set_current_dir(&here).unwrap();
        let session = open();
        assert_eq!(get(&session, b"other").unwrap(), b"value");
        // Deleted by hand while it is open: the session goes on, the next process starts anew.
        names.iter().for_each(|name| fs::remove_file(here.join(name)).unwrap());
        assert_eq!(get(&session, b"key").unwrap(), b"value");
        session.store(b"third", b"value").unwrap();
        assert_eq!(get(&session, b"third").unwrap(), b"value");
        let status = forked(|| {
            let session = open();
            let is_new = matches!(session.find(b"key", None), Err(Error::NotFound));
            i32::from(!(is_new && session.store(b"key", b"new").is_ok()))
        });
        assert_eq!(status, 0);
        assert_eq!(get(&session, b"key").unwrap(), b"value");
        for number in 0..24_000u32 {
            // The index would grow: it cannot take the place of the other process's.
            if session.store(&number.to_le_bytes(), b"x").is_err() {
                break;
            }
        }
        session.set_delete_on_destroy();
        drop(session);
        assert_eq!(get(&open(), b"key").unwrap(), b"new", "the files of the other process stay");
        return;
    }
    let root = root();
    fs::create_dir(root.path().join("here")).unwrap();
    assert!(child(test, root.path()).status().unwrap().success());
}

#[test]
fn what_cannot_be_trusted_is_refused_without_waiting() {
    let is = |error: Option<Error>, expected: Reason| {
        assert!(matches!(&error, Some(Error::Refused { reason, .. }) if *reason == expected), "{error:?}");
    };
    for end in ["idx", "val", "lock"] {
        let root = root();
        open(root.path()).store(b"key", b"value").unwrap();
        let path = path(root.path(), end);
        let error = || create(root.path(), &disk()).err();

        fs::set_permissions(&path, Permissions::from_mode(0o622)).unwrap();
        is(error(), Reason::OthersMayWrite(0o622));
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(get(&open(root.path()), b"key").unwrap(), b"value");

        let away = root.path().join("away");
        fs::rename(&path, &away).unwrap();
        symlink(&away, &path).unwrap();
        is(error(), Reason::File(FileError::SymbolicLink));
        fs::remove_file(&path).unwrap();

        fs::create_dir(&path).unwrap();
        is(error(), Reason::File(FileError::NotAFile));
        fs::remove_dir(&path).unwrap();

        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        is(error(), Reason::File(FileError::NotAFile));
        fs::remove_file(&path).unwrap();

        fs::rename(&away, &path).unwrap();
        assert_eq!(get(&open(root.path()), b"key").unwrap(), b"value");

        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(1234), None).unwrap();
            is(error(), Reason::File(FileError::NotOwned(1234)));
        }
    }
}

#[test]
fn a_folder_that_others_may_write_to_is_refused_in_the_stash() {
    let root = root();
    drop(open(root.path()));
    fs::set_permissions(folder(root.path()), Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(create(root.path(), &disk()), Err(Error::Folder(_))));
}

#[test]
fn files_that_are_replaced_while_the_cache_is_open_disturb_nobody() {
    for end in ["idx", "val", "lock"] {
        let root = root();
        let session = create(root.path(), &Description { maximum_in_memory_bytes: 1, ..disk() }).unwrap();
        session.store(b"key", b"value").unwrap();
        let path = path(root.path(), end);
        fs::remove_file(&path).unwrap();
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(get(&session, b"key").unwrap(), b"value");
        session.store(b"other", b"value").unwrap();
        assert_eq!(get(&session, b"other").unwrap(), b"value");
        session.set_delete_on_destroy();
        drop(session);
    }
}

#[test]
fn a_read_only_cache_is_read() {
    let test = "a_read_only_cache_is_read";
    const NOBODY: u32 = 65534;
    if let Some(root) = folder_of_child(test) {
        if rustix::process::geteuid().is_root() {
            // SAFETY: calls without pointers; the process has one other thread, which waits for this one.
            assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) }, 0);
        }
        let session = open(&root);
        assert_eq!(get(&session, b"key").unwrap(), b"value");
        assert!(matches!(session.find(b"other", None), Err(Error::NotFound)));
        assert!(matches!(session.store(b"other", b"value"), Err(Error::ReadOnly)));
        session.set_delete_on_destroy();
        drop(session);
        assert!(matches!(create(&root, &Description { version: 2, ..disk() }), Err(Error::ReadOnly)));
        let missing = Description { identifier: Guid([1; 16]), ..disk() };
        assert!(matches!(create(&root, &missing), Err(Error::ReadOnly)));
        let other = Place::new(&root, &AppName::new(Some(b"other"), b"/bin/other"));
        let other = Session::create(&disk(), Some(&other), None);
        assert!(matches!(other, Err(Error::ReadOnly)), "{:?}", other.err());
        return;
    }
    let root = root();
    open(root.path()).store(b"key", b"value").unwrap();
    let folders =
        [root.path().to_owned(), folder(root.path()).parent().unwrap().to_owned(), folder(root.path())];
    let files = ["idx", "val", "lock"].map(|end| path(root.path(), end));
    let set = |mode_of_folders, mode_of_files| {
        files
            .iter()
            .for_each(|file| fs::set_permissions(file, Permissions::from_mode(mode_of_files)).unwrap());
        let set = |folder| fs::set_permissions(folder, Permissions::from_mode(mode_of_folders)).unwrap();
        folders.iter().for_each(set);
    };
    set(0o555, 0o444);
    if rustix::process::geteuid().is_root() {
        let all = folders.iter().chain(&files);
        all.for_each(|path| std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap());
    }
    let status = child(test, root.path()).status().unwrap();
    set(0o755, 0o644);
    assert!(status.success());
}

#[test]
fn a_full_disk_raises_no_signal_and_costs_the_value_that_does_not_fit() {
    let test = "a_full_disk_raises_no_signal_and_costs_the_value_that_does_not_fit";
    if let Some(root) = folder_of_child(test) {
        let session = open(&root);
        let limit = libc::rlimit { rlim_cur: 600_000, rlim_max: 600_000 };
        // SAFETY: the structure is on this stack; the signal gets its default action, which ends the process.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
            assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
        }
        let mut stored = 0;
        let error = loop {
            match session.store(&key(stored), &[stored as u8; 9000]) {
                Ok(()) => stored += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::DiskFull), "{error:?}");
        assert!(stored > 50);
        session.store(b"small", b"fits still").unwrap();
        (0..stored).for_each(|number| assert_eq!(get(&session, &key(number)).unwrap(), [number as u8; 9000]));
        // With less than an index.
        let limit = libc::rlimit { rlim_cur: 1000, rlim_max: 1000 };
        // SAFETY: `limit` is an rlimit on this stack, which setrlimit reads.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
        let other = create(&root, &Description { identifier: Guid([1; 16]), ..disk() });
        assert!(matches!(other, Err(Error::DiskFull)), "{:?}", other.err());
        let wiped = {
            drop(session);
            create(&root, &Description { version: 2, ..disk() })
        };
        assert!(matches!(wiped, Err(Error::DiskFull)));
        return;
    }
    let root = root();
    assert!(child(test, root.path()).status().unwrap().success());
    let session = open(root.path());
    assert_eq!(get(&session, b"small").unwrap(), b"fits still", "a wipe that fails wipes nothing");
    assert_eq!(get(&session, &key(0)).unwrap(), [0; 9000]);
}

/// A session in the current folder.
fn here(identifier: u8) -> Result<Session, Error> {
    let description = Description { working_directory: true, identifier: Guid([identifier; 16]), ..disk() };
    Session::create(&description, None, None)
}

#[test]
fn a_working_directory_that_is_read_only_or_full_gives_typed_errors_and_loses_nothing() {
    let test = "a_working_directory_that_is_read_only_or_full_gives_typed_errors_and_loses_nothing";
    const NOBODY: u32 = 65534;
    if let Some(root) = folder_of_child(test) {
        if rustix::process::geteuid().is_root() {
            // SAFETY: calls without pointers; the process has one other thread, which waits for this one.
            assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) }, 0);
        }
        std::env::set_current_dir(root.join("read-only")).unwrap();
        let session = here(1).unwrap();
        assert_eq!(get(&session, b"key").unwrap(), b"value");
        assert!(matches!(session.store(b"other", b"value"), Err(Error::ReadOnly)));
        assert!(matches!(here(2), Err(Error::ReadOnly)), "a new cache");
        drop(session);

        std::env::set_current_dir(root.join("full")).unwrap();
        let session = here(1).unwrap();
        let limit = libc::rlimit { rlim_cur: 1000, rlim_max: 1000 };
        // SAFETY: the structure is on this stack; the signal gets its default action, which ends the process.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
            assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
        }
        assert!(matches!(session.store(b"other", &[1; 9000]), Err(Error::DiskFull)));
        assert_eq!(get(&session, b"key").unwrap(), b"value");
        assert!(matches!(here(2), Err(Error::DiskFull)), "a new cache");
        drop(session);
        assert_eq!(get(&here(1).unwrap(), b"key").unwrap(), b"value");
        return;
    }
    let root = root();
    let folders = ["read-only", "full"].map(|name| root.path().join(name));
    for folder in &folders {
        fs::create_dir(folder).unwrap();
        // The current folder belongs to the process, in which other tests run.
        let made = forked(|| {
            std::env::set_current_dir(folder).unwrap();
            i32::from(here(1).and_then(|session| session.store(b"key", b"value")).is_err())
        });
        assert_eq!(made, 0);
        if rustix::process::geteuid().is_root() {
            let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            let all = files.chain([folder.clone(), root.path().to_owned()]);
            all.for_each(|path| std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap());
        }
    }
    let set = |folder: u32, file: u32| {
        let files = fs::read_dir(&folders[0]).unwrap().map(|entry| entry.unwrap().path());
        files.for_each(|path| fs::set_permissions(path, Permissions::from_mode(file)).unwrap());
        fs::set_permissions(&folders[0], Permissions::from_mode(folder)).unwrap();
    };
    set(0o555, 0o444);
    let status = child(test, root.path()).status().unwrap();
    set(0o755, 0o644);
    assert!(status.success());
}

/// The user's own files, whose names happen to be those of the cache in the working directory.
#[test]
fn in_the_working_directory_files_of_the_user_are_left_as_they_are() {
    let test = "in_the_working_directory_files_of_the_user_are_left_as_they_are";
    let Some(root) = folder_of_child(test) else {
        let root = root();
        assert!(child(test, root.path()).status().unwrap().success());
        return;
    };
    let here = root.join("here");
    let description = |version| Description { working_directory: true, version, ..disk() };
    let open = |version| Session::create(&description(version), None, None);
    let notes = "the user's own notes, which are longer than a header ".repeat(30).into_bytes();
    let zeros = [&[0; 1000][..], b"an image of a disk"].concat();
    let all = ["idx", "val", "lock"];
    for mark in [false, true] {
        for version in [1, 2] {
            for mine in [1, 2, 4, 3, 5, 6, 7] {
                for text in [&notes, &zeros, &b"d".to_vec()] {
                    fs::create_dir(&here).unwrap();
                    std::env::set_current_dir(&here).unwrap();
                    let session = open(1).unwrap();
                    session.store(b"key", b"value").unwrap();
                    drop(session);
                    let path = |end: &str| here.join(format!("{}.{end}", GUID.text()));
                    if mark {
                        fs::write(path("lock"), crate::format::MARK).unwrap();
                    }
                    let mine = all.iter().enumerate().filter(|(at, _)| mine & 1 << at != 0);
                    let mine: Vec<_> = mine.map(|(_, end)| path(end)).collect();
                    mine.iter().for_each(|path| fs::write(path, text).unwrap());
                    let answer = open(version).err();
                    for path in &mine {
                        assert_eq!(&fs::read(path).unwrap(), text, "{path:?} {mark} {version} {answer:?}");
                    }
                    assert!(
                        matches!(answer, Some(Error::Refused { reason: Reason::Foreign, .. })),
                        "{answer:?}"
                    );
                    fs::remove_dir_all(&here).unwrap();
                }
            }
        }
    }
    // A temporary file of another program, and files that are put there while the cache is open.
    fs::create_dir(&here).unwrap();
    std::env::set_current_dir(&here).unwrap();
    let temporary = here.join(format!(".tmp-{}.idx", GUID.text()));
    let is_all = |path: &Path| {
        assert!(matches!(open(1), Err(Error::Refused { reason: Reason::Foreign, .. })), "{path:?}");
        assert_eq!(fs::read(path).unwrap(), notes);
        let names: Vec<_> = fs::read_dir(&here).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(names, [path], "beside the user's file there is no other");
        fs::remove_file(path).unwrap();
    };
    for path in [temporary].into_iter().chain(all.map(|end| here.join(format!("{}.{end}", GUID.text())))) {
        fs::write(&path, &notes).unwrap();
        is_all(&path);
    }
    let session = open(1).unwrap();
    for end in ["idx", "val"] {
        fs::remove_file(here.join(format!("{}.{end}", GUID.text()))).unwrap();
        fs::write(here.join(format!("{}.{end}", GUID.text())), &notes).unwrap();
    }
    session.set_delete_on_destroy();
    drop(session);
    for end in ["idx", "val"] {
        assert_eq!(fs::read(here.join(format!("{}.{end}", GUID.text()))).unwrap(), notes);
    }
}

#[test]
fn a_file_with_another_name_is_refused_and_not_cut_off() {
    for end in ["idx", "val", "lock"] {
        let root = root();
        open(root.path()).store(b"key", b"value").unwrap();
        let copy = root.path().join("copy");
        fs::hard_link(path(root.path(), end), &copy).unwrap();
        let before = fs::read(&copy).unwrap();
        for version in [1, 2] {
            let answer = create(root.path(), &Description { version, ..disk() }).err();
            assert!(
                matches!(answer, Some(Error::Refused { reason: Reason::HardLink, .. })),
                "{end}: {answer:?}"
            );
        }
        assert_eq!(fs::read(&copy).unwrap(), before, "{end}");
        fs::remove_file(&copy).unwrap();
        assert_eq!(get(&open(root.path()), b"key").unwrap(), b"value");
    }
    // A name that it gets while it is open.
    let root = root();
    let session = open(root.path());
    let copy = root.path().join("copy");
    fs::hard_link(path(root.path(), "idx"), &copy).unwrap();
    let stored =
        (0..30_000u32).take_while(|number| session.store(&number.to_le_bytes(), b"x").is_ok()).count();
    assert!(stored < 30_000, "the index must grow");
    assert!(fs::metadata(&copy).unwrap().len() > 500_000);
    assert_eq!(get(&session, &7u32.to_le_bytes()).unwrap(), b"x");
}
