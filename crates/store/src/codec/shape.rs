//! The type, result and text operands of each instruction, by opcode. These tables are part of the format and never
//! change. A missing or wrong opcode costs compression only.

/// What is special about the first operands of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The first operand is the type of the result.
    pub(crate) typed: bool,
    /// The next operand is the id of the result.
    pub(crate) result: bool,
    /// After this many further operands all words are text.
    pub(crate) text_after: u16,
}

/// Opcodes that have no result.
const NO_RESULT: [u16; 92] = [
    0, 2, 3, 4, 5, 6, 8, 10, 14, 15, 16, 17, 39, 56, 62, 63, 64, 71, 72, 74, 75, 99, 218, 219, 220, 221, 224,
    225, 228, 246, 247, 249, 250, 251, 252, 253, 254, 255, 256, 257, 260, 280, 281, 287, 288, 297, 298, 301,
    302, 317, 319, 329, 330, 331, 332, 4416, 4445, 4446, 4448, 4449, 4458, 4473, 4474, 4475, 4476, 5294,
    5295, 5299, 5335, 5336, 5337, 5338, 5339, 5344, 5360, 5364, 5365, 5380, 5397, 5576, 5578, 5581, 5630,
    5632, 5633, 5820, 5887, 6090, 6091, 6092, 6142, 6143,
];

/// Opcodes whose result has no type: types, labels and the like.
const NO_TYPE: [u16; 47] = [
    7, 11, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 73, 248, 322, 327,
    4456, 4472, 5341, 5358, 5700, 5701, 5702, 5703, 5704, 5705, 5706, 5707, 5708, 5709, 5710, 5711, 5712,
    5911, 5912, 5913, 6086,
];

/// Opcodes with text, and the number of operands before it without type and result.
const TEXT: [(u16, u16); 8] = [(4, 0), (5, 1), (6, 2), (7, 0), (10, 0), (11, 0), (330, 0), (2, 0)];

/// The shapes of opcodes below 512, which all modules use. Searching lists would take longer than decoding the
/// instructions.
static LOW: [Shape; 512] = {
    let mut table = [Shape::found(0); 512];
    let mut opcode = 0;
    while opcode < table.len() {
        table[opcode] = Shape::found(opcode as u16);
        opcode += 1;
    }
    table
};

impl Shape {
    /// The shape of an opcode's instructions.
    pub(crate) fn of(opcode: u16) -> Self {
        LOW.get(usize::from(opcode)).copied().unwrap_or_else(|| Self::found(opcode))
    }

    const fn found(opcode: u16) -> Self {
        let result = !contains(&NO_RESULT, opcode);
        let typed = result && !contains(&NO_TYPE, opcode);
        let mut text_after = u16::MAX;
        let mut row = 0;
        while row < TEXT.len() {
            if TEXT[row].0 == opcode {
                text_after = TEXT[row].1;
            }
            row += 1;
        }
        Self { typed, result, text_after }
    }
}

const fn contains(list: &[u16], opcode: u16) -> bool {
    let mut row = 0;
    while row < list.len() {
        if list[row] == opcode {
            return true;
        }
        row += 1;
    }
    false
}
