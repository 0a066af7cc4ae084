//! The shaders to translate, and the state of their pipelines.

use std::ffi::CString;
use std::fmt::Write as _;

use ash::vk;
use sha2::{Digest, Sha256};

use super::plan::Plan;
use crate::corpus::{self, Failure, Selection};
use crate::vulkan::spirv;

/// A shader as the translator gets it from the game. Its SPIR-V also stands for the game's byte code: the result of
/// the translation is known.
#[derive(Clone, Debug)]
pub struct Shader {
    /// SHA-256 of the game's code, in hexadecimal: the translator's key for the shader.
    pub digest: String,
    /// Its stage.
    pub stage: vk::ShaderStageFlags,
    /// Its entry point.
    pub entry: CString,
    /// The result of the translation.
    pub code: Vec<u32>,
}

impl Shader {
    fn new(stage: vk::ShaderStageFlags, entry: CString, code: Vec<u32>) -> Shader {
        let bytes: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut digest = String::new();
        for byte in Sha256::digest(&bytes) {
            let _ = write!(digest, "{byte:02x}");
        }
        Shader { digest, stage, entry, code }
    }
}

/// A graphics pipeline: indices of its shaders, and its colour format.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    /// Index of the vertex shader in [`Jobs::vertex`].
    pub vertex: usize,
    /// Index of the fragment shader in [`Jobs::fragment`].
    pub fragment: usize,
    /// Format of the colour attachment.
    pub format: vk::Format,
}

/// The shaders and pipelines that a translator has to translate.
#[derive(Clone, Debug, Default)]
pub struct Jobs {
    /// Compute shaders, each of one pipeline.
    pub compute: Vec<Shader>,
    /// Vertex shaders.
    pub vertex: Vec<Shader>,
    /// Fragment shaders.
    pub fragment: Vec<Shader>,
    /// Graphics pipelines, each made of one draw's shaders.
    pub draws: Vec<Draw>,
}

/// Used in turn.
const FORMATS: [vk::Format; 2] = [vk::Format::R8G8B8A8_UNORM, vk::Format::R16G16B16A16_SFLOAT];

/// The jobs of a plan. Two pipelines share each vertex shader, as in games, because libraries are there to be reused.
///
/// # Errors
/// A folder without modules.
pub fn read(plan: &Plan) -> Result<Jobs, Failure> {
    let mut jobs = Jobs::default();
    let stage = vk::ShaderStageFlags::COMPUTE;
    if plan.compute > 0 {
        if let Some(folder) = &plan.modules {
            let selection = Selection {
                made: None,
                modules: Some(folder.clone()),
                count: Some(plan.compute as usize),
                copies: 1,
                others: false,
                max_bytes: 9216,
                keep_slow: false,
                only: None,
            };
            let modules = corpus::read(&selection)?.into_iter();
            jobs.compute = modules.map(|module| Shader::new(stage, module.entry, module.words)).collect();
        } else {
            let of = |value| Shader::new(stage, c"main".into(), spirv::compute(value));
            jobs.compute = (1..=plan.compute).map(of).collect();
        }
    }
    for index in 0..plan.graphics as usize {
        let vertex = index / 2;
        if vertex == jobs.vertex.len() {
            let code = spirv::vertex(vertex as f32 + 0.5);
            jobs.vertex.push(Shader::new(vk::ShaderStageFlags::VERTEX, c"main".into(), code));
        }
        let code = spirv::fragment(index as f32 + 0.25);
        jobs.fragment.push(Shader::new(vk::ShaderStageFlags::FRAGMENT, c"main".into(), code));
        jobs.draws.push(Draw { vertex, fragment: index, format: FORMATS[index % FORMATS.len()] });
    }
    Ok(jobs)
}
