//! State of the filter in both directions: the instructions of a module seen so far, and the predictions made from
//! them.

use crate::codec::shape::Shape;
use crate::codec::stream::{unzigzag, zigzag};

/// The number of first words that get a number of one byte; 255 introduces the others.
const HEADS: usize = 255;

/// The number of opcodes with a context of their own.
const CONTEXTS: usize = 256;

/// The number of operands with a prediction of their own; later ones share the last.
const SLOTS: usize = 16;

/// A first word: an opcode with a word count.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    pub(crate) opcode: u16,
    pub(crate) words: u16,
    pub(crate) shape: Shape,
    /// The context of its operands.
    pub(crate) context: usize,
}

/// The prediction of one operand of an opcode.
#[derive(Clone, Copy, Default)]
pub(crate) struct Slot {
    /// The last value.
    last: u32,
    /// Positive if the distance from the last result was recently smaller than the distance from the last value.
    score: i32,
}

/// What the instructions of an opcode had last.
#[derive(Clone, Copy, Default)]
pub(crate) struct Context {
    /// The type of the result.
    pub(crate) last_type: u32,
    slots: [Slot; SLOTS],
}

/// The memory of one walk, less than 64 KiB.
pub(crate) struct Walk {
    pub(crate) heads: Vec<Head>,
    opcodes: Vec<u16>,
    pub(crate) contexts: Vec<Context>,
}

impl Walk {
    /// Reserves memory for a usual module.
    pub(crate) fn new() -> Self {
        let (heads, opcodes) = (Vec::with_capacity(HEADS), Vec::with_capacity(CONTEXTS));
        Self { heads, opcodes, contexts: Vec::with_capacity(CONTEXTS) }
    }

    /// Adds a new first word, and gives it a number if there is one left.
    pub(crate) fn add(&mut self, opcode: u16, words: u16) -> Head {
        let known = self.opcodes.iter().position(|of| *of == opcode);
        let context = match known {
            Some(context) => context,
            None if self.opcodes.len() < CONTEXTS => {
                self.opcodes.push(opcode);
                self.contexts.push(Context::default());
                self.opcodes.len() - 1
            }
            None => usize::from(opcode) % CONTEXTS,
        };
        let head = Head { opcode, words, shape: Shape::of(opcode), context };
        if self.heads.len() < HEADS {
            self.heads.push(head);
        }
        head
    }
}

impl Context {
    /// The prediction of the operand at this place after type and result.
    #[inline(always)]
    pub(crate) fn slot(&mut self, place: usize) -> &mut Slot {
        &mut self.slots[place.min(SLOTS - 1)]
    }
}

impl Slot {
    /// The number for `value` in the stream of operands.
    pub(crate) fn distance(&mut self, value: u32, last_result: u32) -> u32 {
        let (from_last, from_result) =
            (zigzag(value.wrapping_sub(self.last)), zigzag(last_result.wrapping_sub(value)));
        let distance = if self.score > 0 { from_result } else { from_last };
        self.learn(value, from_last, from_result);
        distance
    }

    /// The value of a number in the stream of operands. Without branches, because a processor cannot predict the way of
    /// a slot.
    #[inline(always)]
    pub(crate) fn next(&mut self, distance: u32, last_result: u32) -> u32 {
        let by_result = u32::from(self.score > 0).wrapping_neg();
        let from = self.last ^ ((self.last ^ last_result) & by_result);
        let difference = (unzigzag(distance) ^ by_result).wrapping_sub(by_result);
        let value = from.wrapping_add(difference);
        self.learn(value, zigzag(value.wrapping_sub(self.last)), zigzag(last_result.wrapping_sub(value)));
        value
    }

    /// Learns the value and its two distances: from the last value and from the last result.
    #[inline(always)]
    const fn learn(&mut self, value: u32, from_last: u32, from_result: u32) {
        let gain = from_result.leading_zeros() as i32 - from_last.leading_zeros() as i32;
        self.score += 2 * gain - (self.score >> 3);
        self.last = value;
    }
}
