//! The bytes of the files of a cache, as docs/sessions.md describes them.

/// The version of the format.
pub(crate) const VERSION: u32 = 1;
/// Length of the value file's header.
pub(crate) const VALUE_HEADER: usize = 128;
/// Length of the index file's header, which is that of a block.
pub(crate) const INDEX_HEADER: usize = BLOCK;
/// Length of a block.
pub(crate) const BLOCK: usize = 512;
/// Length of a slot.
pub(crate) const SLOT: usize = 20;
/// Slots of a block.
pub(crate) const SLOTS: usize = BLOCK / SLOT;
/// Blocks in which the slot of a hash may be.
pub(crate) const PROBES: u32 = 4;
/// Blocks of a new index.
pub(crate) const FIRST_BLOCKS: u32 = 1024;
/// The largest number of blocks.
pub(crate) const MOST_BLOCKS: u32 = 1 << 20;
/// Length of a record's head.
pub(crate) const HEAD: usize = 32;
/// Records start at multiples of this.
pub(crate) const ALIGN: u64 = 8;

const VALUE_MAGIC: [u8; 8] = *b"\x89VKX\r\n\x1a\n";
const INDEX_MAGIC: [u8; 8] = *b"\x89VKI\r\n\x1a\n";
/// What a lock file has if the cache is to be deleted when nobody has it open.
pub(crate) const MARK: [u8; 8] = *b"\x89VKL\r\n\x1a\n";
const RECORD_MAGIC: u32 = u32::from_le_bytes(*b"\x8bvks");

/// What a header says of its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) identifier: [u8; 16],
    pub(crate) version: u64,
    /// Zeros if the cache is not driver-versioned.
    pub(crate) driver: [u8; 32],
    /// The number of the value file.
    pub(crate) number: u64,
}

impl Identity {
    /// Whether a program that wants `wanted` may use the cache.
    pub(crate) fn has_version_of(&self, wanted: &Identity) -> bool {
        (self.version, self.driver) == (wanted.version, wanted.driver)
    }

    /// What each record has of the number.
    pub(crate) fn tag(&self) -> u32 {
        self.number as u32
    }

    fn put(&self, bytes: &mut [u8]) {
        bytes[..16].copy_from_slice(&self.identifier);
        bytes[16..24].copy_from_slice(&self.version.to_le_bytes());
        bytes[24..56].copy_from_slice(&self.driver);
        bytes[56..64].copy_from_slice(&self.number.to_le_bytes());
    }

    /// From 64 bytes.
    fn get(bytes: &[u8]) -> Option<Identity> {
        let (identifier, rest) = bytes.split_first_chunk()?;
        let (version, rest) = rest.split_first_chunk()?;
        let (driver, rest) = rest.split_first_chunk()?;
        let (number, _) = rest.split_first_chunk()?;
        Some(Identity {
            identifier: *identifier,
            version: u64::from_le_bytes(*version),
            driver: *driver,
            number: u64::from_le_bytes(*number),
        })
    }
}

/// Why the first bytes of a file are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// The file does not begin as a header does.
    Foreign,
    /// The file begins as a header does, or is empty.
    Damaged,
    /// The file begins with zeros, as files do after a power failure.
    Zeros,
    /// A newer program has written the file.
    Newer(u32),
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn close(bytes: &mut [u8]) {
    let body = bytes.len() - 4;
    let crc = crc32c::crc32c(&bytes[..body]);
    bytes[body..].copy_from_slice(&crc.to_le_bytes());
}

fn is_closed(bytes: &[u8]) -> bool {
    bytes.split_last_chunk().is_some_and(|(body, crc)| crc32c::crc32c(body) == u32::from_le_bytes(*crc))
}

