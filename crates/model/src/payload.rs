//! The payloads of modules and artifacts, byte by byte (docs/format.md). Those of recipes and of what they name are
//! encoded by [`crate::key`].
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use std::time::Duration;

use ash::vk;

use crate::failed::Refusals;
use vkstash_host::memory;

/// Bytes of a module's record before its code.
const RECORD_FLAGS: usize = 4;

/// A module's payload (docs/format.md): its flags, then the SPIR-V words. None where there is no memory for it.
pub fn module_record(flags: vk::ShaderModuleCreateFlags, code: &[u8]) -> Option<Box<[u8]>> {
    memory::joined(&[&flags.as_raw().to_le_bytes(), code]).map(Vec::into_boxed_slice)
}

/// A module's flags, and its SPIR-V as bytes, from a payload that [`module_record`] made. None: the payload is too
/// short.
pub fn module_parts(record: &[u8]) -> Option<(vk::ShaderModuleCreateFlags, &[u8])> {
    let (flags, code) = record.split_first_chunk::<RECORD_FLAGS>()?;
    Some((vk::ShaderModuleCreateFlags::from_raw(u32::from_le_bytes(*flags)), code))
}

/// A module's flags, and its SPIR-V as words, from a payload that [`module_record`] made. None: the payload is too
/// short, or there is no memory for the words.
pub fn module(record: &[u8]) -> Option<(vk::ShaderModuleCreateFlags, Vec<u32>)> {
    let (flags, code) = module_parts(record)?;
    let mut words: Vec<u32> = memory::room(code.len() / 4)?;
    words.extend(code.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])));
    Some((flags, words))
}

/// The payload of a cost (docs/format.md): what a compile took that left no artifact.
pub fn cost_record(cost: Duration) -> [u8; 4] {
    u32::try_from(cost.as_micros()).unwrap_or(u32::MAX).to_le_bytes()
}

/// The cost in a payload that [`cost_record`] made. None: the payload has another length.
pub fn cost(payload: &[u8]) -> Option<Duration> {
    Some(Duration::from_micros(u32::from_le_bytes(payload.try_into().ok()?).into()))
}

/// Length of [`prefix`].
pub const PREFIX: usize = 8;

/// The cache that the program passed to a call that the driver answered from its caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundWith {
    /// No cache.
    NoCache,
    /// A cache that was created empty.
    Cache,
    /// A cache that was created with data of an earlier run.
    LoadedCache,
}

/// The payload of a record of the kind "found" (docs/format.md): how long the call took that the driver answered from
/// its caches, and the cache that was passed to it.
pub fn found_record(took: Duration, with: FoundWith) -> Box<[u8]> {
    let [a, b, c, d] = cost_record(took);
    match with {
        FoundWith::NoCache => Box::new([a, b, c, d]),
        FoundWith::Cache => Box::new([a, b, c, d, 1]),
        FoundWith::LoadedCache => Box::new([a, b, c, d, 2, 0]),
    }
}

/// The cache that a payload of [`found_record`] of this length names.
pub fn found_with(length: u64) -> Option<FoundWith> {
    match length {
        4 => Some(FoundWith::NoCache),
        5 => Some(FoundWith::Cache),
        6 => Some(FoundWith::LoadedCache),
        _ => None,
    }
}

/// The time and the cache in a payload that [`found_record`] made.
pub fn found(payload: &[u8]) -> Option<(Duration, FoundWith)> {
    let with = match payload {
        [_, _, _, _] => FoundWith::NoCache,
        [_, _, _, _, 1] => FoundWith::Cache,
        [_, _, _, _, 2, 0] => FoundWith::LoadedCache,
        _ => return None,
    };
    Some((cost(payload.get(..4)?)?, with))
}

/// The bytes before the blob in an artifact's payload (docs/format.md): the microseconds that the compile took, or the
/// driver's answer from its own caches; the form of the rest; and the number of refusals in a row.
pub fn prefix(cost: Duration, refusals: Refusals) -> [u8; PREFIX] {
    let mut bytes = [0; PREFIX];
    bytes[..4].copy_from_slice(&cost_record(cost));
    bytes[4] = FORM_CACHE_BLOB;
    bytes[5] = refusals.0;
    bytes
}

/// Form of an artifact's payload: the bytes after the prefix are the data of a VkPipelineCache.
const FORM_CACHE_BLOB: u8 = 1;

/// An artifact's payload: the cost of the compile and the blob. None for a form that this version does not
/// know.
pub fn parse(payload: &[u8]) -> Option<(Duration, &[u8])> {
    let (prefix, blob) = payload.split_at_checked(PREFIX)?;
    let micros = u32::from_le_bytes([prefix[0], prefix[1], prefix[2], prefix[3]]);
    (prefix[4] == FORM_CACHE_BLOB).then_some((Duration::from_micros(micros.into()), blob))
}

/// Form of an artifact's payload: after the prefix stand the binaries of shader objects.
const FORM_SHADERS: u8 = 4;

