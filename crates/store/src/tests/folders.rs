//! Roots and folders that must not or cannot be used.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::stash::inspect::list_applications;
use crate::stash::open::OpenError;
use crate::tests::damage::device_folder;
use crate::tests::processes::in_a_child;
use crate::tests::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn refused(root: &Path) -> OpenError {
    let Err(error) = Stash::open_patiently(root, &app()) else { panic!("opened") };
    assert!(!error.to_string().contains('\n'));
    error
}

/// Runs `body` in a child without the rights of the superuser, and with a root of its own.
fn as_nobody(test: &str, body: impl FnOnce(&Path)) {
    in_a_child(test, &[], || {
        let root = root();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(root.path(), Some(65534), Some(65534)).unwrap();
            // SAFETY: setresuid takes numbers alone; it changes the user of this process, which runs only this test.
            assert_eq!(unsafe { libc::setresuid(65534, 65534, 65534) }, 0);
        }
        body(root.path());
    });
}

#[test]
fn created_files_and_folders_are_private() {
    let root = root();
    let below = root.path().join("made/here");
    let stash = open(&below);
    put_all(stash.portable(), Kind::Recipe, 0..1);
    stash.set_reporter(Box::new(|_| Default::default()));
    drop(stash);
    let application = below.join(app().folder);
    for folder in [&below, &application, &application.join("portable"), &application.join("runs")] {
        assert_eq!(mode(folder), 0o700, "{}", folder.display());
    }
    assert_eq!(mode(&segments(&below)[0]), 0o600);
    assert_eq!(mode(&files(&application.join("runs"), "vkr")[0]), 0o600);
}

#[test]
fn a_root_that_is_a_file_is_refused() {
    let root = root();
    let file = root.path().join("file");
    fs::write(&file, []).unwrap();
    assert!(matches!(refused(&file), OpenError::NotAFolder { .. }));
}

#[test]
fn a_folder_to_which_others_may_write_is_refused() {
    let root = root();
    filled(root.path(), 1);
    let application = root.path().join(app().folder);
    for folder in [root.path().to_owned(), application.clone(), application.join("portable")] {
        for mode in [0o720, 0o702, 0o777] {
            set_mode(&folder, mode);
            assert!(
                matches!(refused(root.path()), OpenError::OthersMayWrite { mode: found, .. } if found == mode)
            );
        }
        set_mode(&folder, 0o755);
    }
    open(root.path());
}

#[test]
fn a_folder_of_another_user_is_refused() {
    let root = root();
    if !rustix::process::geteuid().is_root() {
        // A folder of another user that always exists.
        assert!(matches!(refused(Path::new("/")), OpenError::NotOwned { owner: 0, .. }));
        return;
    }
    std::os::unix::fs::chown(root.path(), Some(65534), None).unwrap();
    assert!(matches!(refused(root.path()), OpenError::NotOwned { owner: 65534, user: 0, .. }));
}

#[test]
fn symbolic_links_below_the_root_are_refused_and_the_root_itself_may_be_one() {
    let (root, elsewhere) = (root(), root());
    let application = root.path().join(app().folder);
    symlink(elsewhere.path(), &application).unwrap();
    assert!(matches!(refused(root.path()), OpenError::SymbolicLink { .. }));
    fs::remove_file(&application).unwrap();

    filled(root.path(), 3);
    let segment = segments(root.path()).pop().unwrap();
    fs::rename(&segment, elsewhere.path().join("moved")).unwrap();
    symlink(elsewhere.path().join("moved"), &segment).unwrap();
    let stash = open(root.path());
    assert_eq!(stash.portable().len(Kind::Recipe), 0);
    assert_eq!(stash.report().refused.get("symbolic_link"), Some(&1));
    drop(stash);

    let portable = application.join("portable");
    fs::remove_file(&segment).unwrap();
    fs::remove_dir(&portable).unwrap();
    symlink(elsewhere.path(), &portable).unwrap();
    assert!(matches!(refused(root.path()), OpenError::SymbolicLink { .. }));

    let link = elsewhere.path().join("link");
    fs::remove_file(&portable).unwrap();
    symlink(root.path(), &link).unwrap();
    open(&link);
}

