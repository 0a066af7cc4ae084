//! File systems whose locks are not those of a local disk: NFS, where a question needs the right descriptor, and those
//! without locks.

use std::fs;
use std::fs::File;
use std::time::SystemTime;

use rustix::io::Errno;

use crate::format::file::PartIdentity;
use crate::segment::append::Appender;
use crate::segment::cleanup::clean_up;
use crate::tests::crash_counts::{after_a_crash, crashes_found};
use crate::tests::disk::faults;
use crate::tests::disk::faults::Plan;
use crate::tests::maintenance::{bytes_below, device_files, one_run, run, set};
use crate::tests::processes::in_a_child;
use crate::tests::stale_files::{OTHER, SEGMENT, grow_old};
use crate::tests::*;
use vkstash_host::disk::faults::{Fault, Op};
use vkstash_host::disk::folder::Folder;
use vkstash_host::disk::locks::is_locked;

const LIMIT: u64 = 1 << 20;

/// Runs of the program that store more than the limit allows, each in a file without its end: whether somebody writes
/// it is to be found out.
fn store_too_much(root: &Path) {
    for number in 0..10 {
        one_run(root, |stash| {
            let device = stash.device(&header()).unwrap();
            for record in number * 20 + 100..number * 20 + 120 {
                assert!(device.put(Kind::Artifact, &key(record), noise(record, 9000)));
            }
        });
    }
    for file in device_files(root, &header()) {
        let file = File::options().write(true).open(file).unwrap();
        file.set_len(file.metadata().unwrap().len() - 1).unwrap();
    }
    set(root, "limit = 1MiB\n");
    assert!(bytes_below(root) > LIMIT);
}

/// Files that killed processes have left in a folder.
fn leave_files(folder: &Path) -> [PathBuf; 2] {
    let left = [folder.join(SEGMENT), folder.join(OTHER)];
    for path in &left {
        fs::write(path, "").unwrap();
        grow_old(path);
    }
    left
}

/// Nobody has changed a file below the folder for eight days.
fn pass_eight_days(folder: &Path) {
    let then = SystemTime::now() - Duration::from_secs(8 * 24 * 3600);
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => pass_eight_days(&path),
            false => File::options().write(true).open(path).unwrap().set_modified(then).unwrap(),
        }
    }
}

/// A writer that lives: its file is taken for nobody's.
fn is_seen_to_live(folder: &Path) -> bool {
    let opened = Arc::new(Folder::root(folder, false).unwrap());
    let appender = Appender::create(opened.clone(), PartIdentity::Portable, 1).unwrap();
    let name = appender.segment().name().to_owned();
    clean_up(&opened);
    opened.open_file(&name).is_ok_and(|(fd, _)| is_locked(&fd))
}

#[test]
fn on_nfs_it_is_known_which_files_have_a_process() {
    in_a_child("on_nfs_it_is_known_which_files_have_a_process", &[], || {
        faults::begin(Plan::NfsLocks);
        let root = root();
        let (artifact, folder, _) = after_a_crash(root.path());
        assert_eq!(crashes_found(root.path(), &artifact), 1);
        assert!(files(&folder, "vkg").is_empty());
        let left = leave_files(&folder);
        clean_up(&Folder::root(&folder, false).unwrap());
        assert!(!left.iter().any(|path| path.exists()));
        store_too_much(root.path());
        let outcome = run(root.path());
        assert!(bytes_below(root.path()) <= LIMIT, "{outcome:?}");
        assert!(is_seen_to_live(&root.path().join(app().folder).join("portable")));
    });
}

#[test]
fn without_locks_files_have_no_process_after_a_week() {
    in_a_child("without_locks_files_have_no_process_after_a_week", &[], || {
        for error in [Errno::NOLCK, Errno::NOSYS] {
            let fault = Fault::Error(error);
            faults::begin(Plan::Nth { fault, op: Some(Op::Lock), n: 1, on: true });
            let root = root();
            let (artifact, folder, _) = after_a_crash(root.path());
            store_too_much(root.path());
            let left = leave_files(&folder);
            for is_old in [false, true] {
                if is_old {
                    pass_eight_days(root.path());
                }
                clean_up(&Folder::root(&folder, false).unwrap());
                assert!(left.iter().all(|path| path.exists() != is_old), "{error} {is_old}");
                assert_eq!(crashes_found(root.path(), &artifact), u8::from(is_old), "{error}");
                assert_eq!(files(&folder, "vkg").is_empty(), is_old, "{error}");
            }
            let outcome = run(root.path());
            assert!(bytes_below(root.path()) <= LIMIT, "{error} {outcome:?}");
            assert!(is_seen_to_live(&root.path().join(app().folder).join("portable")));
            assert!(!faults::end().is_empty());
        }
    });
}
