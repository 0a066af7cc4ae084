//! The siblings of a device part: parts of the same application whose device headers differ from its own in the digest
//! of the enabled features alone. The specification binds cache data to the driver, not to what a device enables.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use arc_swap::ArcSwap;
use rustc_hash::FxBuildHasher;

use crate::base::timer::Timer;
use crate::disk::folder::{Folder, read_at};
use crate::disk::home::Home;
use crate::format::device::{DeviceHeader, HeaderMismatch};
use crate::format::file::{FileHeader, PartIdentity};
use crate::format::record::{Key, Kind};
use crate::format::sizes::HEADER_BYTES;
use crate::format::table;
use crate::part::open::Shared;
use crate::part::read_only::ReadOnlyPart;

/// Device parts that are looked at, to find the siblings among them.
const MOST_LOOKED_AT: usize = 64;
/// Siblings that are used: those that were written last.
const MOST: usize = 8;
/// Segments whose headers are looked at, if those before are damaged.
const HEADERS: usize = 3;
/// The shortest time between two attempts to open the rest, in milliseconds.
const AGAIN_AFTER_MS: u64 = 100;

/// The siblings of one device part. They are opened after the first miss in that part.
pub struct Siblings {
    home: Arc<Home>,
    shared: Arc<Shared>,
    header: DeviceHeader,
    /// Locked while siblings are opened. No thread waits for it.
    opening: Mutex<Opening>,
    /// Those that are open and have artifacts. New ones come last, so that each keeps its number.
    parts: ArcSwap<Vec<Arc<ReadOnlyPart>>>,
    /// Nothing is left to be opened.
    is_complete: AtomicBool,
    /// No attempt to open the rest before this time ([`Shared::now_ms`]).
    next: AtomicU64,
    /// Artifacts that the driver has refused in this process, as [`table::hash`].
    refused: papaya::HashSet<u64, FxBuildHasher>,
}

/// What is still to be opened.
#[derive(Default)]
struct Opening {
    listed: bool,
    /// Those that were written last are at the end, and are opened first.
    rest: Vec<Arc<ReadOnlyPart>>,
}

/// A sibling that was found.
struct Sibling {
    /// The name of its newest segment: names sort by age.
    newest: String,
    part: ReadOnlyPart,
}

impl Siblings {
    /// Opens nothing.
    pub(crate) fn new(home: &Arc<Home>, shared: &Arc<Shared>, header: &DeviceHeader) -> Siblings {
        Siblings {
            home: home.clone(),
            shared: shared.clone(),
            header: header.clone(),
            opening: Mutex::default(),
            parts: ArcSwap::default(),
            is_complete: AtomicBool::new(false),
            next: AtomicU64::new(0),
            refused: papaya::HashSet::builder()
                .hasher(FxBuildHasher)
                .resize_mode(papaya::ResizeMode::Blocking)
                .build(),
        }
    }

    /// Reads an artifact that the own part does not have, and that the driver has not refused in this process, from the
    /// sibling of this number or a later one. Returns that sibling's number. None: there is none, `buffer` is empty.
    pub fn read(&self, key: &Key, from: usize, buffer: &mut Vec<u8>) -> Option<usize> {
        self.open_more();
        buffer.clear();
        let parts = self.parts.load();
        if parts.is_empty() || self.refused.pin().contains(&table::hash(0, key)) {
            return None;
        }
        let (number, part) =
            parts.iter().enumerate().skip(from).find(|(_, part)| part.read_artifact(key, buffer))?;
        part.stamp();
        Some(number)
    }

    /// Reads the module identity that a driver's identifier stands for. False: no sibling knows it.
    pub fn read_pair(&self, digest: &Key, buffer: &mut Vec<u8>) -> bool {
        self.open_more();
        buffer.clear();
        self.parts.load().iter().any(|part| part.read(Kind::IdentifierPair, digest, buffer))
    }

    /// Whether [`Siblings::read`] may find an artifact. Reads no artifact.
    pub fn contains(&self, key: &Key) -> bool {
        self.open_more();
        let parts = self.parts.load();
        !parts.is_empty()
            && !self.refused.pin().contains(&table::hash(0, key))
            && parts.iter().any(|part| part.contains_artifact(key))
    }

    /// Whether there may be artifacts in siblings, as far as they are open.
    pub fn have_artifacts(&self) -> bool {
        self.open_more();
        self.parts.load().iter().any(|part| part.has_any(Kind::Artifact))
    }