#[test]
fn a_pipe_or_a_folder_in_a_segments_place_is_refused_without_waiting() {
    let root = root();
    let segment = filled(root.path(), 3);
    let pipe = segment.with_file_name("pipe.vks");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    fs::create_dir(segment.with_file_name("folder.vks")).unwrap();
    let stash = open(root.path());
    assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..3), 3);
    assert_eq!(stash.report().refused.get("not_a_file"), Some(&2));
}

#[test]
fn a_folder_name_that_leads_elsewhere_is_refused() {
    let root = root();
    for folder in ["", ".", "..", "../x", "a/b", ".hidden", "a\0b"] {
        let app = AppName { display: "x".into(), folder: folder.into() };
        assert!(matches!(Stash::open(root.path(), &app), Err(OpenError::Name { .. })), "{folder:?}");
    }
}

#[test]
fn a_root_that_cannot_be_read_or_created_is_an_error_with_a_reason() {
    as_nobody("a_root_that_cannot_be_read_or_created_is_an_error_with_a_reason", |root| {
        set_mode(root, 0o000);
        assert!(matches!(refused(root), OpenError::Unreadable { .. }));
        set_mode(root, 0o500);
        assert!(matches!(refused(root), OpenError::NotCreated { .. }));
        assert!(matches!(refused(&root.join("sub")), OpenError::NotCreated { .. }));
        set_mode(root, 0o700);
        open(root);
    });
}

#[test]
fn a_read_only_stash_serves_what_it_has_and_counts_what_it_drops() {
    as_nobody("a_read_only_stash_serves_what_it_has_and_counts_what_it_drops", |root| {
        filled(root, 5);
        let application = root.join(app().folder);
        let folders = [application.join("portable"), application.clone(), root.to_owned()];
        folders.iter().for_each(|folder| set_mode(folder, 0o500));
        let stash = open(root);
        assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..5), 5);
        let device = stash.device(&header()).unwrap();
        for part in [stash.portable(), &device] {
            // The queue takes the first record, because nothing was written yet.
            assert!(part.put(Kind::DeviceConfiguration, &key(7), payload(7)));
            stash.flush(LONG);
            assert!(!part.put(Kind::DeviceConfiguration, &key(8), payload(8)));
            assert!(!part.contains(Kind::DeviceConfiguration, &key(7)));
        }
        let report = stash.report();
        assert_eq!((report.dropped, report.written_records), (4, 0), "{report:?}");
        assert!(!report.write_errors.is_empty());
        drop((stash, device));
        folders.iter().for_each(|folder| set_mode(folder, 0o700));
    });
}

#[test]
fn an_unreadable_segment_is_refused_and_the_others_are_read() {
    as_nobody("an_unreadable_segment_is_refused_and_the_others_are_read", |root| {
        let segment = filled(root, 5);
        set_mode(&segment, 0o000);
        let stash = open(root);
        put_all(stash.portable(), Kind::Recipe, 10..15);
        drop(stash);
        let stash = open(root);
        assert_eq!(stash.report().refused.get("unreadable"), Some(&1));
        assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..20), 5);
    });
}

#[test]
fn applications_are_listed_with_their_devices_and_refused_files() {
    let root = root();
    assert!(list_applications(&root.path().join("nowhere")).unwrap().is_empty());
    let segment = filled(root.path(), 5);
    let stash = open(root.path());
    let device = stash.device(&header()).unwrap();
    put_all(&device, Kind::Artifact, 0..4);
    drop((stash, device));
    fs::write(segment.with_file_name("x.vks"), []).unwrap();
    let [info] = list_applications(root.path()).unwrap().try_into().unwrap();
    assert_eq!((info.folder, info.display.as_str()), (app().folder, "test"));
    let [portable, device] = info.parts.try_into().unwrap();
    assert_eq!((portable.name.as_str(), portable.segments, portable.sealed), ("portable", 1, 1));
    assert_eq!(portable.records.get("recipe"), Some(&5));
    assert_eq!(portable.refused.len(), 1);
    assert_eq!((device.name, device.device), (header().short_digest(), Some(header())));
    assert_eq!(device.records.get("artifact"), Some(&4));
}

