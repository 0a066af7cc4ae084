//! Segments of others, on disks that cannot read.

use std::fs;

use rustix::io::Errno;

use crate::stash::strict::{Strict, StrictError};
use crate::tests::bit_flips::build;
use crate::tests::disk::faults::{self, ERRORS, Plan};
use crate::tests::processes::in_a_child;
use crate::tests::*;
use vkstash_host::disk::faults::Fault;

const FILE: &str = "0000000000000001-00000001-0000000000000007.vks";

fn verdict(root: &Path) -> Result<usize, StrictError> {
    let segment = Strict::open(root, FILE, None)?;
    let mut count = 0;
    segment.for_each(&mut |_, _, _| {
        count += 1;
        true
    })?;
    Ok(count)
}

/// What an error of the disk says about a file is nothing, whatever was being read.
#[test]
fn errors_of_a_disk_are_no_verdicts_about_a_segment() {
    in_a_child("errors_of_a_disk_are_no_verdicts_about_a_segment", &[], || {
        let root = root();
        fs::write(root.path().join(FILE), build(12, 5, true).bytes).unwrap();
        assert_eq!(verdict(root.path()).unwrap(), 12);
        for error in ERRORS {
            // What is interrupted again and again waits as long.
            for on in [false, true].into_iter().filter(|on| !on || error != Errno::INTR) {
                let mut unread = 0;
                for n in 1.. {
                    faults::begin(Plan::Nth { fault: Fault::Error(error), op: None, n, on });
                    let found = verdict(root.path());
                    let hit = faults::end();
                    match found {
                        Ok(count) => assert_eq!(count, 12, "{error}, call {n}: {hit:?}"),
                        Err(StrictError::Unread(_)) => unread += 1,
                        Err(verdict) => panic!("{error}, call {n}: {verdict} after {hit:?}"),
                    }
                    if hit.is_empty() {
                        break;
                    }
                }
                assert!(unread > 2, "{error}: {unread}");
            }
        }
    });
}

#[test]
fn a_damaged_segment_is_refused_for_what_it_holds() {
    let root = root();
    let mut built = build(12, 5, true);
    built.bytes[built.records[3].start + 70] ^= 1;
    fs::write(root.path().join(FILE), &built.bytes).unwrap();
    assert!(matches!(verdict(root.path()), Err(StrictError::Damaged)));
}
