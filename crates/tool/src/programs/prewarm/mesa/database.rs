//! The files of Mesa's single-file cache, as `src/util/fossilize_db.c` of Mesa reads and writes them.
//!
//! `NAME.foz` is a container of Fossilize (`vkstash_fossilize::archive::layout`) whose entries are named by the 40
//! digits of Mesa's cache key. `NAME_idx.foz` is one, too: each entry has the same name, and its payload is the place
//! of the entry's header in the other file, which was written before. Mesa reads entries through the index only, so
//! what a killed worker has left half-written hurts nobody; but tools of Fossilize would find nothing behind it.
//! So complete entries are copied. Their CRC is not looked at: Mesa does that, and its CRC-32 is inverted.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use vkstash_fossilize::archive::layout::{EMPTY, HEADER, MAGIC, MAX_PAYLOAD, NAME, OLDEST_VERSION, VERSION};

use crate::system::new_file::NewFile;

/// An entry of the index: name, header, and the place.
const INDEX_ENTRY: usize = NAME + HEADER + size_of::<u64>();
/// The header of such an entry: eight bytes, not compressed, no CRC.
const INDEX_HEADER: [u32; 4] = [8, 1, 0, 8];

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Database {
    pub(crate) entries: u64,
    /// The size of both files.
    pub(crate) bytes: u64,
}

/// Copies the complete entries of the cache in the folder `cache` to `NAME.foz` and `NAME_idx.foz` in the folder `to`.
/// None, and nothing is written: there are none.
pub(crate) fn copy(cache: &Path, to: &Path, name: &str) -> io::Result<Option<Database>> {
    let [data, index] = ["foz_cache.foz", "foz_cache_idx.foz"].map(|name| cache.join(name));
    let data = File::open(data)?;
    let mut new_data = Output::new(to.join(format!("{name}.foz")))?;
    let mut new_index = Output::new(to.join(format!("{name}_idx.foz")))?;
    let header = INDEX_HEADER.map(u32::to_le_bytes).concat();
    let mut known = HashSet::new();
    for (key, place) in places(&fs::read(index)?)? {
        let Some(entry) = complete_entry(&data, &key, place)?.filter(|_| known.insert(key)) else { continue };
        let place = new_data.bytes + NAME as u64;
        new_data.write(&[&key, &entry])?;
        new_index.write(&[&key, &header, &place.to_le_bytes()])?;
    }
    if known.is_empty() {
        return Ok(None);
    }
    let bytes = new_data.bytes + new_index.bytes;
    new_data.finish()?;
    new_index.finish()?;
    Ok(Some(Database { entries: known.len() as u64, bytes }))
}

/// The names in an index, and the places that it names.
fn places(index: &[u8]) -> io::Result<Vec<([u8; NAME], u64)>> {
    // A process that has written nothing leaves an empty file.
    if index.is_empty() {
        return Ok(Vec::new());
    }
    let after_magic = index.strip_prefix(&MAGIC).and_then(|rest| rest.split_first());
    match after_magic {
        Some((version, entries)) if (OLDEST_VERSION..=VERSION).contains(version) => {
            let entries = entries.chunks_exact(INDEX_ENTRY);
            let place =
                |entry: &[u8]| Some((*entry.first_chunk()?, u64::from_le_bytes(*entry.last_chunk()?)));
            Ok(entries.filter_map(place).collect())
        }
        _ => Err(io::Error::other("its index has a format that is not known")),
    }
}

/// Header and payload of the entry whose header is at this place. None: it is not complete.
fn complete_entry(data: &File, name: &[u8; NAME], place: u64) -> io::Result<Option<Vec<u8>>> {
    let mut head = [0; NAME + HEADER];
    let Some(start) = place.checked_sub(NAME as u64) else { return Ok(None) };
    if !is_read(data, &mut head, start)? || head[..NAME] != *name {
        return Ok(None);
    }
    let mut entry = head[NAME..].to_vec();
    let stored = entry.first_chunk().map_or(u32::MAX, |bytes| u32::from_le_bytes(*bytes));
    if stored > MAX_PAYLOAD {
        return Ok(None);
    }
    entry.resize(HEADER + stored as usize, 0);
    let is_whole = is_read(data, &mut entry[HEADER..], place + HEADER as u64)?;
    Ok(is_whole.then_some(entry))
}

