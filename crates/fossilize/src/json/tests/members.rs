//! No member is lost: structures of numbers are compared byte by byte.

use std::ffi::c_void;
use std::slice;

use ash::vk::BaseInStructure;
use vkstash_model::registry;
use vkstash_model::registry::structures::PIPELINES;

use crate::json::chain::{KnownStructure, read_chain, write_chain};
use crate::json::table;

/// The words of a structure whose members are `bytes` bytes: each differs from the others, and is a number that every
/// type can hold.
fn distinct(s_type: i32, bytes: usize) -> Vec<u64> {
    let header = size_of::<BaseInStructure<'_>>();
    let mut words = vec![0u64; (header + bytes).div_ceil(8)];
    let start: *mut u8 = words.as_mut_ptr().cast();
    for offset in 0..bytes {
        // SAFETY: as many bytes follow the header.
        unsafe { start.add(header + offset).write(1 + offset as u8) };
    }
    // SAFETY: a structure starts with sType.
    unsafe { start.cast::<i32>().write(s_type) };
    words
}

/// Writes a structure as a chain, reads it again, and gives the bytes behind pNext of both.
fn both(table: &[KnownStructure], s_type: i32, bytes: usize) -> [Vec<u8>; 2] {
    let words = distinct(s_type, bytes);
    let mut writer = table::writer();
    // SAFETY: a structure of numbers, with its sType.
    unsafe { write_chain(table, words.as_ptr().cast(), &mut writer) }.unwrap();
    let value = serde_json::from_str(&writer.finish()).unwrap();
    let mut reader = table::reader();
    let read = read_chain(table, &value, &mut reader).unwrap();
    [words.as_ptr().cast(), read.cast_const()].map(|structure: *const c_void| {
        let header = size_of::<BaseInStructure<'_>>();
        // SAFETY: both structures have as many bytes behind the header.
        unsafe { slice::from_raw_parts(structure.cast::<u8>().add(header), bytes) }.to_vec()
    })
}

#[test]
fn create_infos() {
    let mut compared = 0;
    for row in table::CREATE_INFOS {
        let structure = PIPELINES.iter().find(|structure| structure.s_type == row.s_type);
        if let Some(bytes) = structure.and_then(|structure| structure.numbers) {
            let [before, after] = both(table::CREATE_INFOS, row.s_type.as_raw(), bytes);
            assert_eq!(before, after, "{:?}", row.s_type);
            compared += 1;
        }
    }
    assert!(compared >= 20, "{compared}");
}

#[test]
fn features() {
    for row in table::FEATURES {
        let structure = registry::of_device(row.s_type).unwrap();
        let [before, after] = both(table::FEATURES, row.s_type.as_raw(), structure.switches * 4);
        assert_eq!(before, after, "{}", structure.name);
        assert!(structure.switches > 0);
    }
}

/// Fossilize's parser has these cases (fossilize.cpp, parse_pnext_chain and parse_pnext_chain_pdf2).
#[test]
fn the_table_has_what_fossilize_has() {
    let known = [
        1_000_028_002,
        1_000_044_002,
        1_000_053_000,
        1_000_068_000,
        1_000_099_001,
        1_000_101_001,
        1_000_102_001,
        1_000_117_001,
        1_000_117_003,
        1_000_130_001,
        1_000_135_006,
        1_000_143_000,
        1_000_143_002,
        1_000_148_002,
        1_000_156_000,
        1_000_161_000,
        1_000_190_001,
        1_000_199_001,
        1_000_218_002,
        1_000_225_001,
        1_000_226_000,
        1_000_226_001,
        1_000_232_001,
        1_000_232_002,
        1_000_241_001,
        1_000_241_002,
        1_000_254_001,
        1_000_259_001,
        1_000_283_002,
        1_000_287_000,
        1_000_290_000,
        1_000_314_000,
        1_000_320_002,
        1_000_351_002,
        1_000_355_001,
        1_000_376_002,
        1_000_381_001,
        1_000_411_001,
        1_000_458_001,
        1_000_470_005,
        1_000_569_007,
        1_000_582_001,
        1_000_611_002,
        1_000_628_002,
    ];
    for s_type in known {
        assert!(table::CREATE_INFOS.iter().any(|row| row.s_type.as_raw() == s_type), "{s_type}");
    }
    assert_eq!(table::CREATE_INFOS.len(), known.len());
    let features = [
        1_000_068_001,
        1_000_202_000,
        1_000_226_003,
        1_000_286_000,
        1_000_316_002,
        1_000_326_001,
        1_000_328_000,
        1_000_335_000,
        1_000_382_000,
        1_000_393_000,
        1_000_482_000,
        1_000_574_000,
    ];
    for s_type in features {
        assert!(table::FEATURES.iter().any(|row| row.s_type.as_raw() == s_type), "{s_type}");
    }
    assert_eq!(table::FEATURES.len(), features.len());
}
