//! Answer to a program that asks for a cache's data: what was made beside that cache, kept in caches of the layer's
//! until then.
//!
//! Each pipeline leaves the cache that it was made with: a piece. A question for the size or the data merges the pieces
//! that have come since the last one into the *whole*, in place. So a question costs what was added, nothing is put
//! together twice, and what a driver was given once it is not given again (drivers write what they load to their disk
//! cache). Drivers hold no more than they would in the program's cache without the layer.
//!
//! The whole is taken out by the thread that works on it, and no lock is held meanwhile: the driver may call the
//! program. A second thread is told a size without it, or waits for a while and then does without it.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ash::vk;

use super::private_cache::{CacheCommands, PrivateCache};
use crate::state::process::held;
use vkstash_host::held::HeldInDriver;
use vkstash_host::sync::Mutex;
use vkstash_model::record::Key;

/// What one pipeline, or a cache of the program's that was merged, has left.
enum Piece {
    /// A cache of the layer's that holds it.
    Cache(vk::PipelineCache),
    /// The artifact of this key, in the stash.
    Artifact(Key),
}

/// What a cache had that the driver adds to, when it was asked for its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverSize {
    /// The number of calls that may have added to it.
    pub fills: u32,
    /// Those that may have added what was not made beside the cache.
    pub news: u32,
    /// Bytes of its data.
    pub bytes: usize,
}

/// All pieces so far, and what the program's cache had, in one cache of the layer's.
struct Whole {
    cache: vk::PipelineCache,
    contents: WholeContents,
}

/// What is in a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WholeContents {
    /// Bytes of its data, where nothing was merged since they were asked for.
    bytes: Option<usize>,
    /// What the program's cache had when it was merged.
    pub of_program: Option<DriverSize>,
    /// What the companion had when it was merged.
    pub of_companion: Option<DriverSize>,
}

#[derive(Default)]
enum Slot {
    #[default]
    Empty,
    Whole(Whole),
    InUse,
}

/// How long a read waits for another one, and how often it looks.
const PATIENCE: Duration = Duration::from_millis(20);
const LOOKS_EVERY: Duration = Duration::from_micros(50);

/// The last answer to a question for the size, and what it has counted.
#[derive(Clone, Copy, Default)]
struct Told {
    size: usize,
    pieces: usize,
    of_program: usize,
}

/// What was made beside one cache.
#[derive(Default)]
pub struct CacheAnswer {
    pieces: Mutex<Vec<Piece>>,
    /// The bytes of all pieces that there ever were.
    bytes: AtomicUsize,
    companion_answers: AtomicU32,
    whole: Mutex<Slot>,
    told: Mutex<Told>,
    asked: Mutex<Option<DriverSize>>,
}

impl CacheAnswer {
    /// A pipeline was made with this cache, whose data has so many bytes.
    pub fn add(&self, made_with: PrivateCache<'_>, bytes: usize) {
        self.push(Piece::Cache(made_with.into_handle()), bytes);
    }

    /// A pipeline has an artifact of so many bytes in the stash.
    pub fn add_artifact(&self, key: &Key, bytes: usize) {
        self.push(Piece::Artifact(*key), bytes);
    }

    fn push(&self, piece: Piece, bytes: usize) {
        // Before: who finds the piece finds its bytes counted.
        self.bytes.fetch_add(bytes.max(1), Ordering::AcqRel);
        self.pieces.lock().push(piece);
    }

    /// The companion had a pipeline, and the driver may have put it there.
    pub fn note_companion_answer(&self) {
        self.companion_answers.fetch_add(1, Ordering::AcqRel);
    }

    /// How often the companion had a pipeline.
    pub fn companion_answers(&self) -> u32 {
        self.companion_answers.load(Ordering::Acquire)
    }

    /// Whether nothing was ever made beside the cache.
    pub fn is_empty(&self) -> bool {
        self.bytes() == 0 && self.companion_answers() == 0
    }

    /// The bytes of all pieces that there ever were.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    /// The answer to a question for the size, which may say no less than the ones before: programs take a size that
    /// shrinks for one that has wrapped around (Godot 4). `size` has all pieces but those that came after so many
    /// `pieces` bytes, and what the program's cache had in `of_program` bytes.
    pub fn tell(&self, size: usize, pieces: usize, of_program: usize) -> usize {
        let mut told = self.told.lock();
        let size = told.size.max(size);
        *told = Told { size, pieces: told.pieces.max(pieces), of_program: told.of_program.max(of_program) };
        size
    }

    /// The answer while another thread has the whole.
    pub fn tell_apart(&self, of_program: usize) -> usize {
        let pieces = self.bytes();
        let told = *self.told.lock();
        let grown = of_program.saturating_sub(told.of_program);
        self.tell(told.size + grown + pieces.saturating_sub(told.pieces), pieces, of_program)
    }

    /// What the driver said last of the program's cache.
    pub fn asked(&self) -> Option<DriverSize> {
        *self.asked.lock()
    }

