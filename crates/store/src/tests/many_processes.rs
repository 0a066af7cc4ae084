//! Many processes on one stash at the same time.

use std::fs;
use std::process::Stdio;
use std::time::Instant;

use crate::format::sizes::{FOOTER_BYTES, FOOTER_MAGIC};
use crate::stash::inspect::list_applications;
use crate::tests::processes::{FOLDER, child, folder_of_child};
use crate::tests::*;
use vkstash_host::descriptor::Descriptor;
use vkstash_host::disk::ops as disk;

const NUMBER: &str = "VKSTASH_TEST_NUMBER";
/// Records that each process puts for itself, and those that all of them put.
const OWN: u64 = 60;
const SHARED: std::ops::Range<u64> = 1_000_000..1_000_040;
/// Reads of a record of another process, 20 ms apart.
const LOOKS: u32 = 30_000;

/// Puts records, and reads those of all the others.
fn take_part(folder: &Path, number: u64, count: u64) {
    let stash = open(folder);
    let part = stash.portable();
    put_all(part, Kind::Recipe, number * 1000..number * 1000 + OWN / 2);
    put_all(part, Kind::Recipe, SHARED);
    stash.flush(LONG);
    put_all(part, Kind::Recipe, number * 1000 + OWN / 2..number * 1000 + OWN);
    for other in 0..count {
        for record in (other * 1000..other * 1000 + OWN).chain(SHARED) {
            let mut looks = 0;
            while count_good(part, Kind::Recipe, record..record + 1) == 0 {
                looks += 1;
                assert!(looks < LOOKS, "{number}: record {record} never came");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
    let report = stash.report();
    assert_eq!((report.damaged_records, report.refused.len(), report.dropped), (0, 0, 0), "{report:?}");
    assert!(report.write_errors.is_empty(), "{report:?}");
}

/// Gives every sealed file another name, half of them by a copy, as merging does: under the part's lock, because two
/// processes that each delete what the other keeps would lose it.
fn compact(root: &Path, round: u64) {
    for (place, path) in segments(root).into_iter().enumerate() {
        let lock = fs::File::options().create(true).append(true).open(path.with_file_name(".lock")).unwrap();
        let lock = Descriptor::new(lock.into()).unwrap();
        if disk::try_lock(&lock).is_err() {
            continue;
        }
        let Ok(bytes) = fs::read(&path) else { continue };
        let footer = bytes.len().checked_sub(FOOTER_BYTES).and_then(|at| bytes.get(at..));
        if !footer.is_some_and(|footer| footer.starts_with(&FOOTER_MAGIC)) {
            continue;
        }
        let renamed = path.with_file_name(format!("{:016x}-00000001-{:016x}.vks", place + 1, round));
        if renamed.exists() {
            continue;
        }
        if round % 2 == 0 {
            // A process that ended may have merged it meanwhile.
            let _ = fs::rename(&path, renamed);
        } else {
            let temporary = path.with_file_name(".tmp-compacted");
            fs::write(&temporary, bytes).unwrap();
            fs::rename(temporary, renamed).unwrap();
            let _ = fs::remove_file(path);
        }
    }
}

fn run_processes(test: &str, count: u64, compacting: bool) {
    if let Some(folder) = folder_of_child(test) {
        let number = std::env::var(NUMBER).unwrap().parse().unwrap();
        return take_part(&folder, number, count);
    }
    let root = root();
    let start = |number: u64| {
        let mut command = child(test);
        command.env(FOLDER, root.path()).env(NUMBER, number.to_string()).stdout(Stdio::null());
        command.spawn().unwrap()
    };
    let mut children: Vec<_> = (0..count).map(start).collect();
    let (began, mut round) = (Instant::now(), 0);
    while children.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
        if compacting && began.elapsed() < LONG / 10 {
            round += 1;
            compact(root.path(), round);
        }
        std::thread::sleep(Duration::from_millis(30));
    }
    children.iter_mut().for_each(|child| assert!(child.wait().unwrap().success()));

    let stash = open(root.path());
    let part = stash.portable();
    for number in 0..count {
        let own = number * 1000..number * 1000 + OWN;
        assert_eq!(count_good(part, Kind::Recipe, own), OWN, "records of {number}");
    }
    assert_eq!(count_good(part, Kind::Recipe, SHARED), SHARED.end - SHARED.start);
    assert_eq!(part.len(Kind::Recipe) as u64, count * OWN + SHARED.end - SHARED.start);
    let report = stash.report();
    assert_eq!((report.damaged_records, report.refused.len()), (0, 0), "{report:?}");
    let [application] = list_applications(root.path()).unwrap().try_into().unwrap();
    let info = &application.parts[0];
    // A process that ends may merge the files of the others.
    assert!((1..=count).contains(&info.segments));
    assert_eq!((info.sealed, info.damaged), (info.segments, 0));
}

#[test]
fn two_processes_see_what_the_other_writes() {
    run_processes("two_processes_see_what_the_other_writes", 2, false);
}

#[test]
fn eight_processes_see_what_the_others_write() {
    run_processes("eight_processes_see_what_the_others_write", 8, false);
}

#[test]
fn thirty_two_processes_see_what_the_others_write() {
    run_processes("thirty_two_processes_see_what_the_others_write", 32, false);
}

#[test]
fn files_that_are_renamed_and_deleted_go_on_being_read_by_eight_processes() {
    run_processes("files_that_are_renamed_and_deleted_go_on_being_read_by_eight_processes", 8, true);
}
