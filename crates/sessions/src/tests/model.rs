//! Random calls, compared with a map that has the same limits.

use std::collections::HashMap;

use proptest::prelude::*;

use crate::tests::*;

/// What a step does.
#[derive(Clone, Debug)]
enum Step {
    Find(u8),
    /// A find with a buffer of so many bytes.
    FindIn(u8, usize),
    Store(u8, usize),
    /// The last session goes, and a new one comes.
    Reopen,
    Clear,
    /// With another version.
    Wipe,
    /// Another process stores.
    StoreElsewhere(u8, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Lengths around the limits of memory and file.
    let length = prop_oneof![1..40_usize, 90..110_usize, 250..300_usize, 1900..2100_usize];
    let step = prop_oneof![
        4 => any::<u8>().prop_map(Step::Find),
        2 => (any::<u8>(), 0..300_usize).prop_map(|(key, room)| Step::FindIn(key, room)),
        4 => (any::<u8>(), length.clone()).prop_map(|(key, length)| Step::Store(key, length)),
        2 => (any::<u8>(), length).prop_map(|(key, length)| Step::StoreElsewhere(key, length)),
        1 => Just(Step::Reopen),
        1 => Just(Step::Clear),
        1 => Just(Step::Wipe),
    ];
    proptest::collection::vec(step, 1..60)
}

/// A few keys, of different lengths.
fn small_key(number: u8) -> Vec<u8> {
    vec![number % 8 + 1; 1 + usize::from(number % 3) * 7]
}

/// Keys of different lengths have different hashes; some of one length collide.
fn weak(key: &[u8]) -> u64 {
    (key.len() as u64) << 56 | u64::from(key[0] / 2)
}

/// What a cache should do.
struct Model {
    mode: Mode,
    entries: HashMap<Vec<u8>, Vec<u8>>,
    /// Length of the value file.
    length: u64,
    bytes: usize,
}

const FILE: u64 = 6000;
const MEMORY: usize = 400;
const COUNT: usize = 5;

impl Model {
    fn store(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        if self.entries.contains_key(key) {
            return Err(Error::AlreadyExists);
        }
        self.collision(key)?;
        let size = key.len() + value.len();
        if self.mode == Mode::Memory {
            if self.bytes + size > MEMORY || self.entries.len() == COUNT {
                return Err(Error::CacheFull);
            }
            self.bytes += size;
        } else {
            let after = self.length.next_multiple_of(8) + 32 + size as u64;
            if after > FILE {
                return Err(Error::CacheFull);
            }
            self.length = after;
        }
        self.entries.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn collision(&self, key: &[u8]) -> Result<(), Error> {
        let collides = self.entries.keys().any(|other| other != key && weak(other) == weak(key));
        if collides { Err(Error::HashCollision) } else { Ok(()) }
    }

    fn find(&self, key: &[u8]) -> Result<&[u8], Error> {
        self.collision(key)?;
        self.entries.get(key).map(Vec::as_slice).ok_or(Error::NotFound)
    }

    fn clear(&mut self) {
        (self.length, self.bytes) = (128, 0);
        self.entries.clear();
    }
}

/// Errors by their names.
fn named<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{error:?}"),
    }
}

/// A cache, and what it should do.
struct Compared {
    root: TempDir,
    description: Description,
    /// None only while one goes and the next one comes.
    session: Option<Session>,
    model: Model,
}

impl Compared {
    fn new(mode: Mode) -> Compared {
        let description = Description {
            mode,
            maximum_in_memory_bytes: MEMORY as u32,
            maximum_in_memory_entries: COUNT as u32,
            maximum_value_file_bytes: FILE as u32,
            ..disk()
        };
        let model = Model { mode, entries: HashMap::new(), length: 128, bytes: 0 };
        let mut compared = Compared { root: root(), description, session: None, model };
        compared.reopen();
        compared
    }

    fn reopen(&mut self) {
        drop(self.session.take());
        let place = place(self.root.path());
        self.session = Some(Session::create_with(&self.description, Some(&place), None, weak).unwrap());
    }

    fn step(&mut self, step: &Step, number: usize) -> Result<(), TestCaseError> {
        let now = self.session.as_ref().unwrap();
        let value = |length: usize| vec![number as u8; length];
        match step {
            Step::Find(number) => {
                let key = small_key(*number);
                let expected = named(self.model.find(&key).map(<[u8]>::to_vec));
                prop_assert_eq!(named(get(now, &key)), expected, "{:?}", step);
            }
            Step::FindIn(number, room) => {
                let key = small_key(*number);
                let found = now.find(&key, Some(&mut vec![0; *room]));
                let expected = self.model.find(&key).and_then(|value| match value.len() {
                    needed if needed > *room => Err(Error::BufferTooSmall { needed }),
                    length => Ok(length),
                });
                prop_assert_eq!(named(found), named(expected), "{:?}", step);
            }
            Step::Store(number, length) => {
                let (key, value) = (small_key(*number), value(*length));
                let expected = named(self.model.store(&key, &value));
                prop_assert_eq!(named(now.store(&key, &value)), expected, "{:?}", step);
            }
            Step::StoreElsewhere(..) if self.model.mode == Mode::Memory => {}
            Step::StoreElsewhere(number, length) => {
                let (key, value) = (small_key(*number), value(*length));
                let expected = named(self.model.store(&key, &value));
                prop_assert_eq!(named(self.store_elsewhere(&key, &value)), expected, "{:?}", step);
            }
            Step::Reopen => {
                self.reopen();
                if self.model.mode == Mode::Memory {
                    self.model.clear();
                }
            }
            Step::Clear => {
                now.clear().unwrap();
                self.model.clear();
            }
            Step::Wipe => {
                self.description.version += 1;
                self.reopen();
                self.model.clear();
            }
        }
        Ok(())
    }

    /// Stores as another process does.
    fn store_elsewhere(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let folder = Folder::root(&folder(self.root.path()), false).unwrap();
        let version = self.description.version;
        let identity = Identity { identifier: GUID.0, version, driver: [0; 32], number: 0 };
        let (location, names) = (Location::Working(folder), Names::of(&GUID.text()));
        let files = Files::open(location, names, identity, Versions::Own).unwrap();
        let stored = files.store(weak(key), key, value, FILE).map(|_| ());
        files.close(false);
        stored
    }
}

fn run(mode: Mode, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut compared = Compared::new(mode);
    steps.iter().enumerate().try_for_each(|(number, step)| compared.step(step, number))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_cache_on_disk_is_a_map_with_limits(steps in steps()) {
        run(Mode::Disk, &steps)?;
    }

    #[test]
    fn a_cache_in_memory_is_a_map_with_limits(steps in steps()) {
        run(Mode::Memory, &steps)?;
    }
}
