//! The header of a segment file. docs/format.md describes the bytes.

use crate::format::bytes::{Reader, close_block, is_closed, put_u32, put_u64};
use crate::format::sizes::{FILE_MAGIC, HEADER_BYTES, VERSION};
use sha2::{Digest, Sha256};

use crate::format::device::{DEVICE_HEADER_BYTES, DeviceHeader};
use crate::format::refusal::Refusal;

/// What all files of a part have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PartIdentity {
    /// Shared by all devices.
    Portable,
    /// Bound to a device.
    Device(DeviceHeader),
}

impl PartIdentity {
    fn kind(&self) -> u32 {
        match self {
            PartIdentity::Portable => 1,
            PartIdentity::Device(_) => 2,
        }
    }

    fn device_bytes(&self) -> [u8; DEVICE_HEADER_BYTES] {
        match self {
            PartIdentity::Portable => [0; DEVICE_HEADER_BYTES],
            PartIdentity::Device(header) => header.encode(),
        }
    }

    /// Whether the part's folder has this name.
    pub(crate) fn has_folder(&self, name: &str) -> bool {
        match self {
            PartIdentity::Portable => name == "portable",
            PartIdentity::Device(header) => name.strip_prefix("device-") == Some(&*header.short_digest()),
        }
    }

    /// The tag that each record of this part has.
    pub(crate) fn tag(&self) -> [u8; 8] {
        let mut hash = Sha256::new();
        hash.update(b"vkstash part 1");
        hash.update(self.kind().to_le_bytes());
        hash.update(self.device_bytes());
        let digest: [u8; 32] = hash.finalize().into();
        let mut tag = [0; 8];
        tag.copy_from_slice(&digest[..8]);
        tag
    }

    /// Why a file of this identity does not belong to `expected`.
    pub(crate) fn refused_by(&self, expected: &PartIdentity) -> Option<Refusal> {
        match (self, expected) {
            (PartIdentity::Portable, PartIdentity::Portable) => None,
            (PartIdentity::Device(found), PartIdentity::Device(expected)) => {
                found.mismatch(expected).map(Refusal::OtherDevice)
            }
            _ => Some(Refusal::OtherPart),
        }
    }
}

/// The header of a segment file. A copy is before the footer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    /// The part whose records the file has.
    pub(crate) identity: PartIdentity,
    /// Creation time, in Unix milliseconds.
    pub(crate) created_unix_ms: u64,
    /// Random number of this file.
    pub(crate) serial: u64,
}

impl FileHeader {
    /// The encoded header.
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&FILE_MAGIC);
        put_u32(&mut bytes, 8, VERSION);
        put_u32(&mut bytes, 12, HEADER_BYTES as u32);
        put_u32(&mut bytes, 16, self.identity.kind());
        bytes[20..92].copy_from_slice(&self.identity.device_bytes());
        put_u64(&mut bytes, 96, self.created_unix_ms);
        put_u64(&mut bytes, 104, self.serial);
        close_block(&mut bytes);
        bytes
    }

    /// `Ok(None)`: the header is damaged or missing. `Err`: it is valid, but not for this program.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<FileHeader>, Refusal> {
        let mut reader = Reader::new(bytes);
        if reader.array::<8>() != Some(FILE_MAGIC) {
            return Ok(None);
        }
        let (Some(version), Some(length)) = (reader.u32(), reader.u32()) else { return Ok(None) };
        if version != VERSION {
            // A header of another version may be longer than what was read. It must be valid to be believed.
            let whole = bytes.get(..length as usize).filter(|_| length > 16);
            return if whole.is_some_and(is_closed) { Err(Refusal::Version(version)) } else { Ok(None) };
        }
        let Some(bytes) = bytes.get(..HEADER_BYTES).filter(|bytes| is_closed(bytes)) else { return Ok(None) };
        let mut reader = Reader::new(&bytes[16..]);
        let mut decode = || {
            let (kind, device, flags) = (reader.u32()?, reader.array()?, reader.u32()?);
            Some((kind, device, flags, reader.u64()?, reader.u64()?))
        };
        let Some((kind, device, flags, created_unix_ms, serial)) = decode() else { return Ok(None) };
        if flags != 0 {
            return Err(Refusal::Flags(flags));
        }
        let identity = match kind {
            1 => PartIdentity::Portable,
            2 => PartIdentity::Device(DeviceHeader::decode(&device).ok_or(Refusal::OtherPart)?),
            _ => return Err(Refusal::OtherPart),
        };
        Ok(Some(FileHeader { identity, created_unix_ms, serial }))
    }

    /// Bytes that [`FileHeader::decode`] needs to recognise other versions.
    pub(crate) const LOOK_AT: usize = 4096;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_crc32c() {
        assert_eq!(crc32c::crc32c(b"123456789"), 0xE306_9283);
    }

    #[test]
    fn a_header_survives_its_own_encoding_and_no_other_bit() {
        let header = FileHeader { identity: PartIdentity::Portable, created_unix_ms: 1, serial: 2 };
        let bytes = header.encode();
        assert_eq!(FileHeader::decode(&bytes), Ok(Some(header)));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FileHeader::decode(&flipped), Ok(None), "bit {bit}");
        }
    }

    #[test]
    fn another_version_is_refused_by_its_number_and_a_damaged_version_is_not() {
        for (version, length) in [(VERSION - 1, HEADER_BYTES as u32), (99, 256)] {
            let mut bytes = vec![0; length as usize];
            bytes[..8].copy_from_slice(&FILE_MAGIC);
            put_u32(&mut bytes, 8, version);
            put_u32(&mut bytes, 12, length);
            assert_eq!(FileHeader::decode(&bytes), Ok(None));
            close_block(&mut bytes);
            assert_eq!(FileHeader::decode(&bytes), Err(Refusal::Version(version)));
        }
    }

    #[test]
    fn flags_that_nobody_knows_refuse_the_file() {
        let header = FileHeader { identity: PartIdentity::Portable, created_unix_ms: 1, serial: 2 };
        let mut bytes = header.encode();
        put_u32(&mut bytes, 92, 4);
        close_block(&mut bytes);
        assert_eq!(FileHeader::decode(&bytes), Err(Refusal::Flags(4)));
    }
}