/// A symbolic link to a file that would be used if it were no link.
fn link_instead(path: &Path, elsewhere: &Path) {
    let moved = elsewhere.join(path.file_name().unwrap());
    fs::rename(path, &moved).unwrap();
    symlink(&moved, path).unwrap();
}

#[test]
fn symbolic_links_at_every_other_place_below_the_root_are_not_followed() {
    let (root, elsewhere) = (root(), root());
    let report = |stash: &Stash| stash.set_reporter(Box::new(|_| Default::default()));
    let stash = open(root.path());
    report(&stash);
    put_all(&stash.device(&header()).unwrap(), Kind::Artifact, 0..3);
    drop(stash);
    let application = root.path().join(app().folder);
    let (runs, device) = (application.join("runs"), device_folder(root.path(), &header()));

    // A device's segment, a guard file of a dead process, and reports.
    link_instead(&files(&device, "vks")[0], elsewhere.path());
    let guard = elsewhere.path().join("00000001-0000000000000001.vkg");
    fs::write(&guard, []).unwrap();
    symlink(&guard, device.join(guard.file_name().unwrap())).unwrap();
    link_instead(&files(&runs, "vkr")[0], elsewhere.path());
    let lock = elsewhere.path().join("lock");
    symlink(&lock, runs.join(".lock")).unwrap();
    symlink(elsewhere.path().join("totals"), runs.join("totals.vkt")).unwrap();
    let stash = open(root.path());
    let part = stash.device(&header()).unwrap();
    assert_eq!(count_good(&part, Kind::Artifact, 0..3), 0);
    assert_eq!(stash.report().refused.get("symbolic_link"), Some(&1));
    assert!(crate::reports::runs::read_all(&runs).is_empty());
    // So many reports that they have to be folded; the lock file for that is a link.
    (0..70).for_each(|number| fs::write(runs.join(format!("run-{number}.vkr")), b"junk").unwrap());
    report(&stash);
    put_all(&part, Kind::Artifact, 3..6);
    drop((stash, part));
    assert!(!lock.exists() && !elsewhere.path().join("totals").exists() && guard.exists());
    assert_eq!(count_good(&open(root.path()).device(&header()).unwrap(), Kind::Artifact, 3..6), 3);

    // The folders themselves.
    for folder in [&runs, &device] {
        link_instead(folder, elsewhere.path());
    }
    let before = fs::read_dir(elsewhere.path().join("runs")).unwrap().count();
    let stash = open(root.path());
    assert!(matches!(stash.device(&header()), Err(OpenError::SymbolicLink { .. })));
    report(&stash);
    put_all(stash.portable(), Kind::Recipe, 0..3);
    drop(stash);
    assert_eq!(
        fs::read_dir(elsewhere.path().join("runs")).unwrap().count(),
        before,
        "nothing is written there"
    );
    let [info] = list_applications(root.path()).unwrap().try_into().unwrap();
    assert_eq!(info.unusable.len(), 2, "{info:?}");
}

#[test]
fn a_device_folder_or_runs_folder_to_which_others_may_write_is_refused() {
    let root = root();
    let stash = open(root.path());
    put_all(&stash.device(&header()).unwrap(), Kind::Artifact, 0..3);
    stash.set_reporter(Box::new(|_| Default::default()));
    drop(stash);
    let runs = root.path().join(app().folder).join("runs");
    let device = device_folder(root.path(), &header());
    let reports = || fs::read_dir(&runs).unwrap().count();
    let before = reports();
    for mode in [0o720, 0o702, 0o777] {
        set_mode(&device, mode);
        set_mode(&runs, mode);
        let stash = open(root.path());
        let refused = stash.device(&header());
        assert!(matches!(refused, Err(OpenError::OthersMayWrite { mode: found, .. }) if found == mode));
        stash.set_reporter(Box::new(|_| Default::default()));
        put_all(stash.portable(), Kind::Recipe, 0..3);
        drop(stash);
        assert_eq!(reports(), before, "nothing is written there");
    }
}

