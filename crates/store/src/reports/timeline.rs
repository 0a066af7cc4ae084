//! The timeline of a run: how each pipeline was created, in a file beside the run's report (docs/format.md).

use std::io;
use std::path::Path;
use vkstash_model::steps::Step;

use rustix::fs::OFlags;

use crate::format::bytes::{Reader, close_block, is_closed, put_u32, put_u64};
use crate::reports::names::{oldest_first, start_of};
use vkstash_host::disk::folder::{FILE_MODE, Folder, read_at, write_all_at};
use vkstash_host::disk::ops as disk;
use vkstash_model::record::Key;

/// The end of a file's name.
pub(crate) const SUFFIX: &str = ".vkl";
const MAGIC: [u8; 8] = *b"\x89VKL\r\n\x1a\n";
const VERSION: u32 = 2;
const HEADER_BYTES: usize = 16;
const ENTRY_BYTES: usize = 64;
/// The most entries of a file.
pub(crate) const MOST: usize = 16_384;
/// The number of files that are kept.
const KEEP: usize = 8;
/// The most steps of an entry.
pub const MOST_STEPS: usize = 5;
/// In place of the number of steps: the entry is a frame.
const FRAME: u8 = 255;

/// The creation of one pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Creation {
    /// The first half of the pipeline's key.
    pub key: [u8; 16],
    /// When the call began, in microseconds since 1970.
    pub unix_us: u64,
    /// What all of it took, in tenths of a microsecond; the largest number stands for more.
    pub tenths: u32,
    /// Why these sources were asked, in this order.
    pub reason: u8,
    /// What the program got.
    pub result: u8,
    /// How many steps there were.
    pub count: u8,
    /// The steps, and then zeros.
    pub steps: [Step; MOST_STEPS],
    /// The frame in which the call began, 0 for none.
    pub frame: u32,
}

/// A frame in which a slow creation ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The device's frames are counted from 1, which begins when the program presents for the first time.
    pub number: u32,
    /// From one presentation to the next, in tenths of a microsecond; the largest number stands for more.
    pub tenths: u32,
    /// When it began, in microseconds since 1970.
    pub unix_us: u64,
}

/// What a timeline holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The creation of a pipeline.
    Creation(Creation),
    /// A frame.
    Frame(Frame),
}

impl From<Creation> for Entry {
    fn from(creation: Creation) -> Entry {
        Entry::Creation(creation)
    }
}

impl From<Frame> for Entry {
    fn from(frame: Frame) -> Entry {
        Entry::Frame(frame)
    }
}

impl Entry {
    fn encode(&self) -> [u8; ENTRY_BYTES] {
        match self {
            Entry::Creation(creation) => creation.encode(),
            Entry::Frame(frame) => frame.encode(),
        }
    }

    /// None: damaged.
    fn decode(bytes: &[u8]) -> Option<Entry> {
        if bytes.get(30) == Some(&FRAME) {
            Frame::decode(bytes).map(Entry::Frame)
        } else {
            Creation::decode(bytes).map(Entry::Creation)
        }
    }
}

impl Frame {
    fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        put_u32(&mut bytes, 0, self.number);
        put_u32(&mut bytes, 4, self.tenths);
        put_u64(&mut bytes, 8, self.unix_us);
        bytes[30] = FRAME;
        close_block(&mut bytes);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Frame> {
        let mut reader = Reader::new(bytes);
        let frame = Frame { number: reader.u32()?, tenths: reader.u32()?, unix_us: reader.u64()? };
        is_closed(bytes).then_some(frame)
    }
}

impl Creation {
    /// Whether it is one of this pipeline.
    pub fn is_of(&self, key: &Key) -> bool {
        key.starts_with(&self.key)
    }

    /// The steps.
    pub fn steps(&self) -> &[Step] {
        self.steps.get(..usize::from(self.count)).unwrap_or_default()
    }

    fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..16].copy_from_slice(&self.key);
        put_u64(&mut bytes, 16, self.unix_us);
        put_u32(&mut bytes, 24, self.tenths);
        bytes[28..31].copy_from_slice(&[self.reason, self.result, self.count]);
        for (at, step) in self.steps.iter().enumerate() {
            bytes[31 + at] = step.source | step.answer << 4;
            put_u32(&mut bytes, 36 + 4 * at, step.tenths);
        }
        put_u32(&mut bytes, 56, self.frame);
        close_block(&mut bytes);
        bytes
    }

    /// None: damaged.
    fn decode(bytes: &[u8]) -> Option<Creation> {
        let mut reader = Reader::new(bytes);
        let (key, unix_us, tenths) = (reader.array()?, reader.u64()?, reader.u32()?);
        let [reason, result, count] = reader.array()?;
        let kinds: [u8; MOST_STEPS] = reader.array()?;
        let mut steps = [Step::default(); MOST_STEPS];
        for (step, kind) in steps.iter_mut().zip(kinds) {
            *step = Step { source: kind & 15, answer: kind >> 4, tenths: reader.u32()? };
        }
        let frame = reader.u32()?;
        let is_sound = is_closed(bytes) && usize::from(count) <= MOST_STEPS;
        is_sound.then_some(Creation { key, unix_us, tenths, reason, result, count, steps, frame })
    }
}