/// The identity in a header of `length` bytes with that magic. `bytes` has the file's first bytes.
fn header(bytes: &[u8], magic: [u8; 8], length: usize) -> Result<Identity, Bad> {
    // A file that was cut off may have none of it.
    let has_magic = bytes.iter().zip(&magic).all(|(one, other)| one == other);
    let bad = match bytes.get(..magic.len()) {
        _ if has_magic => Bad::Damaged,
        Some([0, 0, 0, 0, 0, 0, 0, 0]) => Bad::Zeros,
        _ => Bad::Foreign,
    };
    let says = |at| u32_at(bytes, at).ok_or(bad);
    let (version, whole) = (says(8)?, says(12)? as usize);
    let checked = bytes.get(..whole).filter(|header| header.len() >= 16 && is_closed(header)).ok_or(bad)?;
    match version {
        _ if !has_magic => Err(bad),
        VERSION if whole == length => checked.get(16..).and_then(Identity::get).ok_or(bad),
        version => Err(Bad::Newer(version)),
    }
}

/// The header of a value file.
pub(crate) fn value_header(identity: &Identity) -> [u8; VALUE_HEADER] {
    let mut bytes = [0; VALUE_HEADER];
    begin(&mut bytes, VALUE_MAGIC, identity);
    close(&mut bytes);
    bytes
}

fn begin(bytes: &mut [u8], magic: [u8; 8], identity: &Identity) {
    let length = bytes.len() as u32;
    bytes[..8].copy_from_slice(&magic);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&length.to_le_bytes());
    identity.put(&mut bytes[16..80]);
}

/// The identity in the first bytes of a value file.
pub(crate) fn read_value_header(bytes: &[u8]) -> Result<Identity, Bad> {
    header(bytes, VALUE_MAGIC, VALUE_HEADER)
}

/// The header of an index file of that many blocks.
pub(crate) fn index_header(identity: &Identity, blocks: u32) -> [u8; INDEX_HEADER] {
    let mut bytes = [0; INDEX_HEADER];
    begin(&mut bytes, INDEX_MAGIC, identity);
    bytes[80..84].copy_from_slice(&blocks.to_le_bytes());
    close(&mut bytes);
    bytes
}

/// The identity and the number of blocks in the first bytes of an index file of `length` bytes.
pub(crate) fn read_index_header(bytes: &[u8], length: u64) -> Result<(Identity, u32), Bad> {
    let identity = header(bytes, INDEX_MAGIC, INDEX_HEADER)?;
    let blocks = u32_at(bytes, 80).ok_or(Bad::Damaged)?;
    let whole = (1..=MOST_BLOCKS).contains(&blocks) && index_length(blocks) <= length;
    if whole { Ok((identity, blocks)) } else { Err(Bad::Damaged) }
}

/// The length of an index file.
pub(crate) fn index_length(blocks: u32) -> u64 {
    INDEX_HEADER as u64 + u64::from(blocks) * BLOCK as u64
}

/// The number of blocks of an index file of that length, if a new or a grown one can have it.
pub(crate) fn blocks_of(length: u64) -> Option<u32> {
    let mut blocks = FIRST_BLOCKS;
    while blocks <= MOST_BLOCKS {
        if index_length(blocks) == length {
            return Some(blocks);
        }
        blocks *= 2;
    }
    None
}

/// Whether the first bytes of a file may be those of one of the cache's files that is not complete.
pub(crate) fn may_be_begun(first: &[u8]) -> bool {
    let begins = |magic: &[u8]| first.iter().zip(magic).all(|(one, other)| one == other);
    begins(&VALUE_MAGIC) || begins(&INDEX_MAGIC) || begins(&[0; 8])
}

/// Where a block starts.
pub(crate) fn block_at(block: u32) -> u64 {
    index_length(block)
}

/// The block where the search for a hash begins.
pub(crate) fn home(hash: u64, blocks: u32) -> u32 {
    // Less than `blocks`, so it fits.
    (((hash >> 32) * u64::from(blocks)) >> 32) as u32
}

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) offset: u64,
    /// Of head, key and value.
    pub(crate) length: u32,
}

