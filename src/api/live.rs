//! The live sessions, by number. A program holds numbers, so that a wild or an old handle is noticed.

use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use vkstash_host::forks::PerProcess;
use vkstash_host::once::OnceLock;
use vkstash_host::sync::Mutex;
use vkstash_sessions::session::Session;

use super::types::VkstashResult;

/// How many sessions this process and its ancestors have had.
static CREATED: AtomicU64 = AtomicU64::new(0);

/// In the low bits of each handle: small numbers and pointers are none.
const MARK: u64 = 0x5e55;
const MARK_BITS: u32 = 16;
/// The place of the session, above the mark. The rest of the handle is how many sessions there were before it.
const PLACE_BITS: u32 = 20;
/// Places of the first row; each further row has twice as many.
const FIRST_ROW: usize = 64;
/// Rows with all places together.
const ROWS: usize = 14;

/// A live session with its handle.
struct Entry {
    handle: u64,
    session: Session,
}

/// A row of places. A place changes with one atomic store; a reader takes no lock and no count that others share.
type Row = Box<[ArcSwapOption<Entry>]>;

/// Sessions of this process. Not a slab of the crate sharded-slab: that counts the readers of an entry in the entry,
/// which threads that use one session would share; and these handles tell a forked child which were its parent's.
struct Live {
    /// What the ancestors had created when this process first used a session.
    before: u64,
    rows: [OnceLock<Row>; ROWS],
    /// Places that are free again, and the first one that was never used.
    free: Mutex<(Vec<usize>, usize)>,
}

impl Default for Live {
    fn default() -> Live {
        let before = CREATED.load(Ordering::Relaxed);
        Live { before, rows: [const { OnceLock::new() }; ROWS], free: Mutex::default() }
    }
}

/// Row and column of a place.
fn position(place: usize) -> (usize, usize) {
    let from_one = place / FIRST_ROW + 1;
    let row = from_one.ilog2() as usize;
    (row, place - FIRST_ROW * ((1 << row) - 1))
}

impl Live {
    fn place(&self, place: usize) -> Option<&ArcSwapOption<Entry>> {
        let (row, column) = position(place);
        self.rows.get(row)?.get()?.get(column)
    }

    /// The place that a handle names, whether it is still its own or not.
    fn place_of(&self, handle: u64) -> Option<&ArcSwapOption<Entry>> {
        if handle & ((1 << MARK_BITS) - 1) != MARK {
            return None;
        }
        self.place((handle >> MARK_BITS) as usize & ((1 << PLACE_BITS) - 1))
    }

    /// Takes a free place. None: there are too many sessions.
    fn take(&self) -> Option<(usize, &ArcSwapOption<Entry>)> {
        let mut free = self.free.lock();
        let place = free.0.pop().unwrap_or_else(|| {
            free.1 += 1;
            free.1 - 1
        });
        let (row, _) = position(place);
        let new = || (0..FIRST_ROW << row).map(|_| ArcSwapOption::empty()).collect();
        let Some(cell) = self.rows.get(row) else {
            free.1 -= 1;
            return None;
        };
        cell.get_or_init(new);
        Some((place, self.place(place)?))
    }
}

static LIVE: PerProcess<Live> = PerProcess::empty();

/// Keeps a session. Returns its handle. None: there are too many.
pub(super) fn add(session: Session) -> Option<u64> {
    let (place, cell) = LIVE.get().take()?;
    let number = CREATED.fetch_add(1, Ordering::Relaxed) + 1;
    let handle = number << (MARK_BITS + PLACE_BITS) | (place as u64) << MARK_BITS | MARK;
    cell.store(Some(Entry { handle, session }.into()));
    Some(handle)
}

/// Why a handle is none.
fn unknown(live: &Live, handle: u64) -> VkstashResult {
    let is_of_an_ancestor = handle & ((1 << MARK_BITS) - 1) == MARK
        && (1..=live.before).contains(&(handle >> (MARK_BITS + PLACE_BITS)));
    match is_of_an_ancestor {
        true => VkstashResult::VKSTASH_ERROR_NOT_CURRENTLY_AVAILABLE,
        false => VkstashResult::VKSTASH_ERROR_INVALID_HANDLE,
    }
}

/// Runs `body` with a live session. Takes no lock, and changes no memory that other threads read: another thread may
/// destroy the session meanwhile, which ends after this.
pub(super) fn with(handle: u64, body: impl FnOnce(&Session) -> VkstashResult) -> VkstashResult {
    let live = LIVE.get();
    let Some(cell) = live.place_of(handle) else { return unknown(live, handle) };
    let entry = cell.load();
    match entry.as_deref() {
        Some(entry) if entry.handle == handle => body(&entry.session),
        _ => unknown(live, handle),
    }
}

/// Ends a session. Its cache is closed when this returns, or when the last call that another thread makes with it does.
pub(super) fn remove(handle: u64) -> VkstashResult {
    let live = LIVE.get();
    let Some(cell) = live.place_of(handle) else { return unknown(live, handle) };
    let found = cell.load_full();
    let Some(entry) = found.filter(|entry| entry.handle == handle) else { return unknown(live, handle) };
    let before = cell.compare_and_swap(&entry, None);
    if !before.as_ref().is_some_and(|before| std::sync::Arc::ptr_eq(before, &entry)) {
        // Another thread was faster.
        return unknown(live, handle);
    }
    entry.session.destroy();
    let place = (handle >> MARK_BITS) as usize & ((1 << PLACE_BITS) - 1);
    live.free.lock().0.push(place);
    VkstashResult::VKSTASH_SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_a_row_and_a_column_of_its_own() {
        assert_eq!([0, 63, 64, 191, 192].map(position), [(0, 0), (0, 63), (1, 0), (1, 127), (2, 0)]);
        let last = (1 << PLACE_BITS) - 1;
        assert!(position(last - FIRST_ROW).0 < ROWS && position(last).0 <= ROWS);
        for place in 0..5000 {
            let (row, column) = position(place);
            assert!(column < FIRST_ROW << row);
        }
    }
}
