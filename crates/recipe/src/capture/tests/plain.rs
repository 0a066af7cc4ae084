//! Structures of numbers, structures that are ignored, and structures that bypass: every row of the table, in every
//! chain.

use std::ffi::c_void;

use ash::vk;

use super::guard_page::place;
use super::hosts::HOSTS;
use vkstash_model::counters::BypassReason;
use vkstash_model::structures::{Handling, Row, TABLE};

const HEADER: usize = size_of::<vk::BaseInStructure<'_>>();

/// A structure of a row with these bytes behind pNext, ending at the fence.
fn structure(row: &Row, members: &[u8]) -> *const c_void {
    const WORD: usize = size_of::<usize>();
    let mut words = vec![0_usize; row.structure.size / WORD];
    assert_eq!(row.structure.size % WORD, 0);
    words[0] = row.structure.s_type.as_raw() as usize;
    for (index, &byte) in members.iter().enumerate() {
        words[(HEADER + index) / WORD] |= usize::from(byte) << (8 * (index % WORD));
    }
    place(&words).cast()
}

fn rows(wanted: impl Fn(Handling) -> bool) -> impl Iterator<Item = &'static Row> {
    TABLE.iter().filter(move |row| wanted(row.handling))
}

#[test]
fn every_byte_of_a_plain_structure_separates_or_the_chain_refuses() {
    for row in rows(|handling| matches!(handling, Handling::Plain(_))) {
        let Handling::Plain(length) = row.handling else { unreachable!() };
        let mut read = 0;
        for (name, host) in HOSTS {
            let without = host(std::ptr::null()).unwrap();
            let mut members = vec![0; row.structure.size - HEADER];
            let Ok(zero) = host(structure(row, &members)) else { continue };
            assert_ne!(zero, without, "{} is lost in {name}", row.structure.name);
            read += 1;
            for index in 0..members.len() {
                members[index] = 0x5a;
                let changed = host(structure(row, &members)).unwrap();
                assert_eq!(
                    changed != zero,
                    index < length,
                    "byte {index} of {} in {name}",
                    row.structure.name
                );
                members[index] = 0;
            }
        }
        assert!(read >= 10, "{} is read in {read} chains", row.structure.name);
    }
}

#[test]
fn an_ignored_structure_changes_nothing_anywhere() {
    for row in rows(|handling| handling == Handling::Ignored) {
        for (name, host) in HOSTS {
            let garbage = structure(row, &vec![0xdd; row.structure.size - HEADER]);
            assert_eq!(host(garbage), host(std::ptr::null()), "{} in {name}", row.structure.name);
        }
    }
}

#[test]
fn a_structure_that_bypasses_does_so_everywhere_and_is_named() {
    for row in rows(|handling| matches!(handling, Handling::Bypass(_))) {
        let Handling::Bypass(reason) = row.handling else { unreachable!() };
        for (name, host) in HOSTS {
            let refusal = host(structure(row, &vec![0xdd; row.structure.size - HEADER])).unwrap_err();
            assert_eq!(
                (refusal.reason, refusal.s_type),
                (reason, row.structure.s_type.as_raw()),
                "in {name}"
            );
        }
    }
}

#[test]
fn a_structure_without_a_row_refuses_everywhere_and_is_named() {
    for (name, host) in HOSTS {
        let stranger = vk::BaseInStructure { s_type: vk::StructureType::from_raw(123), ..Default::default() };
        let refusal = host(super::guard_page::place_one(stranger).cast()).unwrap_err();
        assert_eq!((refusal.reason, refusal.s_type), (BypassReason::UnknownStructure, 123), "in {name}");
    }
}