/// The properties that decide which drivers take a shader binary: VkPhysicalDeviceShaderObjectPropertiesEXT, and the
/// driver's options, which these do not cover. RADV (Mesa 25.0.7) compares the UUID alone, which does not change with
/// the options that make it compile differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaderBinaries {
    /// shaderBinaryUUID.
    pub uuid: [u8; 16],
    /// shaderBinaryVersion.
    pub version: u32,
    /// Digest of the driver's options (docs/format.md).
    pub options: Digest,
}

/// A SHA-256.
pub type Digest = [u8; 32];

impl ShaderBinaries {
    /// Whether a driver with these properties takes binaries of a driver with the properties `made`, as the
    /// specification guarantees, and would compile the same from the code.
    pub fn take(&self, made: &ShaderBinaries) -> bool {
        self.uuid == made.uuid && self.version >= made.version && self.options == made.options
    }
}

/// An artifact's payload made of the binaries of shader objects, in the order of the recipe. None where there is no
/// memory for it.
pub fn shaders_payload(
    cost: Duration,
    refusals: Refusals,
    made_by: &ShaderBinaries,
    binaries: &[&[u8]],
) -> Option<Vec<u8>> {
    let most = binaries.iter().map(|binary| 4 + binary.len()).sum::<usize>();
    let mut payload = memory::room(PREFIX + size_of::<ShaderBinaries>() + most)?;
    payload.extend(prefix(cost, refusals));
    payload[4] = FORM_SHADERS;
    payload.extend(made_by.uuid);
    payload.extend(made_by.version.to_le_bytes());
    payload.extend(made_by.options);
    for binary in binaries {
        payload.extend((binary.len() as u32).to_le_bytes());
        payload.extend(binary.iter());
    }
    Some(payload)
}

/// What stands in a payload that [`shaders_payload`] made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredShaders<'a> {
    /// Time that the driver needed to compile them.
    pub cost: Duration,
    /// Which drivers take them.
    pub made_by: ShaderBinaries,
    /// The binaries, in the order of the recipe.
    pub binaries: Vec<&'a [u8]>,
}

impl StoredShaders<'_> {
    /// Reads a payload. None: it has another form, or its lengths do not fit.
    pub fn parse(payload: &[u8]) -> Option<StoredShaders<'_>> {
        let (head, rest) = payload.split_first_chunk::<PREFIX>()?;
        if head[4] != FORM_SHADERS {
            return None;
        }
        let (uuid, rest) = rest.split_first_chunk()?;
        let (version, rest) = rest.split_first_chunk()?;
        let (options, mut rest) = rest.split_first_chunk()?;
        let made_by =
            ShaderBinaries { uuid: *uuid, version: u32::from_le_bytes(*version), options: *options };
        let mut binaries = Vec::new();
        while !rest.is_empty() {
            let (length, behind) = rest.split_first_chunk()?;
            let (binary, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            binaries.push(binary);
            rest = behind;
        }
        Some(StoredShaders { cost: cost(&head[..4])?, made_by, binaries })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shader_binaries_are_read_as_they_were_written_and_no_cut_one_is() {
        let made_by = ShaderBinaries { uuid: [7; 16], version: 3, options: [9; 32] };
        let binaries = [&[1; 5][..], &[], &[2; 40]];
        let payload = shaders_payload(Duration::from_micros(9), Refusals(2), &made_by, &binaries).unwrap();
        let stored = StoredShaders::parse(&payload).unwrap();
        assert_eq!((stored.cost, stored.made_by), (Duration::from_micros(9), made_by));
        assert!(stored.binaries.iter().copied().eq(binaries));
        assert_eq!(Refusals::of(&payload), Refusals(2));
        assert_eq!(parse(&payload), None);
        for length in 0..payload.len() {
            // A cut behind a whole binary gives fewer of them, which are not those of the recipe.
            let cut = StoredShaders::parse(&payload[..length]);
            assert!(cut.is_none_or(|cut| cut.binaries.len() < binaries.len()), "{length}");
        }
    }

    #[test]
    fn a_driver_takes_binaries_of_the_same_name_and_options_and_no_higher_version() {
        let of = |byte, version, option| ShaderBinaries { uuid: [byte; 16], version, options: [option; 32] };
        assert!(of(1, 2, 0).take(&of(1, 2, 0)) && of(1, 3, 0).take(&of(1, 2, 0)));
        assert!(!of(1, 1, 0).take(&of(1, 2, 0)) && !of(2, 3, 0).take(&of(1, 2, 0)));
        assert!(!of(1, 2, 1).take(&of(1, 2, 0)));
    }

    #[test]
    fn what_was_found_is_read_as_it_was_written_and_nothing_else_is() {
        let took = Duration::from_micros(60);
        for with in [FoundWith::NoCache, FoundWith::Cache, FoundWith::LoadedCache] {
            let record = found_record(took, with);
            assert_eq!(found(&record), Some((took, with)));
            assert_eq!(found_with(record.len() as u64), Some(with));
        }
        for other in [&[][..], &[1, 0, 0], &[60, 0, 0, 0, 0], &[60, 0, 0, 0, 2], &[60, 0, 0, 0, 0, 0]] {
            assert_eq!(found(other), None, "{other:?}");
        }
    }
}