/// If another process cuts a mapped file, a read of the mapping kills this process.
#[test]
fn no_file_of_the_stash_is_ever_mapped() {
    let root = root();
    let mapped = |when: &str| {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        assert!(maps.lines().count() > 10);
        // The kernel gives the path without links.
        let below = root.path().canonicalize().unwrap();
        assert!(!maps.contains(below.to_str().unwrap()), "{when}: {maps}");
    };
    filled(root.path(), 3000);
    let stash = open(root.path());
    mapped("opened");
    let device = stash.device(&header()).unwrap();
    put_all(&device, Kind::Artifact, 0..100);
    device.admit(&key(1));
    put_all(stash.portable(), Kind::Recipe, 3000..3100);
    stash.flush(LONG);
    assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..3100), 3100);
    mapped("read and written");
    stash.portable().for_each(Kind::Recipe, &mut |_, _| {});
    mapped("read as a whole");
    list_applications(root.path()).unwrap();
    mapped("listed");
    drop((stash, device));
    mapped("closed");
}

/// Another process that changes an open file costs records of that file; no wrong byte is read.
#[test]
fn a_file_that_is_cut_emptied_replaced_or_overwritten_while_it_is_open_is_a_miss() {
    type Harm = fn(&Path);
    let changes: [(&str, Harm); 5] = [
        ("cut", |path| fs::File::options().write(true).open(path).unwrap().set_len(3000).unwrap()),
        ("emptied", |path| fs::write(path, []).unwrap()),
        ("overwritten", |path| {
            let length = fs::metadata(path).unwrap().len() as usize;
            use std::os::unix::fs::FileExt;
            let file = fs::File::options().write(true).open(path).unwrap();
            file.write_all_at(&vec![0xAA; length], 0).unwrap();
        }),
        ("replaced", |path| {
            let other = path.with_extension("other");
            fs::write(&other, [0xAA; 10_000]).unwrap();
            fs::rename(&other, path).unwrap();
        }),
        ("replaced by a pipe", |path| {
            fs::remove_file(path).unwrap();
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
                .unwrap();
        }),
    ];
    for (what, change) in changes {
        for sealed in [true, false] {
            let root = root();
            // The file is sealed, or its writer still appends to it.
            let writer = (!sealed).then(|| {
                let writer = open(root.path());
                put_all(writer.portable(), Kind::Recipe, 0..200);
                writer.flush(LONG);
                writer
            });
            if sealed {
                filled(root.path(), 200);
            }
            let stash = open(root.path());
            assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..2), 2);
            change(&segments(root.path())[0]);
            let good = count_good(stash.portable(), Kind::Recipe, 0..200);
            assert!(good < 200 || what.starts_with("replaced"), "{what}, sealed: {sealed}");
            put_all(stash.portable(), Kind::Recipe, 0..200);
            assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..200), 200, "{what}: the stash goes on");
            if let Some(writer) = writer {
                // The writer goes on in its file, and ends.
                writer.portable().put(Kind::Recipe, &key(500), payload(500));
                drop(writer);
            }
            drop(stash);
            let stash = open(root.path());
            assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..200), 200, "{what}, sealed: {sealed}");
        }
    }
}

/// As when a user removes the configuration file.
#[test]
fn a_file_that_goes_while_applications_are_listed_is_none() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("config.toml");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                fs::write(&path, "").unwrap();
                fs::remove_file(&path).unwrap();
            }
        });
        let listed = (0..20_000).map(|_| list_applications(root.path()).unwrap().len()).max();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(listed, Some(0));
    });
}