/// A slot that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) hash: u64,
    pub(crate) place: Place,
}

/// The words of a slot, in the order of its bytes.
pub(crate) type Words = [u32; SLOT / 4];

impl Slot {
    pub(crate) fn encode(&self) -> [u8; SLOT] {
        let mut bytes = [0; SLOT];
        bytes[..8].copy_from_slice(&self.hash.to_le_bytes());
        // The value file has less than 4 GiB.
        bytes[8..12].copy_from_slice(&((self.place.offset / ALIGN) as u32).to_le_bytes());
        bytes[12..16].copy_from_slice(&self.place.length.to_le_bytes());
        close(&mut bytes);
        bytes
    }

    /// None: its checksum is wrong.
    pub(crate) fn decode(words: &Words) -> Option<Slot> {
        let mut bytes = [0; SLOT];
        for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        let [low, high, offset, length, _] = *words;
        let place = Place { offset: u64::from(offset) * ALIGN, length };
        is_closed(&bytes).then_some(Slot { hash: u64::from(low) | u64::from(high) << 32, place })
    }
}

/// The head of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) key: u32,
    pub(crate) value: u32,
    /// Checksum of key and value.
    pub(crate) crc: u32,
    pub(crate) hash: u64,
    pub(crate) tag: u32,
}

impl Head {
    pub(crate) fn encode(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        let words = [RECORD_MAGIC, self.key, self.value, self.crc];
        for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes[16..24].copy_from_slice(&self.hash.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.tag.to_le_bytes());
        close(&mut bytes);
        bytes
    }

    /// Whether a record may begin with these bytes.
    pub(crate) fn may_begin(bytes: &[u8]) -> bool {
        bytes.first_chunk().is_some_and(|magic| u32::from_le_bytes(*magic) == RECORD_MAGIC)
    }

    /// None: no head, or not one of the file with this tag.
    pub(crate) fn decode(bytes: &[u8; HEAD], tag: u32) -> Option<Head> {
        let word = |at| u32_at(bytes, at);
        let head = Head {
            key: word(4)?,
            value: word(8)?,
            crc: word(12)?,
            hash: u64::from(word(16)?) | u64::from(word(20)?) << 32,
            tag: word(24)?,
        };
        let whole = word(0)? == RECORD_MAGIC && head.tag == tag && head.key > 0 && head.value > 0;
        (whole && is_closed(bytes)).then_some(head)
    }

    /// The length of the record.
    pub(crate) fn length(&self) -> u64 {
        HEAD as u64 + u64::from(self.key) + u64::from(self.value)
    }
}

/// The checksum of key and value.
pub(crate) fn payload_crc(key: &[u8], value: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), value)
}

