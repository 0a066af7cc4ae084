//! The live sessions, by number. A program holds numbers, so that a wild or an old handle is noticed.

use std::sync::atomic::{AtomicU64, Ordering};

use papaya::HashMap;
use rustc_hash::FxBuildHasher;
use seize::Collector;
use vkstash_sessions::session::Session;
use vkstash_store::forks::PerProcess;

use super::types::VkstashResult;

/// How many sessions this process and its ancestors have had.
static CREATED: AtomicU64 = AtomicU64::new(0);

/// Sessions of this process.
struct Live {
    /// What the ancestors had created when this process first used a session.
    before: u64,
    sessions: HashMap<u64, Session, FxBuildHasher>,
}

impl Default for Live {
    fn default() -> Live {
        // A destroyed session has open files until no thread is in a call: each is collected at once.
        let collector = Collector::new().batch_size(1);
        let sessions = HashMap::builder().hasher(FxBuildHasher).collector(collector).build();
        Live { before: CREATED.load(Ordering::Relaxed), sessions }
    }
}

static LIVE: PerProcess<Live> = PerProcess::empty();

/// In the low bits of each handle: small numbers and pointers are none.
const MARK: u64 = 0x5e55;
const MARK_BITS: u32 = 16;

/// Keeps a session. Returns its handle.
pub(super) fn add(session: Session) -> u64 {
    let live = LIVE.get();
    let number = CREATED.fetch_add(1, Ordering::Relaxed) + 1;
    let handle = number << MARK_BITS | MARK;
    live.sessions.pin().insert(handle, session);
    handle
}

/// Why a handle is none.
fn unknown(live: &Live, handle: u64) -> VkstashResult {
    let is_of_an_ancestor =
        handle & ((1 << MARK_BITS) - 1) == MARK && (1..=live.before).contains(&(handle >> MARK_BITS));
    match is_of_an_ancestor {
        true => VkstashResult::VKSTASH_ERROR_NOT_CURRENTLY_AVAILABLE,
        false => VkstashResult::VKSTASH_ERROR_INVALID_HANDLE,
    }
}

/// Runs `body` with a live session. Takes no lock, and changes no memory that other threads read: another thread may
/// destroy the session meanwhile, which ends after this.
pub(super) fn with(handle: u64, body: impl FnOnce(&Session) -> VkstashResult) -> VkstashResult {
    let live = LIVE.get();
    let sessions = live.sessions.pin();
    match sessions.get(&handle) {
        Some(session) => body(session),
        None => unknown(live, handle),
    }
}

/// Ends a session. Its cache is closed when this returns.
pub(super) fn remove(handle: u64) -> VkstashResult {
    let live = LIVE.get();
    match live.sessions.pin().remove(&handle) {
        Some(session) => {
            session.destroy();
            VkstashResult::VKSTASH_SUCCESS
        }
        None => unknown(live, handle),
    }
}
