//! The live page: what this process does now, for `vkstash watch` and for `vkstash prewarm` beside it (docs/format.md).
//! The layer only writes it, with plain stores: it is true also where the program hangs.
//!
//! - [`call`] calls in flight
//! - `page` the shared memory
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

pub mod call;
mod page;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use self::page::{Page, PageError};
use crate::log;
use vkstash_host::forks::PerProcess;
use vkstash_host::sharded::{SHARDS, own_shard};
use vkstash_model::counters::Count;
use vkstash_model::live::{self, COUNTERS, STRIPE, STRIPES, header};

const _: () = assert!(SHARDS == STRIPES, "each shard of threads has a stripe");

/// A forked child has no page until it creates a device of its own, and never writes its parent's.
static PAGE: PerProcess<Option<Page>> = PerProcess::empty();

/// The page of this process.
#[inline]
fn page() -> Option<&'static Page> {
    PAGE.known()?.as_ref()
}

/// Makes the page, if this process has none yet. `describe` says what the application is called, and where its folder
/// in the stash is. Without a page nothing is shown, and nothing else changes.
pub fn open<P: AsRef<Path>>(describe: impl Fn() -> (String, Option<P>)) {
    if PAGE.known().is_some() {
        return;
    }
    PAGE.get_or_make(|_| {
        let (application, folder) = describe();
        let made = Page::make(&application, folder.as_ref().map(AsRef::as_ref));
        made.map_err(|error| no_page(&error)).ok()
    });
}

#[cold]
fn no_page(error: &PageError) {
    log::init();
    tracing::debug!("this process has no live page: {error}");
}

/// A device has counted something.
#[inline]
pub fn count(what: Count, amount: u64) {
    if let (Some(at), Some(page)) = (live::place(what), page()) {
        page.number(COUNTERS + own_shard() * STRIPE + at).fetch_add(amount, Ordering::Relaxed);
    }
}

/// So many workers exist from now on.
pub fn set_workers(count: u32) {
    if let Some(page) = page() {
        page.number(header::WORKERS).store(count.into(), Ordering::Relaxed);
        if count == 0 {
            page.number(header::PAUSED).store(0, Ordering::Relaxed);
        }
    }
}

/// Whether workers leave the processors to other threads.
pub fn set_paused(is_paused: bool) {
    if let Some(page) = page() {
        page.number(header::PAUSED).store(is_paused.into(), Ordering::Relaxed);
    }
}

/// What one stash has written, of which the page has the sum over all stashes of the process.
#[derive(Default)]
pub struct Written {
    records: AtomicU64,
    bytes: AtomicU64,
}

impl Written {
    /// So much has been written since the stash was opened.
    pub fn note(&self, records: u64, bytes: u64) {
        let sums =
            [(header::WRITTEN_RECORDS, &self.records, records), (header::WRITTEN_BYTES, &self.bytes, bytes)];
        for (at, known, now) in sums {
            let more = now.saturating_sub(known.swap(now, Ordering::Relaxed));
            if let Some(page) = page() {
                page.number(at).fetch_add(more, Ordering::Relaxed);
            }
        }
    }
}
