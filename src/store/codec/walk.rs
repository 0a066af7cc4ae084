//! What both directions of the filter remember while they walk over a module, and predict from it.

use super::shape::Shape;

/// Instructions (first words) that have a number of one byte; 255 introduces another one.
const HEADS: usize = 255;

/// Opcodes that have a context of their own.
const CONTEXTS: usize = 256;

/// Operands that have a prediction of their own; later ones share the last.
const SLOTS: usize = 16;

/// One first word: an opcode with a word count.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub(super) opcode: u16,
    pub(super) words: u16,
    pub(super) shape: Shape,
    /// Which context its operands belong to.
    pub(super) context: usize,
}

/// One operand of an opcode.
#[derive(Clone, Copy, Default)]
pub(super) struct Slot {
    /// Its last value.
    last: u32,
    /// Above zero where the distance from the last result was smaller of late than that from the last value.
    score: i32,
}

/// What an opcode's instructions had last.
#[derive(Clone, Copy, Default)]
pub(super) struct Context {
    /// The type of the result.
    pub(super) last_type: u32,
    slots: [Slot; SLOTS],
}

/// Memory of one walk, less than 64 KiB.
#[derive(Default)]
pub(super) struct Walk {
    pub(super) heads: Vec<Head>,
    opcodes: Vec<u16>,
    pub(super) contexts: Vec<Context>,
}

impl Walk {
    /// Notes a first word that has no number yet, and gives it one while there are some left.
    pub(super) fn add(&mut self, opcode: u16, words: u16) -> Head {
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
    pub(super) fn slot(&mut self, place: usize) -> &mut Slot {
        &mut self.slots[place.min(SLOTS - 1)]
    }
}

impl Slot {
    /// From what the operand's distance is to be taken: true for the last result.
    #[inline(always)]
    pub(super) const fn by_result(&self) -> bool {
        self.score > 0
    }

    /// The operand's last value.
    #[inline(always)]
    pub(super) const fn last(&self) -> u32 {
        self.last
    }

    /// Learns the value, and its two distances (zigzag): from the last value and from the last result.
    #[inline(always)]
    pub(super) const fn learn(&mut self, value: u32, from_last: u32, from_result: u32) {
        let gain = from_result.leading_zeros() as i32 - from_last.leading_zeros() as i32;
        self.score += 2 * gain - (self.score >> 3);
        self.last = value;
    }
}