/// False: the file ends before that.
fn is_read(file: &File, to: &mut [u8], at: u64) -> io::Result<bool> {
    match file.read_exact_at(to, at) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// A container that is being written; it gets its name when it is complete.
struct Output {
    file: NewFile,
    path: PathBuf,
    bytes: u64,
}

impl Output {
    fn new(path: PathBuf) -> io::Result<Output> {
        let mut output = Output { file: NewFile::create(&path)?, path, bytes: 0 };
        output.write(&[&MAGIC, &[VERSION]])?;
        debug_assert_eq!(output.bytes, EMPTY);
        Ok(output)
    }

    fn write(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let bytes = parts.concat();
        self.bytes += bytes.len() as u64;
        (&self.file).write_all(&bytes)
    }

    /// Everybody may read it, as other files of an image.
    fn finish(self) -> io::Result<()> {
        self.file.finish()?;
        fs::set_permissions(&self.path, fs::Permissions::from_mode(0o644))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(digit: char) -> [u8; NAME] {
        [digit as u8; NAME]
    }

    /// A cache of these entries, as Mesa writes it.
    fn cache(entries: &[(char, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let start = [MAGIC.as_slice(), &[VERSION]].concat();
        let (mut data, mut index) = (start.clone(), start);
        for (digit, payload) in entries {
            data.extend(key(*digit));
            let place = data.len() as u64;
            let size = payload.len() as u32;
            data.extend([size, 1, 0, size].map(u32::to_le_bytes).concat());
            data.extend(*payload);
            index.extend([&key(*digit)[..], &INDEX_HEADER.map(u32::to_le_bytes).concat()].concat());
            index.extend(place.to_le_bytes());
        }
        fs::write(folder.path().join("foz_cache.foz"), data).unwrap();
        fs::write(folder.path().join("foz_cache_idx.foz"), index).unwrap();
        folder
    }

    fn changed(cache: &Path, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(cache.join(name)).unwrap();
        change(&mut bytes);
        fs::write(cache.join(name), bytes).unwrap();
    }

    fn same(cache: &Path, to: &Path) -> bool {
        let same =
            |one: &str, other: &str| fs::read(cache.join(one)).unwrap() == fs::read(to.join(other)).unwrap();
        same("foz_cache.foz", "name.foz") && same("foz_cache_idx.foz", "name_idx.foz")
    }

    #[test]
    fn what_mesa_has_written_in_order_is_copied_as_it_is() {
        let (cache, to) =
            (cache(&[('a', b"one"), ('b', b""), ('c', b"three")]), tempfile::tempdir().unwrap());
        let written = copy(cache.path(), to.path(), "name").unwrap().unwrap();
        assert_eq!(written.entries, 3);
        assert!(same(cache.path(), to.path()));
        let sizes = ["name.foz", "name_idx.foz"].map(|name| to.path().join(name).metadata().unwrap().len());
        assert_eq!(written.bytes, sizes.iter().sum::<u64>());
    }

    #[test]
    fn of_an_entry_that_is_cut_wrongly_named_or_there_twice_nothing_is_copied() {
        let good = cache(&[('a', b"one"), ('b', b"two")]);
        let bad =
            cache(&[('a', b"one"), ('b', b"two"), ('a', b"other"), ('d', b"no name"), ('e', b"is cut")]);
        changed(bad.path(), "foz_cache.foz", |bytes| {
            let at = bytes.iter().position(|byte| *byte == b'd').unwrap();
            bytes[at] = b'f';
            bytes.pop();
        });
        changed(bad.path(), "foz_cache_idx.foz", |bytes| bytes.extend(b"half an entry"));
        let to = tempfile::tempdir().unwrap();
        assert_eq!(copy(bad.path(), to.path(), "name").unwrap().unwrap().entries, 2);
        assert!(same(good.path(), to.path()));
    }

    #[test]
    fn a_cache_without_entries_gives_no_file_and_one_of_another_format_an_error() {
        let (empty, to) = (cache(&[]), tempfile::tempdir().unwrap());
        assert_eq!(copy(empty.path(), to.path(), "name").unwrap(), None);
        changed(empty.path(), "foz_cache_idx.foz", Vec::clear);
        assert_eq!(copy(empty.path(), to.path(), "name").unwrap(), None);
        changed(empty.path(), "foz_cache_idx.foz", |bytes| bytes.extend(b"something else"));
        assert!(copy(empty.path(), to.path(), "name").is_err());
        assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0);
    }
}
