//! Damaged files: typed errors, and what is intact stays.

use std::fs;
use std::os::unix::fs::FileExt as _;

use crate::error::Reason;
use crate::tests::*;

const COUNT: u64 = 4;

/// A cache with a few entries, as bytes of both files.
fn made() -> (TempDir, Vec<u8>, Vec<u8>) {
    let root = root();
    let session = open(root.path());
    (0..COUNT).for_each(|number| session.store(&key(number), &value(number)).unwrap());
    drop(session);
    let read = |end| fs::read(path(root.path(), end)).unwrap();
    let (index, values) = (read("idx"), read("val"));
    (root, index, values)
}

/// Puts the files back as they were. The index is sparse.
fn restore(root: &Path, index: &[u8], values: &[u8]) {
    fs::write(path(root, "val"), values).unwrap();
    let file = fs::File::create(path(root, "idx")).unwrap();
    file.set_len(index.len() as u64).unwrap();
    for (at, block) in index.chunks(512).enumerate() {
        if block.iter().any(|&byte| byte != 0) {
            file.write_all_at(block, at as u64 * 512).unwrap();
        }
    }
}

fn flip(path: &Path, bit: usize) {
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, bit as u64 / 8).unwrap();
    file.write_all_at(&[byte[0] ^ 1 << (bit % 8)], bit as u64 / 8).unwrap();
}

/// How many entries are lost. None may be wrong, and what is lost can be stored again.
fn lost(session: &Session) -> u64 {
    let mut lost = 0;
    for number in 0..COUNT {
        match get(session, &key(number)) {
            Ok(found) => assert_eq!(found, value(number)),
            Err(Error::Damaged(_) | Error::NotFound) => {
                lost += 1;
                session.store(&key(number), &value(number)).unwrap();
                assert_eq!(get(session, &key(number)).unwrap(), value(number));
            }
            Err(error) => panic!("{error}"),
        }
    }
    lost
}

#[test]
fn a_flipped_bit_of_the_index_costs_nothing() {
    let (root, index, values) = made();
    let in_use =
        index.chunks(512).enumerate().skip(1).filter(|(_, block)| block.iter().any(|&byte| byte != 0));
    let slots = in_use.flat_map(|(at, _)| at * 512 * 8..(at * 512 + 40) * 8);
    let bits: Vec<usize> = (0..512 * 8).chain(slots).collect();
    for bit in bits.into_iter().step_by(11) {
        restore(root.path(), &index, &values);
        flip(&path(root.path(), "idx"), bit);
        assert_eq!(lost(&open(root.path())), 0, "bit {bit}");
        assert_eq!(lost(&open(root.path())), 0, "bit {bit}, after the repair");
    }
}

#[test]
fn a_flipped_bit_of_the_values_costs_one_entry_at_most() {
    let (root, index, values) = made();
    for bit in (0..values.len() * 8).step_by(13) {
        restore(root.path(), &index, &values);
        flip(&path(root.path(), "val"), bit);
        let session = open(root.path());
        assert_eq!(lost(&session), u64::from(bit >= 128 * 8 && !is_padding(&values, bit / 8)), "bit {bit}");
        drop(session);
        assert_eq!(lost(&open(root.path())), 0, "bit {bit}, stored again");
    }
}

/// Whether a byte is between two records.
fn is_padding(values: &[u8], at: usize) -> bool {
    let mut start = 128;
    loop {
        let length = |at: usize| u32::from_le_bytes(values[at..at + 4].try_into().unwrap()) as usize;
        let end = start + 32 + length(start + 4) + length(start + 8);
        if at < end {
            return false;
        }
        start = end.next_multiple_of(8);
        if at < start {
            return true;
        }
    }
}

#[test]
fn damage_while_the_cache_is_open_is_noticed_too() {
    let (root, index, values) = made();
    let small = Description { maximum_in_memory_bytes: 1, ..disk() };
    for bit in (0..values.len() * 8).step_by(101) {
        restore(root.path(), &index, &values);
        let session = create(root.path(), &small).unwrap();
        assert_eq!(lost(&session), 0);
        flip(&path(root.path(), "val"), bit);
        assert!(lost(&session) <= 1);
    }
    for bit in (512 * 8..index.len() * 8).step_by(19_973) {
        restore(root.path(), &index, &values);
        let session = create(root.path(), &small).unwrap();
        flip(&path(root.path(), "idx"), bit);
        assert_eq!(lost(&session), 0);
    }
}