/// XXH64 with seed 0 (github.com/Cyan4973/xxHash, doc/xxhash_spec.md).
pub(crate) fn hash(key: &[u8]) -> u64 {
    const P1: u64 = 0x9E37_79B1_85EB_CA87;
    const P2: u64 = 0xC2B2_AE3D_27D4_EB4F;
    const P3: u64 = 0x1656_67B1_9E37_79F9;
    const P4: u64 = 0x85EB_CA77_C2B2_AE63;
    const P5: u64 = 0x27D4_EB2F_1656_67C5;
    fn round(sum: u64, lane: u64) -> u64 {
        sum.wrapping_add(lane.wrapping_mul(P2)).rotate_left(31).wrapping_mul(P1)
    }
    let lane = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let stripes = key.chunks_exact(32);
    let mut rest = stripes.remainder();
    let mut sum = P5;
    if key.len() >= 32 {
        let mut sums = [P1.wrapping_add(P2), P2, 0, P1.wrapping_neg()];
        for stripe in stripes {
            for (sum, bytes) in sums.iter_mut().zip(stripe.chunks_exact(8)) {
                *sum = round(*sum, lane(bytes));
            }
        }
        let [a, b, c, d] = sums;
        sum = a.rotate_left(1).wrapping_add(b.rotate_left(7));
        sum = sum.wrapping_add(c.rotate_left(12)).wrapping_add(d.rotate_left(18));
        for one in sums {
            sum = (sum ^ round(0, one)).wrapping_mul(P1).wrapping_add(P4);
        }
    }
    sum = sum.wrapping_add(key.len() as u64);
    while let Some((bytes, after)) = rest.split_first_chunk() {
        sum = (sum ^ round(0, u64::from_le_bytes(*bytes))).rotate_left(27).wrapping_mul(P1).wrapping_add(P4);
        rest = after;
    }
    if let Some((bytes, after)) = rest.split_first_chunk() {
        sum = (sum ^ u64::from(u32::from_le_bytes(*bytes)).wrapping_mul(P1)).rotate_left(23);
        sum = sum.wrapping_mul(P2).wrapping_add(P3);
        rest = after;
    }
    for &byte in rest {
        sum = (sum ^ u64::from(byte).wrapping_mul(P5)).rotate_left(11).wrapping_mul(P1);
    }
    sum = (sum ^ sum >> 33).wrapping_mul(P2);
    sum = (sum ^ sum >> 29).wrapping_mul(P3);
    sum ^ sum >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_xxh64() {
        // The first three are in the specification's test vectors, as others publish them; the last has all steps.
        assert_eq!(hash(b""), 0xEF46_DB37_51D8_E999);
        assert_eq!(hash(b"a"), 0xD24E_C4F1_A98C_6E5B);
        assert_eq!(hash(b"abc"), 0x44BC_2CF5_AD77_0999);
        assert_eq!(hash(b"Nobody inspects the spammish repetition"), 0xFBCE_A83C_8A37_8BF1);
    }

    #[test]
    fn headers_slots_and_heads_are_read_as_they_were_written() {
        let identity =
            Identity { identifier: [7; 16], version: 1 << 60, driver: [9; 32], number: u64::MAX - 3 };
        assert_eq!(read_value_header(&value_header(&identity)), Ok(identity));
        let index = index_header(&identity, 3);
        assert_eq!(read_index_header(&index, index_length(3)), Ok((identity, 3)));
        assert_eq!(read_index_header(&index, index_length(3) - 1), Err(Bad::Damaged), "shorter than it says");
        let slot = Slot { hash: 0x0123_4567_89AB_CDEF, place: Place { offset: 8 << 20, length: 77 } };
        let mut words = Words::default();
        for (word, bytes) in words.iter_mut().zip(slot.encode().chunks_exact(4)) {
            *word = u32::from_le_bytes(bytes.try_into().unwrap());
        }
        assert_eq!(Slot::decode(&words), Some(slot));
        assert_eq!(Slot::decode(&Words::default()), None);
        let head = Head { key: 1, value: 2, crc: 3, hash: 4, tag: 5 };
        assert_eq!(Head::decode(&head.encode(), 5), Some(head));
        assert_eq!(Head::decode(&head.encode(), 6), None);
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_noticed() {
        let identity = Identity { identifier: [7; 16], version: 1, driver: [9; 32], number: 3 };
        let header = value_header(&identity);
        for bit in 0..header.len() * 8 {
            let mut flipped = header;
            flipped[bit / 8] ^= 1 << (bit % 8);
            let expected = if bit < 64 { Bad::Foreign } else { Bad::Damaged };
            assert_eq!(read_value_header(&flipped), Err(expected), "bit {bit}");
        }
        let mut newer = header;
        newer[8..12].copy_from_slice(&2u32.to_le_bytes());
        close(&mut newer);
        assert_eq!(read_value_header(&newer), Err(Bad::Newer(2)));
        assert_eq!(read_value_header(b""), Err(Bad::Damaged));
        assert_eq!(read_value_header(b"not a cache"), Err(Bad::Foreign));
    }
}
