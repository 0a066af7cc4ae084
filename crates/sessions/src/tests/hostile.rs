//! Files that somebody has made up.

use std::fs;

use proptest::prelude::*;

use crate::format::{Place as RecordPlace, Slot, block_at, home};
use crate::tests::*;

/// Writes a slot for `key` into the usual cache's index.
fn forge(root: &Path, key: &[u8], offset: u64, length: u32) {
    let hash = format::hash(key);
    let mut index = fs::read(path(root, "idx")).unwrap();
    let at = block_at(home(hash, 1024)) as usize;
    let slot = Slot { hash, place: RecordPlace { offset, length } };
    index[at..at + 20].copy_from_slice(&slot.encode());
    fs::write(path(root, "idx"), index).unwrap();
}

#[test]
fn a_slot_may_claim_what_it_likes() {
    let root = root();
    drop(open(root.path()));
    for (offset, length) in
        [(128, u32::MAX), (0, 0), (u64::from(u32::MAX) * 8, u32::MAX), (0, 600), (128, 31), (128, 33)]
    {
        forge(root.path(), b"key", offset, length);
        let session = open(root.path());
        assert!(matches!(session.find(b"key", None), Err(Error::Damaged(_))));
        let answer = session.find(b"key", Some(&mut [0; 10]));
        assert!(matches!(answer, Err(Error::Damaged(_))), "{answer:?}");
        assert!(matches!(session.find(b"other", None), Err(Error::NotFound)));
        session.store(b"key", b"value").unwrap();
        assert_eq!(get(&session, b"key").unwrap(), b"value");
        session.set_delete_on_destroy();
        drop(session);
        drop(open(root.path()));
    }
}

#[test]
fn an_index_without_an_empty_slot_ends_every_search() {
    let root = root();
    open(root.path()).store(b"key", b"value").unwrap();
    let mut index = fs::read(path(root.path(), "idx")).unwrap();
    let slot = Slot { hash: 1, place: RecordPlace { offset: 128, length: 40 } }.encode();
    for block in index[512..].chunks_exact_mut(512) {
        block[..500].chunks_exact_mut(20).for_each(|bytes| bytes.copy_from_slice(&slot));
    }
    fs::write(path(root.path(), "idx"), index).unwrap();
    let session = open(root.path());
    assert!(matches!(session.find(b"other", None), Err(Error::NotFound)));
    session.store(b"other", b"value").unwrap();
    assert_eq!(get(&session, b"other").unwrap(), b"value");
}

fn pieces() -> impl Strategy<Value = Vec<(u16, u8)>> {
    proptest::collection::vec((any::<u16>(), any::<u8>()), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_in_the_files_give_right_values_or_errors(
        index in pieces(), values in pieces(), cut in any::<u16>(), zeros in any::<bool>(),
    ) {
        let root = root();
        let session = open(root.path());
        (0..20).for_each(|number| session.store(&key(number), &value(number)).unwrap());
        drop(session);
        for (end, pieces) in [("idx", index), ("val", values)] {
            let mut bytes = fs::read(path(root.path(), end)).unwrap();
            let length = bytes.len();
            for (at, byte) in pieces {
                // Half of them in the headers and the first records.
                let at = if byte % 2 == 0 { usize::from(at) % 1024 } else { usize::from(at) * 8 + usize::from(byte) };
                bytes[at % length] = if zeros { 0 } else { byte };
            }
            if cut % 3 == 0 {
                bytes.truncate(length - usize::from(cut) % length.min(4000));
            }
            fs::write(path(root.path(), end), bytes).unwrap();
        }
        for _ in 0..2 {
            match create(root.path(), &disk()) {
                Ok(session) => for number in 0..20 {
                    match get(&session, &key(number)) {
                        Ok(found) => prop_assert_eq!(found, value(number)),
                        Err(Error::NotFound | Error::Damaged(_)) => {
                            session.store(&key(number), &value(number)).unwrap();
                            prop_assert_eq!(get(&session, &key(number)).unwrap(), value(number));
                        }
                        Err(error) => panic!("{error:?}"),
                    }
                },
                Err(Error::Refused { .. }) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    }
}
