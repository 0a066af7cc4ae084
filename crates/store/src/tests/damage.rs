//! Flipped bits, cut files, and files that are not what they should be.

use std::fs;
use std::os::unix::fs::FileExt;

use crate::format::seal::Seal;
use crate::format::sizes::{FIRST_RECORD, FOOTER_BYTES, HEADER_BYTES, RECORD_HEADER_BYTES};
use crate::tests::*;

const COUNT: u64 = 40;

fn flip(path: &Path, bit: u64) {
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, bit / 8).unwrap();
    byte[0] ^= 1 << (bit % 8);
    file.write_all_at(&byte, bit / 8).unwrap();
}

/// Cuts off the index and the footer, as if the writer had been killed.
fn unseal(path: &Path) {
    let bytes = fs::read(path).unwrap();
    let footer = bytes.len() - FOOTER_BYTES;
    let index = u64::from_le_bytes(bytes[footer + 8..footer + 16].try_into().unwrap());
    fs::File::options().write(true).open(path).unwrap().set_len(index).unwrap();
}

/// Flips one bit at a time in a copy of the stash and asserts that no more than one record is gone.
fn flip_everywhere(sealed: bool) {
    let root = root();
    let segment = filled(root.path(), COUNT);
    if !sealed {
        unseal(&segment);
    }
    let bits = fs::metadata(&segment).unwrap().len() * 8;
    let mut numbers = Numbers(1);
    let places = (0..600).map(|_| numbers.next() % bits);
    // Bits of every byte of the header, of the first records' headers, and of the end of the file.
    let ends = (0..(FIRST_RECORD + RECORD_HEADER_BYTES) as u64 * 8).chain(bits - 600 * 8..bits);
    let ends = ends.step_by(one_of(5) as usize);
    for bit in places.chain(ends) {
        flip(&segment, bit);
        let stash = open(root.path());
        let good = count_good(stash.portable(), Kind::Recipe, 0..COUNT);
        assert!(good >= COUNT - 1, "bit {bit}: {} records lost", COUNT - good);
        if good < COUNT {
            assert!(stash.report().damaged_records > 0, "bit {bit}: lost without being counted");
            let gone = (0..COUNT).filter(|&n| !stash.portable().contains(Kind::Recipe, &key(n))).count();
            assert_eq!(gone, 1, "a damaged record is forgotten");
        }
        drop(stash);
        flip(&segment, bit);
    }
}

#[test]
fn a_flipped_bit_costs_one_record_of_a_sealed_segment() {
    flip_everywhere(true);
}

#[test]
fn a_flipped_bit_costs_one_record_of_an_unsealed_segment() {
    flip_everywhere(false);
}

#[test]
fn many_flipped_bits_never_give_a_wrong_byte() {
    for seed in 0..20 {
        let root = root();
        let segment = filled(root.path(), COUNT);
        let mut numbers = Numbers(seed);
        let bits = fs::metadata(&segment).unwrap().len() * 8;
        (0..64).for_each(|_| flip(&segment, numbers.next() % bits));
        count_good(open(root.path()).portable(), Kind::Recipe, 0..COUNT);
    }
}

#[test]
fn a_file_cut_anywhere_keeps_the_records_before_the_cut() {
    let root = root();
    let segment = filled(root.path(), 8);
    let sealed = fs::read(&segment).unwrap();
    let mut of_dead_writer = sealed.clone();
    let seal = Seal::OFFSET as usize;
    of_dead_writer[seal..FIRST_RECORD].fill(0);
    for (whole, is_sealed) in [(sealed, true), (of_dead_writer, false)] {
        let mut least = 0;
        for length in (0..whole.len()).step_by(one_of(5) as usize) {
            fs::write(&segment, &whole[..length]).unwrap();
            let stash = open(root.path());
            let good = count_good(stash.portable(), Kind::Recipe, 0..8);
            assert!(good >= least, "{length} bytes hold fewer records than fewer bytes");
            least = good;
            // A torn tail is no damage, unless the file was complete.
            let damaged = u64::from(is_sealed && length >= FIRST_RECORD);
            assert_eq!(stash.report().damaged_records, damaged, "cut at {length}");
        }
        assert_eq!(least, 8);
    }
}

#[test]
fn a_file_cut_while_it_is_open_counts_as_damage_and_raises_no_signal() {
    let root = root();
    let segment = filled(root.path(), COUNT);
    let stash = open(root.path());
    assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..1), 1);
    fs::File::options().write(true).open(&segment).unwrap().set_len(1000).unwrap();
    let good = count_good(stash.portable(), Kind::Recipe, 0..COUNT);
    assert!(good < COUNT);
    assert_eq!(stash.report().damaged_records, COUNT - good);
}

