//! Tiny modules of the rarer stages. Each has one function, `main`, which does next to nothing; an unused constant
//! distinguishes modules.

use ash::vk;

use super::spirv::{Assembler, MAIN};

const VERSION_1_4: u32 = 0x0001_0400;

/// Declarations of a stage: capabilities, extension, execution model and modes.
struct Stage {
    capabilities: &'static [u32],
    extension: Option<&'static [u8]>,
    model: u32,
    /// Each one is a mode and its operands.
    modes: &'static [&'static [u32]],
}

fn rays(model: u32) -> Stage {
    Stage { capabilities: &[4479], extension: Some(b"SPV_KHR_ray_tracing\0"), model, modes: &[] }
}

fn stage(stage: vk::ShaderStageFlags) -> Stage {
    use vk::ShaderStageFlags as S;
    let plain = |capabilities, model, modes| Stage { capabilities, extension: None, model, modes };
    let mesh = |model, modes| Stage {
        capabilities: &[1, 5283],
        extension: Some(b"SPV_EXT_mesh_shader\0"),
        model,
        modes,
    };
    match stage {
        S::COMPUTE => plain(&[1], 5, &[&[17, 1, 1, 1]]),
        // OutputVertices
        S::TESSELLATION_CONTROL => plain(&[1, 3], 1, &[&[26, 3]]),
        // Triangles, SpacingEqual, VertexOrderCcw
        S::TESSELLATION_EVALUATION => plain(&[1, 3], 2, &[&[22], &[1], &[5]]),
        // Invocations, Triangles, OutputVertices, OutputTriangleStrip
        S::GEOMETRY => plain(&[1, 2], 3, &[&[0, 1], &[22], &[26, 3], &[29]]),
        S::TASK_EXT => mesh(5364, &[&[17, 1, 1, 1]]),
        // LocalSize, OutputVertices, OutputPrimitivesEXT, OutputTrianglesEXT
        S::MESH_EXT => mesh(5365, &[&[17, 1, 1, 1], &[26, 3], &[5270, 1], &[5298]]),
        S::RAYGEN_KHR => rays(5313),
        S::INTERSECTION_KHR => rays(5314),
        S::ANY_HIT_KHR => rays(5315),
        S::CLOSEST_HIT_KHR => rays(5316),
        S::MISS_KHR => rays(5317),
        S::CALLABLE_KHR => rays(5318),
        other => panic!("no module for {other:?}"),
    }
}

/// A module of this stage, for devices of Vulkan 1.2 or later. Different values give different code.
pub fn empty(flags: vk::ShaderStageFlags, value: u32) -> Vec<u32> {
    let Stage { capabilities, extension, model, modes } = stage(flags);
    let mut module = Assembler::new(8);
    module.0[1] = VERSION_1_4;
    for &capability in capabilities {
        module.op(17, &[capability]);
    }
    if let Some(extension) = extension {
        let words = extension.chunks(4).map(|chunk| {
            let mut word = [0; 4];
            word[..chunk.len()].copy_from_slice(chunk);
            u32::from_le_bytes(word)
        });
        module.op(10, &words.collect::<Vec<_>>());
    }
    let entry: Vec<u32> = [model, 3].iter().chain(&MAIN).copied().collect();
    module.op(14, &[0, 1]).op(15, &entry);
    for mode in modes {
        let operands: Vec<u32> = [3].iter().chain(*mode).copied().collect();
        module.op(16, &operands);
    }
    module.op(19, &[1]).op(33, &[2, 1]).op(21, &[5, 32, 0]).op(43, &[5, 6, value]).op(43, &[5, 7, 0]);
    module.op(54, &[1, 3, 0, 2]).op(248, &[4]);
    match flags {
        // OpEmitMeshTasksEXT ends the function.
        vk::ShaderStageFlags::TASK_EXT => module.op(5294, &[6, 7, 7]),
        // OpSetMeshOutputsEXT
        vk::ShaderStageFlags::MESH_EXT => module.op(5295, &[7, 7]).op(253, &[]),
        _ => module.op(253, &[]),
    };
    module.op(56, &[]);
    module.0
}

/// A fragment shader that samples the combined image sampler at set 0, binding 0, and writes the result to location
/// 0.
pub fn sampling() -> Vec<u32> {
    let mut module = Assembler::new(22);
    module
        .begin(4, 3, &[9])
        .op(16, &[3, 7])
        .op(71, &[9, 30, 0])
        .op(71, &[20, 34, 0])
        .op(71, &[20, 33, 0])
        .vector_output()
        .op(23, &[14, 5, 2])
        // A sampled two-dimensional image, a sampler for it, and the variable.
        .op(25, &[15, 5, 1, 0, 0, 0, 1, 0])
        .op(27, &[16, 15])
        .op(32, &[17, 0, 16])
        .op(59, &[17, 20, 0])
        .op(43, &[5, 7, 0.5f32.to_bits()])
        .op(44, &[14, 18, 7, 7])
        .op(54, &[1, 3, 0, 2])
        .op(248, &[4])
        .op(61, &[16, 19, 20])
        // OpImageSampleExplicitLod
        .op(88, &[6, 21, 19, 18, 2, 7])
        .op(62, &[9, 21])
        .op(253, &[])
        .op(56, &[]);
    module.0
}
