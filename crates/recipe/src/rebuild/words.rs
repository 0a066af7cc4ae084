//! The numbers of a structure with counts and pointers, read in the order in which capture wrote them.

use super::RebuildError;
use super::arena::{Arena, List};
use vkstash_model::recipe::Flattened;

/// The words that were not read yet.
pub struct Words<'a> {
    s_type: i32,
    rest: &'a [u32],
}

impl<'a> Words<'a> {
    /// The words of this structure, from the first on.
    pub fn of(flattened: &'a Flattened) -> Words<'a> {
        Words { s_type: flattened.s_type, rest: &flattened.words }
    }

    /// The refusal of this structure.
    pub fn damaged(&self) -> RebuildError {
        RebuildError::Structure(self.s_type)
    }

    /// Refuses the structure unless this holds.
    pub fn ensure(&self, holds: bool) -> Result<(), RebuildError> {
        if holds { Ok(()) } else { Err(self.damaged()) }
    }

    /// Whether there are more words.
    pub fn are_left(&self) -> bool {
        !self.rest.is_empty()
    }

    /// The next word.
    pub fn word(&mut self) -> Result<u32, RebuildError> {
        self.words().map(|[word]| word)
    }

    /// The next words.
    pub fn words<const N: usize>(&mut self) -> Result<[u32; N], RebuildError> {
        let (words, rest) = self.rest.split_first_chunk::<N>().ok_or(self.damaged())?;
        self.rest = rest;
        Ok(*words)
    }

    /// A count, and an array of elements that are this many words each.
    pub fn list<T: Copy, const N: usize>(
        &mut self,
        arena: &mut Arena,
        of_words: impl Fn([u32; N]) -> T,
    ) -> Result<List<T>, RebuildError> {
        let length = (self.word()? as usize).checked_mul(N).ok_or(self.damaged())?;
        let (words, rest) = self.rest.split_at_checked(length).ok_or(self.damaged())?;
        self.rest = rest;
        arena.list(words.chunks_exact(N), |_, chunk| {
            let mut words = [0; N];
            words.copy_from_slice(chunk);
            Ok(of_words(words))
        })
    }

    /// A count, and an array of elements that hold arrays themselves.
    pub fn nested<T: Copy>(
        &mut self,
        arena: &mut Arena,
        mut element: impl FnMut(&mut Words<'a>, &mut Arena) -> Result<T, RebuildError>,
    ) -> Result<List<T>, RebuildError> {
        let count = self.word()? as usize;
        // An element takes at least one word: a count is believed only as far as words follow.
        self.ensure(count <= self.rest.len())?;
        arena.list(0..count, |arena, _| element(self, arena))
    }

    /// Refuses words that are left over.
    pub fn end(&self) -> Result<(), RebuildError> {
        self.ensure(self.rest.is_empty())
    }
}