/// A process that merges segments deletes files that others are reading.
#[test]
fn files_that_are_deleted_while_they_are_open_go_on_being_read() {
    let root = root();
    fs::remove_file(filled(root.path(), COUNT)).unwrap();
    let segment = filled(root.path(), COUNT);
    let stash = open(root.path());
    fs::remove_file(&segment).unwrap();
    assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..COUNT), COUNT);
    assert_eq!(stash.report().damaged_records, 0);
    // The stash can still be written.
    put_all(stash.portable(), Kind::Recipe, 0..COUNT);
    stash.flush(LONG);
    assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..COUNT), COUNT);
}

#[test]
fn a_damaged_record_uncovers_the_one_that_it_superseded() {
    let root = root();
    filled(root.path(), 1);
    let stash = open(root.path());
    assert!(stash.portable().put(Kind::Recipe, &key(0), b"newer".to_vec().into_boxed_slice()));
    drop(stash);
    let newest = segments(root.path()).pop().unwrap();
    flip(&newest, (FIRST_RECORD + RECORD_HEADER_BYTES) as u64 * 8);
    let stash = open(root.path());
    assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..1), 1);
    assert_eq!(stash.report().damaged_records, 1);
}

#[test]
fn a_destroyed_header_and_its_copy_leave_the_records_usable() {
    let root = root();
    let segment = filled(root.path(), COUNT);
    let mut bytes = fs::read(&segment).unwrap();
    let length = bytes.len();
    bytes[..HEADER_BYTES].fill(0xAA);
    bytes[length - HEADER_BYTES - FOOTER_BYTES..].fill(0xAA);
    fs::write(&segment, bytes).unwrap();
    let stash = open(root.path());
    assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..COUNT), COUNT);
    assert!(stash.report().damaged_records > 0);
}

#[test]
fn junk_is_refused_and_left_alone() {
    let root = root();
    let segment = filled(root.path(), 3);
    let mut numbers = Numbers(3);
    let junk: Vec<u8> = (0..100_000).map(|_| numbers.next() as u8).collect();
    let files = [("a.vks", &junk[..]), ("b.vks", b""), ("c.vks", b"\x89VKS"), ("d.txt", &junk)];
    for (name, content) in files {
        fs::write(segment.with_file_name(name), content).unwrap();
    }
    let stash = open(root.path());
    assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..3), 3);
    let refused = stash.report().refused;
    assert_eq!(refused.get("truncated"), Some(&2), "{refused:?}");
    assert_eq!(refused.get("not_a_segment"), Some(&1), "{refused:?}");
    drop(stash);
    for (name, content) in files {
        assert_eq!(fs::read(segment.with_file_name(name)).unwrap(), content);
    }
}

/// The folder of a device part below the application's.
pub(crate) fn device_folder(root: &Path, header: &DeviceHeader) -> PathBuf {
    root.join(app().folder).join(format!("device-{}", header.short_digest()))
}

#[test]
fn a_segment_of_another_device_is_refused_with_the_field_that_differs() {
    let root = root();
    let stash = open(root.path());
    let other = DeviceHeader { driver_version: 1, ..header() };
    put_all(&stash.device(&other).unwrap(), Kind::Artifact, 0..3);
    stash.device(&header()).unwrap();
    drop(stash);
    let [segment] = files(&device_folder(root.path(), &other), "vks").try_into().unwrap();
    let strayed = device_folder(root.path(), &header()).join(segment.file_name().unwrap());
    fs::copy(&segment, &strayed).unwrap();

    let stash = open(root.path());
    let part = stash.device(&header()).unwrap();
    assert_eq!(count_good(&part, Kind::Artifact, 0..3), 0);
    assert_eq!(stash.report().refused.get("other_driver_version"), Some(&1));
    drop((stash, part));
    assert_eq!(fs::read(&strayed).unwrap(), fs::read(&segment).unwrap(), "a mismatch deletes nothing");

    // If its header is damaged, its records do not count as this device's either.
    let mut bytes = fs::read(&segment).unwrap();
    bytes[50] ^= 1;
    let length = bytes.len();
    bytes[length - FOOTER_BYTES - 10] ^= 1;
    fs::write(&strayed, bytes).unwrap();
    let stash = open(root.path());
    let part = stash.device(&header()).unwrap();
    assert_eq!(count_good(&part, Kind::Artifact, 0..3), 0);
}