/// Appends to the file of this name, and creates it if it is not there: then the oldest of the folder go.
pub(crate) fn append<E: Copy + Into<Entry>>(folder: &Folder, name: &str, entries: &[E]) -> io::Result<()> {
    if entries.is_empty() {
        return Ok(());
    }
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = disk::openat(folder, name, flags, FILE_MODE)?;
    let length = disk::fstat(&file)?.st_size;
    let mut bytes = Vec::new();
    if length < HEADER_BYTES as i64 {
        remove_oldest(folder);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((ENTRY_BYTES as u32).to_le_bytes());
    }
    // An entry that a process that died has written in part is overwritten.
    let there = usize::try_from(length).unwrap_or(0).saturating_sub(HEADER_BYTES) / ENTRY_BYTES;
    let offset = if bytes.is_empty() { HEADER_BYTES + there * ENTRY_BYTES } else { 0 };
    let more = entries.iter().take(MOST.saturating_sub(there));
    bytes.extend(more.flat_map(|&entry| entry.into().encode()));
    write_all_at(&file, &bytes, offset as u64).map_err(|(_, error)| error)
}

fn remove_oldest(folder: &Folder) {
    let mut names = folder.names(SUFFIX).unwrap_or_default();
    oldest_first(&mut names);
    names.truncate(names.len().saturating_sub(KEEP));
    // A file that cannot be removed now is removed next time.
    names.iter().for_each(|name| _ = folder.remove_file(name));
}

/// The timeline of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// When the process opened its stash, in Unix milliseconds. None: the file's name does not say it.
    pub started_unix_ms: Option<u64>,
    /// The creations, in the order of their ends.
    pub creations: Vec<Creation>,
    /// Frames in which slow creations ended.
    pub frames: Vec<Frame>,
    /// The number of entries that cannot be read.
    pub damaged: u64,
    /// The file is another kind of file, or of another version, so that nothing of it was read.
    pub is_unreadable: bool,
    /// The file is full: creations after the last one may be missing.
    pub is_full: bool,
}

fn folder_of(root: &Path, application: &str) -> Option<Folder> {
    let folder = Folder::root(root, false).and_then(|root| root.sub(application, false)?.sub("runs", false));
    folder.ok()
}

/// The creations of the latest run of the application in that folder that created any pipeline. Empty: there is none,
/// or nothing in it can be read.
pub fn last(root: &Path, application: &str) -> Vec<Creation> {
    let Some(folder) = folder_of(root, application) else { return Vec::new() };
    let mut names = folder.names(SUFFIX).unwrap_or_default();
    oldest_first(&mut names);
    let mut found = names.iter().rev().map(|name| read(&folder, name).creations);
    found.find(|creations| !creations.is_empty()).unwrap_or_default()
}

/// The timelines of the application in that folder, the latest first.
pub fn all(root: &Path, application: &str) -> Vec<Timeline> {
    let Some(folder) = folder_of(root, application) else { return Vec::new() };
    let mut names = folder.names(SUFFIX).unwrap_or_default();
    oldest_first(&mut names);
    names.iter().rev().map(|name| read(&folder, name)).collect()
}

fn read(folder: &Folder, name: &str) -> Timeline {
    let mut timeline =
        Timeline { started_unix_ms: start_of(name), is_unreadable: true, ..Timeline::default() };
    let Ok((file, length)) = folder.open_file(name) else { return timeline };
    let length = usize::try_from(length).unwrap_or(usize::MAX).min(HEADER_BYTES + MOST * ENTRY_BYTES);
    let mut bytes = Vec::new();
    if read_at(&file, &mut bytes, length, 0).is_err() {
        return timeline;
    }
    let mut reader = Reader::new(&bytes);
    let (magic, version, size) = (reader.array(), reader.u32(), reader.u32());
    if magic != Some(MAGIC) || version != Some(VERSION) || size != Some(ENTRY_BYTES as u32) {
        return timeline;
    }
    timeline.is_unreadable = false;
    let entries = bytes.get(HEADER_BYTES..).unwrap_or_default().chunks_exact(ENTRY_BYTES);
    timeline.is_full = entries.len() == MOST;
    for entry in entries {
        match Entry::decode(entry) {
            Some(Entry::Creation(creation)) => timeline.creations.push(creation),
            Some(Entry::Frame(frame)) => timeline.frames.push(frame),
            None => timeline.damaged += 1,
        }
    }
    timeline
}
