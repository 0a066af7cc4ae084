//! Reading the records of a part without taking part in it: nothing is created, locked or written.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use crate::format::table;
use crate::format::table::Row;
use crate::segment::file::{DamagedIndex, Location, Read, Segment};
use crate::segment::load;
use vkstash_host::disk::errors::OpenError;
use vkstash_host::disk::folder::Folder;
use vkstash_host::disk::ops as disk;
use vkstash_host::sort;
use vkstash_model::record::{Key, Kind};

/// How often files may be merged between listing and opening them before that is an error.
const ATTEMPTS: usize = 16;

/// The segment was merged into a file that was not listed.
struct Merged;

/// The segments of a part, as they were when they were opened.
pub struct Browser {
    /// The newest first.
    segments: Vec<Arc<Segment>>,
}

impl Browser {
    /// Opens a part's segments, by the names of the folders. Segments that cannot be used are left out.
    pub fn open(root: &Path, application: &str, part: &str) -> Result<Browser, OpenError> {
        let folder = Arc::new(Folder::root(root, false)?.sub(application, false)?.sub(part, false)?);
        let unreadable = |source| OpenError::Unreadable { path: folder.path().to_owned(), source };
        for _ in 0..ATTEMPTS {
            let mut names = folder.names(".vks").map_err(unreadable)?;
            names.reverse();
            let of_part = |name: &String| match load::load(&folder, name, None) {
                Ok(loaded) => {
                    let is_own =
                        loaded.header.as_ref().is_some_and(|header| header.identity.has_folder(part));
                    is_own.then_some(Ok(loaded.segment))
                }
                Err(_) if matches!(disk::statat(&*folder, name), Err(Errno::NOENT)) => Some(Err(Merged)),
                Err(_) => None,
            };
            if let Ok(segments) = names.iter().filter_map(of_part).collect() {
                return Ok(Browser { segments });
            }
        }
        Err(unreadable(io::ErrorKind::ResourceBusy.into()))
    }

    /// Calls `each` with the newest good record of each key of the kinds that are `wanted`.
    pub fn for_each(&self, wanted: &dyn Fn(Kind) -> bool, each: &mut dyn FnMut(Kind, &Key, &[u8])) {
        let mut given = HashSet::new();
        let has_any = |segment: &Segment| {
            let is_there = |&kind: &Kind| wanted(kind) && segment.has_any(kind);
            Kind::ALL.iter().any(is_there)
        };
        for segment in self.segments.iter().filter(|segment| has_any(segment)) {
            newest(segment, &DamagedIndex::WHOLLY, wanted, &mut |kind, key, payload| {
                if given.insert((kind.position(), *key)) {
                    each(kind, key, payload);
                }
            });
        }
    }

    /// Reads the newest good record of this key.
    pub fn read(&self, kind: Kind, key: &Key, buffer: &mut Vec<u8>) -> bool {
        let code = kind.position() as u8;
        self.segments.iter().any(|segment| {
            let found = segment.find(table::hash(code, key), &DamagedIndex::WHOLLY, |row| {
                row.code == code && segment.read_row(&row, key, buffer) == Read::Good
            });
            found == Ok(true)
        })
    }
}

/// Calls `each` with the newest good record of each wanted kind and key of a segment, in the order of the file. Returns
/// the number of records of which no version is good. Unknown kinds are passed over.
pub(super) fn newest(
    segment: &Arc<Segment>,
    instead: &DamagedIndex<'_>,
    wanted: &dyn Fn(Kind) -> bool,
    each: &mut dyn FnMut(Kind, &Key, &[u8]),
) -> u64 {
    let mut damaged = 0;
    let is_wanted = |row: &Row| Kind::ALL.get(usize::from(row.code)).is_none_or(|kind| wanted(*kind));
    let mut rows = segment.rows(instead).unwrap_or_default();
    rows.retain(|row| row.is_readable() && is_wanted(row));
    sort::by_key(&mut rows, |row| (row.hash, Reverse(row.offset)));
    let mut alike: Vec<&[Row]> = rows.chunk_by(|one, other| one.hash == other.hash).collect();
    sort::by_key(&mut alike, |rows| rows[0].offset);
    let (mut given, mut buffer) = (Vec::new(), Vec::new());
    for rows in alike {
        given.clear();
        // Of a kind that this version does not know, or not to be read for now.
        let mut unknown = false;
        for row in rows {
            let entry = match segment.header_at(row.offset) {
                Ok(entry) => entry,
                Err(why) => {
                    unknown |= why != Read::Damaged;
                    continue;
                }
            };
            let Some(kind) = Kind::from_number(entry.kind) else {
                unknown = true;
                continue;
            };
            // Two keys may have the same hash.
            if given.contains(&(kind, entry.key)) {
                continue;
            }
            let location = Location::new(segment, &entry);
            match location.read(&entry.key, &mut buffer) {
                Read::Good => {
                    given.push((kind, entry.key));
                    each(kind, &entry.key, &buffer);
                }
                Read::Gone | Read::Failed => unknown = true,
                Read::Damaged | Read::Other => {}
            }
        }
        damaged += u64::from(given.is_empty() && !unknown);
    }
    damaged
}