    /// Keeps what the driver says of the program's cache, or forgets it.
    pub fn note_asked(&self, filled: Option<DriverSize>) {
        *self.asked.lock() = filled;
    }

    /// Takes the whole out, or a new one. None: another thread has it, or the driver makes no cache.
    pub fn take_out<'a>(&'a self, commands: &'a CacheCommands) -> Option<WholeInUse<'a>> {
        let taken = std::mem::replace(&mut *self.whole.lock(), Slot::InUse);
        let (handle, contents) = match taken {
            Slot::InUse => return None,
            Slot::Whole(Whole { cache, contents }) => (cache, contents),
            // The first piece may do.
            Slot::Empty => (vk::PipelineCache::null(), WholeContents::default()),
        };
        // SAFETY: the device of `commands` is alive, as the program is in a call for it; the cache is the layer's, and
        // of this thread alone since it was taken out.
        let cache = unsafe { commands.taken_back(handle) };
        Some(WholeInUse { answer: self, commands, cache, contents, _held: held::WHOLE_ANSWER.hold() })
    }

    /// [`take_out`](CacheAnswer::take_out), and waits for a thread that has it. Not for longer than a read takes: the
    /// driver may call the program there, which may wait for the caller.
    pub fn wait_for<'a>(&'a self, commands: &'a CacheCommands) -> Option<WholeInUse<'a>> {
        let began = Instant::now();
        loop {
            match self.take_out(commands) {
                None if began.elapsed() < PATIENCE => std::thread::sleep(LOOKS_EVERY),
                taken => return taken,
            }
        }
    }

    /// Destroys everything: the program destroys its cache, and uses it in no other call.
    pub fn close(&self, commands: &CacheCommands) {
        let whole = std::mem::take(&mut *self.whole.lock());
        let pieces = std::mem::take(&mut *self.pieces.lock());
        let of_whole = if let Slot::Whole(Whole { cache, .. }) = whole { Some(cache) } else { None };
        let of_pieces = pieces.into_iter().filter_map(|piece| match piece {
            Piece::Cache(cache) => Some(cache),
            Piece::Artifact(_) => None,
        });
        for cache in of_whole.into_iter().chain(of_pieces) {
            // SAFETY: the device is alive; the caches are the layer's, and out of use.
            drop(unsafe { commands.taken_back(cache) });
        }
    }
}

/// The whole, while a thread has it. It is put back when this goes out of scope.
pub struct WholeInUse<'a> {
    answer: &'a CacheAnswer,
    commands: &'a CacheCommands,
    cache: Option<PrivateCache<'a>>,
    _held: HeldInDriver,
    /// What is in it. The thread that merges the program's cache into it says so here.
    pub contents: WholeContents,
}

impl<'a> WholeInUse<'a> {
    /// Merges what has come since. `load` gives the artifact of a key. None: the driver does not.
    pub fn take_in(&mut self, load: impl Fn(&Key) -> Option<Vec<u8>>) -> Option<()> {
        let pieces = std::mem::take(&mut *self.answer.pieces.lock());
        let mut all_in = Some(());
        for piece in pieces {
            let piece = match piece {
                // SAFETY: the device is alive; the cache is the layer's, and of this thread alone since it was taken
                // off the list.
                Piece::Cache(cache) => unsafe { self.commands.taken_back(cache) },
                Piece::Artifact(key) => load(&key).and_then(|blob| self.commands.private(&blob)),
            };
            let Some(piece) = piece else { continue };
            self.contents.bytes = None;
            match &self.cache {
                None => self.cache = Some(piece),
                // SAFETY: both caches are the layer's, and this thread's.
                Some(whole) => all_in = all_in.and(unsafe { whole.take_from(piece.handle()) }),
            }
        }
        all_in
    }

    /// Merges a cache that a driver may have added to.
    ///
    /// # Safety
    /// `source` is a live cache of the device that this thread may read now.
    pub unsafe fn take_from(&mut self, source: vk::PipelineCache) -> Option<()> {
        self.contents.bytes = None;
        // SAFETY: as this function.
        unsafe { self.cache()?.take_from(source) }
    }

    /// The cache.
    pub fn cache(&mut self) -> Option<&PrivateCache<'a>> {
        if self.cache.is_none() {
            self.cache = self.commands.private(&[]);
        }
        self.cache.as_ref()
    }

    /// Bytes of its data.
    pub fn bytes(&mut self) -> Option<usize> {
        if self.contents.bytes.is_none() {
            self.contents.bytes = self.cache()?.size();
        }
        self.contents.bytes
    }
}

impl Drop for WholeInUse<'_> {
    fn drop(&mut self) {
        let back = self.cache.take().map_or(Slot::Empty, |cache| {
            Slot::Whole(Whole { cache: cache.into_handle(), contents: self.contents })
        });
        *self.answer.whole.lock() = back;
    }
}