#[test]
fn files_that_were_cut_off_keep_what_is_whole() {
    let (root, index, values) = made();
    for length in (0..values.len()).step_by(11) {
        restore(root.path(), &index, &values);
        let file = fs::File::options().write(true).open(path(root.path(), "val")).unwrap();
        file.set_len(length as u64).unwrap();
        let session = open(root.path());
        let whole = whole_records(&values, length);
        assert_eq!(lost(&session), COUNT - whole, "{length} bytes");
        drop(session);
        assert_eq!(lost(&open(root.path())), 0);
    }
    for length in [0, 1, 7, 8, 16, 100, 511, 512, 513, 70_000, index.len() - 1] {
        restore(root.path(), &index, &values);
        let file = fs::File::options().write(true).open(path(root.path(), "idx")).unwrap();
        file.set_len(length as u64).unwrap();
        assert_eq!(lost(&open(root.path())), 0, "{length} bytes");
    }
    // While it is open.
    restore(root.path(), &index, &values);
    let session = create(root.path(), &Description { maximum_in_memory_bytes: 1, ..disk() }).unwrap();
    for (end, expected) in [("idx", 0), ("val", COUNT)] {
        fs::File::options().write(true).open(path(root.path(), end)).unwrap().set_len(0).unwrap();
        assert_eq!(lost(&session), expected, "{end}");
    }
    drop(session);
    assert_eq!(lost(&open(root.path())), 0);
}

fn whole_records(values: &[u8], length: usize) -> u64 {
    let (mut start, mut count) = (128, 0);
    while start < values.len() {
        let field = |at: usize| u32::from_le_bytes(values[at..at + 4].try_into().unwrap()) as usize;
        let end = start + 32 + field(start + 4) + field(start + 8);
        count += u64::from(end <= length);
        start = end.next_multiple_of(8);
    }
    count
}

#[test]
fn an_index_that_is_gone_is_written_again_and_lost_values_leave_an_empty_cache() {
    let (root, ..) = made();
    fs::remove_file(path(root.path(), "idx")).unwrap();
    assert_eq!(lost(&open(root.path())), 0);
    fs::remove_file(path(root.path(), "lock")).unwrap();
    assert_eq!(lost(&open(root.path())), 0);
    fs::remove_file(path(root.path(), "val")).unwrap();
    assert_eq!(lost(&open(root.path())), COUNT);
    // With both headers damaged nothing tells the version.
    for (end, bit) in [("idx", 200), ("val", 200)] {
        flip(&path(root.path(), end), bit);
    }
    assert_eq!(lost(&open(root.path())), COUNT);
}

#[test]
fn what_is_no_cache_is_refused_and_left_as_it_is() {
    let (root, ..) = made();
    for end in ["idx", "val"] {
        fs::write(path(root.path(), end), "the user's own notes, which are longer than a header ".repeat(20))
            .unwrap();
    }
    let before = fs::read(path(root.path(), "val")).unwrap();
    let refused = create(root.path(), &disk()).err();
    assert!(matches!(refused, Some(Error::Refused { reason: Reason::Foreign, .. })), "{refused:?}");
    assert_eq!(fs::read(path(root.path(), "val")).unwrap(), before);

    // The files of another cache under this name.
    let (root, index, values) = made();
    let other = Description { identifier: Guid([1; 16]), ..disk() };
    let other_path = |end| folder(root.path()).join(format!("{}.{end}", other.identifier.text()));
    fs::write(other_path("idx"), &index).unwrap();
    fs::write(other_path("val"), &values).unwrap();
    let refused = create(root.path(), &other).err();
    assert!(matches!(refused, Some(Error::Refused { reason: Reason::OtherIdentifier, .. })), "{refused:?}");
    assert_eq!(fs::read(other_path("val")).unwrap(), values);
}

/// A hole of gigabytes is not read: the test would take 12 s.
#[test]
fn a_value_file_with_holes_is_read_where_it_has_data() {
    let (root, _, values) = made();
    let file = fs::File::options().write(true).open(path(root.path(), "val")).unwrap();
    // A record behind the hole: the whole file, header and tag included, has been copied there.
    let behind = 3 << 30;
    file.write_all_at(&values[128..], behind).unwrap();
    file.set_len(1 << 36).unwrap();
    fs::remove_file(path(root.path(), "idx")).unwrap();
    let read = crate::disk::values::READ.get();
    let session = create(root.path(), &disk()).unwrap();
    assert!(crate::disk::values::READ.get() - read < 16 << 20, "bytes read");
    assert_eq!((0..COUNT).filter(|number| get(&session, &key(*number)).is_ok()).count() as u64, COUNT);
    assert!(matches!(session.store(b"more", b"value"), Err(Error::CacheFull)));
}

/// Data without a record is searched once, and not as if each place had one.
#[test]
fn a_value_file_of_other_data_is_searched_once() {
    let (root, ..) = made();
    let file = fs::File::options().append(true).open(path(root.path(), "val")).unwrap();
    for _ in 0..64 {
        std::io::Write::write_all(&mut &file, &[0x8b; 1 << 20]).unwrap();
    }
    fs::remove_file(path(root.path(), "idx")).unwrap();
    let read = crate::disk::values::READ.get();
    assert_eq!(lost(&open(root.path())), 0);
    assert!(crate::disk::values::READ.get() - read < 80 << 20, "bytes read");
}
