//! Numbers of variable length: seven bits a byte, the lowest first; the eighth bit says that more follow. A crate for
//! them (integer-encoding) would add more than these three functions.

/// Appends a number.
pub(crate) fn put(stream: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        stream.push(number as u8 | 0x80);
        number >>= 7;
    }
    stream.push(number as u8);
}

/// Maps small positive and negative differences to small numbers.
pub(crate) const fn zigzag(difference: u32) -> u32 {
    (difference << 1) ^ ((difference as i32 >> 31) as u32)
}

/// The inverse of [`zigzag`].
pub(crate) const fn unzigzag(number: u32) -> u32 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

/// Reads a stream. Zeros follow its end, and [`Stream::finished`] tells whether any were read: one check at the end is
/// cheaper than one for every number.
pub(crate) struct Stream<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Stream<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next byte.
    #[inline(always)]
    pub(crate) fn byte(&mut self) -> u8 {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        byte
    }

    /// The next number; bits beyond the 32nd are dropped. Numbers of one and two bytes take the same branch, because a
    /// processor cannot predict which comes next.
    #[inline(always)]
    pub(crate) fn number(&mut self) -> u32 {
        if let Some(&[first, second]) = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk) {
            if first & second < 0x80 {
                let more = u32::from(first >> 7);
                self.at += 1 + more as usize;
                return u32::from(first & 0x7F) | (u32::from(second) << 7) & more.wrapping_neg();
            }
        }
        let first = u32::from(self.byte());
        if first < 0x80 { first } else { self.rest(first & 0x7F) }
    }

    #[inline]
    fn rest(&mut self, mut number: u32) -> u32 {
        for shift in [7, 14, 21, 28] {
            let byte = u32::from(self.byte());
            number |= (byte & 0x7F) << shift;
            if byte < 0x80 {
                break;
            }
        }
        number
    }

    /// The next `count` bytes, if there are so many.
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }

    /// The rest of the stream.
    pub(crate) fn remaining(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Whether the stream is at its end.
    pub(crate) const fn at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// Whether exactly the bytes of the stream were read.
    pub(crate) const fn finished(&self) -> bool {
        self.at == self.bytes.len()
    }
}