    /// The driver does not take the artifact of this key: it is not read again in this process.
    pub fn note_refused(&self, key: &Key) {
        self.refused.pin().insert(table::hash(0, key));
    }

    /// Opens siblings for as long as a thread of the program may wait after a miss.
    fn open_more(&self) {
        if !self.is_complete.load(Ordering::Acquire) {
            self.open_in_time();
        }
    }

    #[cold]
    fn open_in_time(&self) {
        let now = self.shared.now_ms();
        let is_due = now >= self.next.load(Ordering::Relaxed) && !self.shared.is_inert();
        let Some(mut opening) = is_due.then(|| self.opening.try_lock().ok()).flatten() else { return };
        let limit = self.shared.left_for_opening().max(self.shared.waits.refresh);
        let timer = Timer::of(limit);
        let began = Instant::now();
        let is_complete = self.open_until(&mut opening, &|| timer.is_over());
        self.shared.spent_on_opening(began.elapsed());
        self.is_complete.store(is_complete, Ordering::Release);
        self.next.store(self.shared.now_ms() + AGAIN_AFTER_MS, Ordering::Relaxed);
    }

    /// False: something is left.
    fn open_until(&self, opening: &mut Opening, interrupted: &dyn Fn() -> bool) -> bool {
        if !opening.listed {
            let Some(mut found) = self.list(interrupted) else { return false };
            found.sort_by(|one, other| one.newest.cmp(&other.newest));
            opening.rest = found.into_iter().map(|sibling| Arc::new(sibling.part)).collect();
            opening.listed = true;
        }
        let mut open = (*self.parts.load_full()).clone();
        let mut is_complete = true;
        while let Some(part) = opening.rest.last().filter(|_| is_complete && open.len() < MOST) {
            is_complete = part.open_until(interrupted, &|places| self.shared.tallies.damaged(places));
            // A device that was served by siblings alone has no artifacts of its own.
            if is_complete && !part.has_any(Kind::Artifact) {
                opening.rest.pop();
            } else if is_complete {
                open.extend(opening.rest.pop());
            }
        }
        self.parts.store(Arc::new(open));
        is_complete
    }

    /// The siblings in the application's folder. None: there was no time to look at all of them.
    fn list(&self, interrupted: &dyn Fn() -> bool) -> Option<Vec<Sibling>> {
        let Ok(home) = self.home.open_until(interrupted) else { return None };
        let (names, complete) = match home.folder.names_until("", interrupted) {
            Ok(listed) => listed,
            // A folder that cannot be listed has no siblings.
            Err(_) => return Some(Vec::new()),
        };
        let own = folder_name(&self.header);
        let mut found = Vec::new();
        let others = names.iter().filter(|name| name.starts_with(DEVICE) && **name != own);
        for name in others.take(MOST_LOOKED_AT) {
            if interrupted() {
                return None;
            }
            found.extend(self.sibling(&home.folder, name, interrupted));
        }
        complete.then_some(found)
    }

    /// The part in this folder, if it is a sibling.
    fn sibling(&self, home: &Folder, name: &str, interrupted: &dyn Fn() -> bool) -> Option<Sibling> {
        let folder = home.sub_until(name, false, interrupted).ok()?;
        let (mut names, _) = folder.names_until(".vks", interrupted).ok()?;
        let header = names.iter().rev().take(HEADERS).find_map(|name| header_of(&folder, name))?;
        let is_sibling = header.mismatch(&self.header) == Some(HeaderMismatch::Features);
        if !is_sibling || name != folder_name(&header) {
            return None;
        }
        Some(Sibling { newest: names.pop()?, part: ReadOnlyPart::new(folder, PartIdentity::Device(header)) })
    }
}

/// What the names of device parts' folders begin with.
const DEVICE: &str = "device-";

fn folder_name(header: &DeviceHeader) -> String {
    format!("{DEVICE}{}", header.short_digest())
}

/// The device header of a segment file.
fn header_of(folder: &Folder, name: &str) -> Option<DeviceHeader> {
    let (file, _) = folder.open_file(name).ok()?;
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    read_at(&file, &mut bytes, HEADER_BYTES, 0).ok()?;
    match FileHeader::decode(&bytes).ok()??.identity {
        PartIdentity::Device(header) => Some(header),
        PartIdentity::Portable => None,
    }
}
