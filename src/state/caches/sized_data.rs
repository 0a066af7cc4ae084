//! Reader of what a driver gives out by a command that tells a size first, and then writes the data.
//!
//! NVIDIA's driver writes all data of a cache into a buffer in which none of it fits (contract 4.8). So no driver gets
//! a buffer that is shorter than the size that it has just told, and what it answers is judged before it is used. In a
//! debug build the buffer stands between guard words: a driver that has changed one ends the process.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use std::ffi::c_void;

use ash::vk;

use vkstash_host::{memory, signals};

/// Why a driver gives no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoData {
    /// There is none, or it is not of this device.
    Empty,
    /// It could not be read.
    Unreadable,
}

/// Attempts to read data that grows from one attempt to the next.
const ATTEMPTS: usize = 4;

/// Guard words before a buffer, and behind it.
const GUARDS: usize = if cfg!(debug_assertions) { 16 } else { 0 };

/// What a buffer is made of: its size is the alignment that the driver gets.
pub trait Word: Copy + Default + PartialEq {
    /// A value that a driver does not write by chance.
    const GUARD: Self;
}

impl Word for u8 {
    const GUARD: u8 = 0xa5;
}

impl Word for u128 {
    const GUARD: u128 = u128::from_ne_bytes([u8::GUARD; 16]);
}

/// Memory that a driver writes to.
pub struct Buffer<W> {
    words: Vec<W>,
}

impl<W: Word> Buffer<W> {
    /// A buffer of zeros for this many bytes, behind a copy of `prefix`. None: there is no memory.
    pub fn new(prefix: &[W], bytes: usize) -> Option<Buffer<W>> {
        let length = bytes.div_ceil(size_of::<W>()).checked_add(prefix.len())?;
        let mut words = Vec::new();
        if !memory::lengthen(&mut words, length.checked_add(2 * GUARDS)?) {
            return None;
        }
        words[..GUARDS].fill(W::GUARD);
        words[GUARDS..][..prefix.len()].copy_from_slice(prefix);
        words[GUARDS + length..].fill(W::GUARD);
        Some(Buffer { words })
    }

    /// Has a driver write behind a prefix of this length.
    pub fn fill<R>(&mut self, prefix: usize, driver: impl FnOnce(*mut c_void) -> R) -> R {
        let answer = driver(self.words[GUARDS + prefix..].as_mut_ptr().cast());
        if !self.is_intact() {
            let line = b"vkstash: a driver has written outside of the buffer that it got\n";
            let _ = signals::write(rustix::stdio::stderr(), line);
            std::process::abort();
        }
        answer
    }

    fn is_intact(&self) -> bool {
        let (before, after) = (&self.words[..GUARDS], &self.words[self.words.len() - GUARDS..]);
        before.iter().chain(after).all(|word| *word == W::GUARD)
    }

    /// The words, without the guards.
    pub fn into_words(mut self) -> Vec<W> {
        self.words.truncate(self.words.len() - GUARDS);
        self.words.drain(..GUARDS);
        self.words
    }
}

/// The size that a driver tells. None: it does not. A size that it leaves alone is 0.
pub fn size(ask: impl FnOnce(&mut usize, *mut c_void) -> vk::Result) -> Option<usize> {
    let mut size = 0;
    (ask(&mut size, std::ptr::null_mut()) == vk::Result::SUCCESS).then_some(size)
}

/// The data that a driver gives out, in words behind a copy of `prefix`, and its length in bytes. `ask` calls the
/// driver's command with a size and a pointer that is NULL, or has room for that many bytes at a multiple of the word's
/// size.
///
/// A driver that does not keep to the size may be asked only for data that cannot grow meanwhile: of objects that
/// nobody else uses.
pub fn read<W: Word>(
    prefix: &[W],
    mut ask: impl FnMut(&mut usize, *mut c_void) -> vk::Result,
) -> Result<(Vec<W>, usize), NoData> {
    for _ in 0..ATTEMPTS {
        let room = size(&mut ask).ok_or(NoData::Unreadable)?;
        if room == 0 {
            return Err(NoData::Empty);
        }
        // A size that no memory can be had for is no data.
        let mut buffer = Buffer::new(prefix, room).ok_or(NoData::Unreadable)?;
        let mut written = room;
        match buffer.fill(prefix.len(), |data| ask(&mut written, data)) {
            vk::Result::SUCCESS if written == 0 => return Err(NoData::Empty),
            vk::Result::SUCCESS if written <= room => {
                let mut words = buffer.into_words();
                words.truncate(prefix.len() + written.div_ceil(size_of::<W>()));
                return Ok((words, written));
            }
            // It was cut: the size was too small.
            vk::Result::SUCCESS | vk::Result::INCOMPLETE => {}
            _ => return Err(NoData::Unreadable),
        }
    }
    Err(NoData::Unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A driver with this data, which tells another size.
    fn driver(data: &[u8], told: usize) -> impl FnMut(&mut usize, *mut c_void) -> vk::Result + '_ {
        move |size, to| {
            if to.is_null() {
                *size = told;
                return vk::Result::SUCCESS;
            }
            let room = std::mem::replace(size, data.len().min(*size));
            // SAFETY: `read` passes room for as many bytes as it says.
            unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to.cast(), *size) };
            if room < data.len() { vk::Result::INCOMPLETE } else { vk::Result::SUCCESS }
        }
    }

    #[test]
    fn data_comes_whole_behind_the_prefix_or_not_at_all() {
        let data: Vec<u8> = (0..100).collect();
        let whole = [&[7, 8][..], &data].concat();
        for told in [100, 101, 200] {
            assert_eq!(read(&[7, 8], driver(&data, told)), Ok((whole.clone(), 100)), "{told}");
        }
        assert_eq!(read::<u8>(&[], driver(&data, 99)), Err(NoData::Unreadable));
        assert_eq!(read::<u8>(&[], driver(&data, 0)), Err(NoData::Empty));
        assert_eq!(read::<u8>(&[], driver(&data, usize::MAX)), Err(NoData::Unreadable));
        assert_eq!(read::<u8>(&[], |_, _| vk::Result::ERROR_UNKNOWN), Err(NoData::Unreadable));
    }

    #[cfg(debug_assertions)]
    #[test]
    fn a_write_beside_the_buffer_is_noticed() {
        for (at, expected) in [(GUARDS - 1, false), (GUARDS, true), (GUARDS + 4, true), (GUARDS + 5, false)] {
            let mut buffer = Buffer::new(&[1_u8, 2], 3).unwrap();
            buffer.words[at] ^= 1;
            assert_eq!(buffer.is_intact(), expected, "{at}");
        }
    }

    #[test]
    fn words_are_rounded_up_and_the_length_is_in_bytes() {
        let (words, bytes) = read::<u128>(&[], driver(&[1; 17], 17)).unwrap();
        assert_eq!((words.len(), bytes), (2, 17));
        assert_eq!(
            words,
            [u128::from_ne_bytes([1; 16]), u128::from_le_bytes(std::array::from_fn(|at| u8::from(at == 0)))]
        );
    }

    #[test]
    fn data_that_grows_is_read_in_the_end() {
        let mut length = 8;
        let ask = |size: &mut usize, to: *mut c_void| {
            if to.is_null() {
                *size = length;
                length += if length < 10 { 1 } else { 0 };
                return vk::Result::SUCCESS;
            }
            let room = std::mem::replace(size, length);
            if room < length { vk::Result::INCOMPLETE } else { vk::Result::SUCCESS }
        };
        assert_eq!(read::<u8>(&[], ask).map(|(_, bytes)| bytes), Ok(10));
    }
}
