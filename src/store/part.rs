//! One part of a stash: the portable one, or the one of a device header.

/// 32 bytes that name a record: a module identity, a key, or a digest.
pub type Key = [u8; 32];

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// SPIR-V, by module identity. Portable.
    Module = 1,
    /// An encoded pipeline layout, by its digest. Portable.
    Layout = 2,
    /// An encoded render pass, by its digest. Portable.
    RenderPass = 3,
    /// An encoded recipe, by key. Portable.
    Recipe = 4,
    /// What is needed to create an equal device, by digest. Portable.
    Setup = 5,
    /// The first use of a key in one run, in order; the payload is the time. Portable.
    Use = 6,
    /// What a driver made of a recipe, by key. Device part.
    Artifact = 16,
    /// A driver's identifier (padded digest as key) and the module identity (payload). Device part.
    IdentifierPair = 17,
}

/// One part, open for reading and appending. Shared by all threads.
pub struct Part {}

impl Part {
    /// Whether a record is there (on disk or queued). Lock-free.
    pub fn contains(&self, _kind: Kind, _key: &Key) -> bool {
        unimplemented!()
    }

    /// Reads the newest record of that kind and key into `buffer` (cleared first) and verifies its checksum.
    /// False: not there, or damaged (which is counted, and the record forgotten).
    pub fn read(&self, _kind: Kind, _key: &Key, _buffer: &mut Vec<u8>) -> bool {
        unimplemented!()
    }

    /// Queues a record for the writer. It can be read at once. False: dropped (queue full, disk full, no
    /// writer), which is counted. Never blocks on the disk.
    pub fn put(&self, _kind: Kind, _key: &Key, _payload: Box<[u8]>) -> bool {
        unimplemented!()
    }

    /// Calls `each` for every record of that kind, with verified payload.
    pub fn for_each(&self, _kind: Kind, _each: &mut dyn FnMut(&Key, &[u8])) {
        unimplemented!()
    }

    /// How many records of that kind there are.
    pub fn len(&self, _kind: Kind) -> usize {
        unimplemented!()
    }

    /// The part's name: hexadecimal digest of the device header; "portable" for the portable part.
    pub fn name(&self) -> &str {
        unimplemented!()
    }
}
