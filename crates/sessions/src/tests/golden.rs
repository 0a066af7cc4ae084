//! Golden files: written as they are described, and readable for ever.

use std::fmt::Write as _;
use std::fs;

use crate::tests::*;

/// Writes new golden files, for a new version of the format.
const PUBLISH: &str = "VKSTASH_PUBLISH_GOLDEN";

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// The length of a file, and its lines of 16 bytes that are not all zeros.
fn dump(bytes: &[u8]) -> String {
    let mut text = format!("{} bytes\n", bytes.len());
    for (number, line) in bytes.chunks(16).enumerate() {
        if line.iter().any(|&byte| byte != 0) {
            let digits: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(text, "{:06x}: {}", number * 16, digits.join(" ")).unwrap();
        }
    }
    text
}

/// The file of a dump.
fn undump(text: &str) -> Vec<u8> {
    let (length, lines) = text.split_once(" bytes\n").unwrap();
    let mut bytes = vec![0; length.parse().unwrap()];
    for line in lines.lines() {
        let (at, digits) = line.split_once(": ").unwrap();
        let at = usize::from_str_radix(at, 16).unwrap();
        for (byte, digits) in bytes[at..].iter_mut().zip(digits.split(' ')) {
            *byte = u8::from_str_radix(digits, 16).unwrap();
        }
    }
    bytes
}

const ENTRIES: [(&[u8], &[u8]); 3] =
    [(b"k", b"v"), (b"a longer key", b"12345678"), (&[0xFF; 40], &[0xEE; 100])];

fn described() -> (Description, Adapter) {
    let identifier =
        Guid([0x67, 0x45, 0x23, 0x01, 0xab, 0x89, 0xef, 0xcd, 1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]);
    let description =
        Description { identifier, driver_versioned: true, version: 0x1122_3344_5566_7788, ..disk() };
    (description, adapter("an adapter", "a driver"))
}

/// As docs/sessions.md says: with SHA-256 over "vkstash adapter 1" and "an adapter".
const BASE: &str = "01234567-89ab-cdef-0123-456789abcdef-1fe316618112c4d9";

#[test]
fn the_files_are_those_of_version_1_byte_by_byte() {
    let root = root();
    let (description, adapter) = described();
    let create = || Session::create(&description, Some(&place(root.path())), Some(&adapter)).unwrap();
    NUMBER.set(Some(0x0807_0605_0403_0201));
    let session = create();
    NUMBER.set(None);
    ENTRIES.iter().for_each(|(key, value)| session.store(key, value).unwrap());
    let folder = folder(root.path());
    let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    for end in ["idx", "val", "lock"] {
        let made = dump(
            &fs::read(folder.join(format!("{BASE}.{end}")))
                .unwrap_or_else(|error| panic!("{names:?}: {error}")),
        );
        let golden = golden(&format!("cache-1.{end}.txt"));
        if std::env::var_os(PUBLISH).is_some() {
            fs::write(&golden, &made).unwrap();
        }
        assert_eq!(made, fs::read_to_string(golden).unwrap(), "{end}");
    }
}

#[test]
fn a_cache_of_version_1_is_read_and_written() {
    let root = root();
    let (description, adapter) = described();
    let create = || Session::create(&description, Some(&place(root.path())), Some(&adapter)).unwrap();
    drop(create());
    for end in ["idx", "val", "lock"] {
        let bytes = undump(&fs::read_to_string(golden(&format!("cache-1.{end}.txt"))).unwrap());
        fs::write(folder(root.path()).join(format!("{BASE}.{end}")), bytes).unwrap();
    }
    let session = create();
    ENTRIES.iter().for_each(|(key, value)| assert_eq!(get(&session, key).unwrap(), *value));
    session.store(b"new", b"value").unwrap();
    drop(session);
    let session = create();
    ENTRIES.iter().for_each(|(key, value)| assert_eq!(get(&session, key).unwrap(), *value));
    assert_eq!(get(&session, b"new").unwrap(), b"value");
}

#[test]
fn a_newer_version_is_refused_and_left_as_it_is() {
    for end in ["idx", "val"] {
        let root = root();
        open(root.path()).store(b"key", b"value").unwrap();
        let path = path(root.path(), end);
        let mut bytes = fs::read(&path).unwrap();
        bytes[8] = 2;
        let length = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
        let crc = crc32c::crc32c(&bytes[..length - 4]);
        bytes[length - 4..length].copy_from_slice(&crc.to_le_bytes());
        fs::write(&path, &bytes).unwrap();
        let refused = create(root.path(), &disk());
        assert!(
            matches!(refused, Err(Error::Refused { reason: crate::error::Reason::Newer(2), .. })),
            "{:?}",
            refused.err()
        );
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
}
