//! What both directions of the filter remember while they walk over a module, and predict from it.

use crate::codec::shape::Shape;
use crate::codec::stream::{unzigzag, zigzag};

/// Instructions (first words) that have a number of one byte; 255 introduces another one.
const HEADS: usize = 255;

/// Opcodes that have a context of their own.
const CONTEXTS: usize = 256;

/// Operands that have a prediction of their own; later ones share the last.
const SLOTS: usize = 16;

/// One first word: an opcode with a word count.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    pub(crate) opcode: u16,
    pub(crate) words: u16,
    pub(crate) shape: Shape,
    /// Which context its operands belong to.
    pub(crate) context: usize,
}

/// One operand of an opcode.
#[derive(Clone, Copy, Default)]
pub(crate) struct Slot {
    /// Its last value.
    last: u32,
    /// Above zero where the distance from the last result was smaller of late than that from the last value.
    score: i32,
}

/// What an opcode's instructions had last.
#[derive(Clone, Copy, Default)]
pub(crate) struct Context {
    /// The type of the result.
    pub(crate) last_type: u32,
    slots: [Slot; SLOTS],
}

/// Memory of one walk, less than 64 KiB.
pub(crate) struct Walk {
    pub(crate) heads: Vec<Head>,
    opcodes: Vec<u16>,
    pub(crate) contexts: Vec<Context>,
}

impl Walk {
    /// Room for a usual module at once.
    pub(crate) fn new() -> Self {
        let (heads, opcodes) = (Vec::with_capacity(HEADS), Vec::with_capacity(CONTEXTS));
        Self { heads, opcodes, contexts: Vec::with_capacity(CONTEXTS) }
    }

    /// Notes a first word that has no number yet, and gives it one while there are some left.
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
    /// What is remembered of the operand at this place after type and result.
    #[inline(always)]
    pub(crate) fn slot(&mut self, place: usize) -> &mut Slot {
        &mut self.slots[place.min(SLOTS - 1)]
    }
}

impl Slot {
    /// What stands for `value` in the stream of operands.
    pub(crate) fn distance(&mut self, value: u32, last_result: u32) -> u32 {
        let (from_last, from_result) =
            (zigzag(value.wrapping_sub(self.last)), zigzag(last_result.wrapping_sub(value)));
        let distance = if self.score > 0 { from_result } else { from_last };
        self.learn(value, from_last, from_result);
        distance
    }

    /// The value that a number in the stream of operands stands for. Without branches: which way a slot goes is
    /// hard to foresee for a processor.
    #[inline(always)]
    pub(crate) fn next(&mut self, distance: u32, last_result: u32) -> u32 {
        let by_result = u32::from(self.score > 0).wrapping_neg();
        let from = self.last ^ ((self.last ^ last_result) & by_result);
        let difference = (unzigzag(distance) ^ by_result).wrapping_sub(by_result);
        let value = from.wrapping_add(difference);
        self.learn(value, zigzag(value.wrapping_sub(self.last)), zigzag(last_result.wrapping_sub(value)));
        value
    }

    /// Learns the value, and its two distances: from the last value and from the last result.
    #[inline(always)]
    const fn learn(&mut self, value: u32, from_last: u32, from_result: u32) {
        let gain = from_result.leading_zeros() as i32 - from_last.leading_zeros() as i32;
        self.score += 2 * gain - (self.score >> 3);
        self.last = value;
    }
}
