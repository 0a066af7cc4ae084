//! zstd's contexts and the filter's buffers. They are expensive to create, so a thread keeps one of each. In exit
//! handlers, when thread-local storage is gone, and in nested calls one is created for the call.

use std::cell::RefCell;
use std::thread::LocalKey;

use zstd::bulk::Compressor;
use zstd::zstd_safe::{DCtx, DDict, compress_bound};

use crate::codec::dictionary;
use crate::format::codec::CodecError;
use vkstash_host::memory;
use vkstash_host::once::OnceLock;

/// The default level of the zstd tool. Higher levels take ten times as long for a few percent.
const LEVEL: i32 = 3;

/// The level for recipes, which are so short that the best level is hardly slower.
const RECIPE_LEVEL: i32 = 19;

/// A thread frees larger buffers than this after a call, in bytes.
const KEPT: usize = 1 << 20;

/// The compression state of a thread.
pub(crate) struct Encoder {
    context: Compressor<'static>,
    /// The output of the filter.
    pub(crate) filtered: Vec<u8>,
}

/// The decompression state of a thread.
pub(crate) struct Decoder {
    context: DCtx<'static>,
    filtered: Vec<u8>,
    /// A frame with restored headers.
    framed: Vec<u8>,
}

thread_local! {
    static ENCODER: RefCell<Option<Encoder>> = const { RefCell::new(None) };
    static RECIPE_ENCODER: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECODER: RefCell<Option<Decoder>> = const { RefCell::new(None) };
}

/// The dictionary for decoding, loaded once in a process. None: there was no memory.
static DICTIONARY: OnceLock<Option<DDict<'static>>> = OnceLock::new();

/// Calls `task` with the thread's encoder, or with None if zstd has no memory.
pub(crate) fn with_encoder<R>(task: impl FnOnce(&mut Option<Encoder>) -> R) -> R {
    with(&ENCODER, |slot| {
        if slot.is_none() {
            *slot = Compressor::new(LEVEL).ok().map(|context| Encoder { context, filtered: Vec::new() });
        }
        let result = task(slot);
        if let Some(encoder) = slot {
            bound(&mut encoder.filtered);
        }
        result
    })
}

/// Calls `task` with the thread's encoder of recipes, which has the dictionary, or with None if zstd has no memory.
pub(crate) fn with_recipe_encoder<R>(task: impl FnOnce(&mut Option<Compressor<'static>>) -> R) -> R {
    with(&RECIPE_ENCODER, |slot| {
        if slot.is_none() {
            *slot = recipe_encoder();
        }
        task(slot)
    })
}

fn recipe_encoder() -> Option<Compressor<'static>> {
    let mut encoder = Compressor::with_dictionary(RECIPE_LEVEL, dictionary::DICTIONARY).ok()?;
    encoder.include_contentsize(false).ok()?;
    encoder.include_dictid(false).ok()?;
    Some(encoder)
}

/// Calls `task` with the thread's decoder.
pub(crate) fn with_decoder<R>(
    task: impl FnOnce(&mut Decoder) -> Result<R, CodecError>,
) -> Result<R, CodecError> {
    with(&DECODER, |slot| {
        if slot.is_none() {
            *slot = DCtx::try_create().map(|context| Decoder {
                context,
                filtered: Vec::new(),
                framed: Vec::new(),
            });
        }
        let decoder = slot.as_mut().ok_or(CodecError::Memory)?;
        let result = task(decoder);
        bound(&mut decoder.filtered);
        result
    })
}

fn with<T, R>(key: &'static LocalKey<RefCell<Option<T>>>, task: impl FnOnce(&mut Option<T>) -> R) -> R {
    let mut task = Some(task);
    let done = key.try_with(|slot| {
        let mut slot = slot.try_borrow_mut().ok()?;
        task.take().map(|task| task(&mut slot))
    });
    match (done, task) {
        (Ok(Some(result)), _) => result,
        (_, Some(task)) => task(&mut None),
        (_, None) => unreachable!("a task that was taken has a result"),
    }
}

fn bound(buffer: &mut Vec<u8>) {
    if buffer.capacity() > KEPT {
        *buffer = Vec::new();
    }
}

impl Encoder {
    /// Fills `out` with a frame of `bytes`. False: zstd failed.
    pub(crate) fn compress(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        frame(&mut self.context, bytes, out)
    }

    /// Fills `out` with a frame of the filter's output. False: zstd failed.
    pub(crate) fn compress_filtered(&mut self, out: &mut Vec<u8>) -> bool {
        frame(&mut self.context, &self.filtered, out)
    }
}

/// Fills `out` with a frame of `bytes`. False: zstd failed.
pub(crate) fn frame(context: &mut Compressor<'static>, bytes: &[u8], out: &mut Vec<u8>) -> bool {
    out.clear();
    memory::reserve(out, compress_bound(bytes.len())) && context.compress_to_buffer(bytes, out).is_ok()
}

impl Decoder {
    /// Decompresses one frame to the start of `out`. Returns the length, at most that of `out`.
    pub(crate) fn decompress(&mut self, stored: &[u8], out: &mut [u8]) -> Result<usize, CodecError> {
        self.context.decompress(out, stored).map_err(|_| CodecError::Zstd)
    }

    /// Decompresses the content of a block that needs the dictionary. `recipe` limits the lengths.
    pub(crate) fn decompress_block(&mut self, stored: &[u8], out: &mut [u8]) -> Result<usize, CodecError> {
        let dictionary = DICTIONARY.get_or_init(|| DDict::try_create(dictionary::DICTIONARY));
        let dictionary = dictionary.as_ref().ok_or(CodecError::Memory)?;
        self.framed.clear();
        self.framed.try_reserve_exact(dictionary::HEAD + stored.len()).map_err(|_| CodecError::Memory)?;
        self.framed.extend_from_slice(&dictionary::head(out.len(), stored.len()));
        self.framed.extend_from_slice(stored);
        self.context.decompress_using_ddict(out, &self.framed, dictionary).map_err(|_| CodecError::Zstd)
    }

    /// Decompresses at most `most` bytes into the thread's buffer.
    pub(crate) fn decompress_filtered(&mut self, stored: &[u8], most: usize) -> Result<&[u8], CodecError> {
        if self.filtered.len() < most {
            let missing = most - self.filtered.len();
            self.filtered.try_reserve_exact(missing).map_err(|_| CodecError::Memory)?;
            self.filtered.resize(most, 0);
        }
        let room = self.filtered.get_mut(..most).ok_or(CodecError::Filter)?;
        let length = self.context.decompress(room, stored).map_err(|_| CodecError::Zstd)?;
        self.filtered.get(..length).ok_or(CodecError::Filter)
    }
}
