//! zstd's contexts and the filter's buffers. They are costly to make, so a thread keeps one of each; where its
//! storage is gone (exit handlers) or in use, one is made for the call.

use std::cell::RefCell;
use std::thread::LocalKey;

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::compress_bound;

use super::CodecError;

/// The default of the tool as well: higher ones take ten times as long for a few percent.
const LEVEL: i32 = 3;

/// A thread gives back larger buffers than this after a call, in bytes.
const KEPT: usize = 1 << 20;

/// Compresses on one thread.
pub(super) struct Encoder {
    context: Compressor<'static>,
    /// What the filter wrote.
    pub(super) filtered: Vec<u8>,
}

/// Decompresses on one thread.
pub(super) struct Decoder {
    context: Decompressor<'static>,
    filtered: Vec<u8>,
}

thread_local! {
    static ENCODER: RefCell<Option<Encoder>> = const { RefCell::new(None) };
    static DECODER: RefCell<Option<Decoder>> = const { RefCell::new(None) };
}

/// Runs `task` with the thread's encoder; with none where zstd could not be had.
pub(super) fn with_encoder<R>(task: impl FnOnce(&mut Option<Encoder>) -> R) -> R {
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

/// Runs `task` with the thread's decoder.
pub(super) fn with_decoder<R>(
    task: impl FnOnce(&mut Decoder) -> Result<R, CodecError>,
) -> Result<R, CodecError> {
    with(&DECODER, |slot| {
        if slot.is_none() {
            *slot = Decompressor::new().ok().map(|context| Decoder { context, filtered: Vec::new() });
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
    /// Fills `out` with a frame that holds `bytes`. False where zstd refused.
    pub(super) fn compress(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        frame(&mut self.context, bytes, out)
    }

    /// The same for what the filter wrote.
    pub(super) fn compress_filtered(&mut self, out: &mut Vec<u8>) -> bool {
        frame(&mut self.context, &self.filtered, out)
    }
}

fn frame(context: &mut Compressor<'static>, bytes: &[u8], out: &mut Vec<u8>) -> bool {
    out.clear();
    out.reserve(compress_bound(bytes.len()));
    context.compress_to_buffer(bytes, out).is_ok()
}

impl Decoder {
    /// Decompresses one frame to the start of `out`, and says how many bytes it held; never more than `out` has.
    pub(super) fn decompress(&mut self, stored: &[u8], out: &mut [u8]) -> Result<usize, CodecError> {
        self.context.decompress_to_buffer(stored, out).map_err(|_| CodecError::Zstd)
    }

    /// Decompresses at most `most` bytes into the thread's own buffer.
    pub(super) fn decompress_filtered(&mut self, stored: &[u8], most: usize) -> Result<&[u8], CodecError> {
        if self.filtered.len() < most {
            let missing = most - self.filtered.len();
            self.filtered.try_reserve_exact(missing).map_err(|_| CodecError::Memory)?;
            self.filtered.resize(most, 0);
        }
        let room = self.filtered.get_mut(..most).ok_or(CodecError::Filter)?;
        let length = self.context.decompress_to_buffer(stored, room).map_err(|_| CodecError::Zstd)?;
        self.filtered.get(..length).ok_or(CodecError::Filter)
    }
}
