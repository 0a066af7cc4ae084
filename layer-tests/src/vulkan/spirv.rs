//! Tiny valid modules, assembled word by word. Each has one function, `main`.

const MAGIC: u32 = 0x0723_0203;
const VERSION_1_0: u32 = 0x0001_0000;
/// `main` and its end, as words.
pub(super) const MAIN: [u32; 2] = [u32::from_le_bytes(*b"main"), 0];

/// A module under construction.
pub(super) struct Assembler(pub(super) Vec<u32>);

impl Assembler {
    pub(super) fn new(bound: u32) -> Assembler {
        Assembler(vec![MAGIC, VERSION_1_0, 0, bound, 0])
    }

    pub(super) fn op(&mut self, code: u32, operands: &[u32]) -> &mut Assembler {
        self.0.push((operands.len() as u32 + 1) << 16 | code);
        self.0.extend_from_slice(operands);
        self
    }

    /// OpCapability Shader, the memory model, and an entry point with its interface.
    pub(super) fn begin(&mut self, model: u32, main: u32, interface: &[u32]) -> &mut Assembler {
        let entry: Vec<u32> = [model, main].iter().chain(&MAIN).chain(interface).copied().collect();
        self.op(17, &[1]).op(14, &[0, 1]).op(15, &entry)
    }

    /// The types of `main` and of vectors, and the output variable 9.
    pub(super) fn vector_output(&mut self) -> &mut Assembler {
        self.op(19, &[1])
            .op(33, &[2, 1])
            .op(22, &[5, 32])
            .op(23, &[6, 5, 4])
            .op(32, &[8, 3, 6])
            .op(59, &[8, 9, 3])
    }
}

/// A compute shader that writes `value` to the storage buffer at set 0, binding 0. Different values give different
/// code.
pub fn compute(value: u32) -> Vec<u32> {
    storing(value, false)
}

/// The shader of [`compute`], with `value` as the default of specialization constant 0.
pub fn compute_specialized(value: u32) -> Vec<u32> {
    storing(value, true)
}

/// A compute shader that writes `count` different values: the more there are, the longer is the compiled code.
pub fn compute_storing(count: u32) -> Vec<u32> {
    let first = 11;
    // A constant for each index, one for each value, and a pointer for each store.
    let mut module = Assembler::new(first + 3 * count);
    module.begin(5, 3, &[]);
    module
        .op(16, &[3, 17, 1, 1, 1])
        .op(71, &[7, 6, 4])
        .op(72, &[8, 0, 35, 0])
        .op(71, &[8, 3])
        .op(71, &[10, 34, 0])
        .op(71, &[10, 33, 0])
        .op(19, &[1])
        .op(33, &[2, 1])
        .op(21, &[5, 32, 0])
        .op(29, &[7, 5])
        .op(30, &[8, 7])
        .op(32, &[9, 2, 8])
        .op(59, &[9, 10, 2])
        .op(32, &[6, 2, 5]);
    for index in 0..count {
        module.op(43, &[5, first + 3 * index, index]);
        module.op(43, &[5, first + 3 * index + 1, 0x1234_5678_u32.wrapping_mul(index + 1)]);
    }
    module.op(54, &[1, 3, 0, 2]).op(248, &[4]);
    for index in 0..count {
        let [place, value, pointer] = [0, 1, 2].map(|offset| first + 3 * index + offset);
        module.op(65, &[6, pointer, 10, first, place]).op(62, &[pointer, value]);
    }
    module.op(253, &[]).op(56, &[]);
    module.0
}

fn storing(value: u32, specialized: bool) -> Vec<u32> {
    let mut module = Assembler::new(14);
    module.begin(5, 3, &[]);
    module.op(16, &[3, 17, 1, 1, 1]);
    if specialized {
        module.op(71, &[6, 1, 0]);
    }
    module
        .op(71, &[7, 6, 4])
        .op(72, &[8, 0, 35, 0])
        .op(71, &[8, 3])
        .op(71, &[10, 34, 0])
        .op(71, &[10, 33, 0])
        .op(19, &[1])
        .op(33, &[2, 1])
        .op(21, &[5, 32, 0])
        .op(if specialized { 50 } else { 43 }, &[5, 6, value])
        .op(43, &[5, 11, 0])
        .op(29, &[7, 5])
        .op(30, &[8, 7])
        .op(32, &[9, 2, 8])
        .op(59, &[9, 10, 2])
        .op(32, &[12, 2, 5])
        .op(54, &[1, 3, 0, 2])
        .op(248, &[4])
        .op(65, &[12, 13, 10, 11, 11])
        .op(62, &[13, 6])
        .op(253, &[])
        .op(56, &[]);
    module.0
}

/// A vertex shader that places every vertex at (value, value, value, 1).
pub fn vertex(value: f32) -> Vec<u32> {
    let mut module = Assembler::new(12);
    module
        .begin(0, 3, &[9])
        // BuiltIn Position
        .op(71, &[9, 11, 0]);
    constant_output(&mut module, value);
    module.0
}

/// A fragment shader that writes (value, value, value, 1) to location 0.
pub fn fragment(value: f32) -> Vec<u32> {
    let mut module = Assembler::new(12);
    module
        .begin(4, 3, &[9])
        // OriginUpperLeft
        .op(16, &[3, 7])
        // Location 0
        .op(71, &[9, 30, 0]);
    constant_output(&mut module, value);
    module.0
}

/// A ray generation shader that does nothing, for devices of Vulkan 1.2 or later.
pub fn ray_generation() -> Vec<u32> {
    let mut module = Assembler::new(5);
    module.0[1] = 0x0001_0400;
    let extension: Vec<u32> = b"SPV_KHR_ray_tracing\0"
        .chunks(4)
        .map(|bytes| u32::from_le_bytes(bytes.try_into().expect("twenty bytes")))
        .collect();
    let entry: Vec<u32> = [5313, 3].iter().chain(&MAIN).copied().collect();
    module
        .op(17, &[4479])
        .op(10, &extension)
        .op(14, &[0, 1])
        .op(15, &entry)
        .op(19, &[1])
        .op(33, &[2, 1])
        .op(54, &[1, 3, 0, 2])
        .op(248, &[4])
        .op(253, &[])
        .op(56, &[]);
    module.0
}

/// The part behind the decorations of a shader that stores one constant vector in its output variable 9.
fn constant_output(module: &mut Assembler, value: f32) {
    module
        .vector_output()
        .op(43, &[5, 7, value.to_bits()])
        .op(43, &[5, 10, 1.0f32.to_bits()])
        .op(44, &[6, 11, 7, 7, 7, 10])
        .op(54, &[1, 3, 0, 2])
        .op(248, &[4])
        .op(62, &[9, 11])
        .op(253, &[])
        .op(56, &[]);
}
