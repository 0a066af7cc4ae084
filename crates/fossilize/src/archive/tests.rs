//! Archives that are whole: what was written is read. [`damage`] has the others.

mod damage;
mod words;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use tempfile::TempDir;

use super::layout::{MAGIC, OLDEST_VERSION, VERSION};
use super::{MAX_PAYLOAD, OpenError, Reader, Tag, WriteError, Writer, payload, varint};

type Entries = BTreeMap<(Tag, u64), Vec<u8>>;

/// A file in a folder of its own.
struct Archive {
    _folder: TempDir,
    path: PathBuf,
}

impl Archive {
    fn of(bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("archive.foz");
        fs::write(&path, bytes).unwrap();
        Self { _folder: folder, path }
    }

    fn open(&self) -> Result<Reader, OpenError> {
        Reader::open(&self.path)
    }
}

fn written(entries: &Entries) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for (&(tag, hash), payload) in entries {
        assert!(writer.write(tag, hash, payload).unwrap());
    }
    writer.finish().unwrap()
}

/// The intact entries, and how many are damaged.
fn read(reader: &Reader) -> (Entries, u64) {
    let mut payloads = reader.payloads();
    let intact = payloads.by_ref().map(|(entry, payload)| ((entry.tag(), entry.hash()), payload)).collect();
    (intact, payloads.damaged())
}

/// An empty entry, one that is stored as it is, and two that are compressed.
fn few() -> Entries {
    Entries::from([
        ((Tag::Sampler, 0x11), Vec::new()),
        (
            (Tag::ShaderModule, 0xfedc_ba98_7654_3210),
            payload::join(b"{\"version\":6}", &varint::encode(&[7; 80])),
        ),
        ((Tag::GraphicsPipeline, 0x33), b"{}".to_vec()),
        ((Tag::BucketInfo, u64::MAX), b"ab".repeat(40)),
    ])
}

fn any_entries() -> impl Strategy<Value = Entries> {
    let tag = proptest::sample::select(&Tag::ALL[..]);
    let payload = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..300),
        (any::<u8>(), 0..5000usize).prop_map(|(byte, length)| vec![byte; length]),
    ];
    proptest::collection::btree_map((tag, any::<u64>()), payload, 0..20)
}

proptest! {
    #[test]
    fn what_was_written_is_read(entries in any_entries()) {
        let bytes = written(&entries);
        prop_assert_eq!(&bytes, &written(&entries));
        let reader = Archive::of(&bytes).open().unwrap();
        prop_assert_eq!(read(&reader), (entries.clone(), 0));
        prop_assert_eq!(reader.skipped().entries(), 0);
        for &(tag, hash) in entries.keys() {
            prop_assert!(reader.find(tag, hash).is_some());
        }
        for tag in Tag::ALL {
            let hashes: Vec<_> = reader.entries_of(tag).iter().map(|entry| entry.hash()).collect();
            let wanted: Vec<_> = entries.keys().filter(|name| name.0 == tag).map(|name| name.1).collect();
            prop_assert_eq!(hashes, wanted);
        }
    }
}

#[test]
fn the_versions_that_fossilize_reads_are_read() {
    let mut bytes = written(&few());
    for version in 0..=u8::MAX {
        bytes[MAGIC.len()] = version;
        match Archive::of(&bytes).open() {
            Ok(reader) => {
                assert!((OLDEST_VERSION..=VERSION).contains(&version));
                assert_eq!(reader.version(), version);
                assert_eq!(read(&reader), (few(), 0));
            }
            Err(error) => {
                assert!(!(OLDEST_VERSION..=VERSION).contains(&version));
                assert!(error.to_string().ends_with(&format!(
                    "has version {version} of Fossilize's format; versions 5 to 6 can be read"
                )));
            }
        }
    }
}

#[test]
fn an_entry_is_written_once() {
    let mut writer = Writer::new(Vec::new()).unwrap();
    assert!(writer.write(Tag::Sampler, 1, b"one").unwrap());
    assert!(!writer.write(Tag::Sampler, 1, b"two").unwrap());
    assert!(writer.write(Tag::RenderPass, 1, b"two").unwrap());
    let large = vec![0; MAX_PAYLOAD as usize + 1];
    assert!(matches!(writer.write(Tag::Sampler, 2, &large), Err(WriteError::TooLarge(_))));
    let reader = Archive::of(&writer.finish().unwrap()).open().unwrap();
    let wanted = [((Tag::Sampler, 1), b"one".to_vec()), ((Tag::RenderPass, 1), b"two".to_vec())];
    assert_eq!(read(&reader), (Entries::from(wanted), 0));
}

#[test]
fn nothing_follows_an_incomplete_entry() {
    let mut room = [0; 40];
    let mut writer = Writer::new(&mut room[..]).unwrap();
    assert!(matches!(writer.write(Tag::Sampler, 1, b"{}"), Err(WriteError::Output(_))));
    assert!(matches!(writer.write(Tag::Sampler, 2, b""), Err(WriteError::Failed)));
    assert!(matches!(writer.finish(), Err(WriteError::Failed)));
}

#[test]
fn the_bytes_are_those_of_the_description() {
    let bytes = written(&Entries::from([((Tag::BucketInfo, 0xabc), b"{}".to_vec())]));
    let mut wanted = b"\x81FOSSILIZEDB\0\0\0\x06".to_vec();
    wanted.extend(b"00000000000000000000000a0000000000000abc");
    wanted.extend([2, 0, 0, 0, 1, 0, 0, 0, 0x43, 0xbf, 0xa6, 0xa3, 2, 0, 0, 0]);
    wanted.extend(b"{}");
    assert_eq!(bytes, wanted);
}
