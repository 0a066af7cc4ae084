//! Shader stages of one create info, with the code as a module, in the chain, or by identifier alone.

use std::ptr;

use ash::vk;

use super::jobs::Shader;

/// How a stage names its code.
#[derive(Clone, Copy, Debug)]
pub enum Code<'a> {
    /// The stage has a shader module.
    Module(vk::ShaderModule),
    /// A VkShaderModuleCreateInfo is in the stage's chain.
    Inline(&'a [u32]),
    /// The stage has the identifier of its module, and no module.
    Identifier(&'a [u8]),
}

/// A structure in a stage's chain.
enum Link<'a> {
    Nothing,
    Inline(vk::ShaderModuleCreateInfo<'a>),
    Identifier(vk::PipelineShaderStageModuleIdentifierCreateInfoEXT<'a>),
}

/// Stages and the structures of their chains, at fixed addresses.
pub struct Stages<'a> {
    infos: Vec<vk::PipelineShaderStageCreateInfo<'a>>,
    _links: Vec<Link<'a>>,
}

impl<'a> Stages<'a> {
    /// The stages of these shaders.
    pub fn new(shaders: &[(&'a Shader, Code<'a>)]) -> Stages<'a> {
        let link = |(_, code): &(&Shader, Code<'a>)| match *code {
            Code::Module(_) => Link::Nothing,
            Code::Inline(words) => Link::Inline(vk::ShaderModuleCreateInfo::default().code(words)),
            Code::Identifier(bytes) => Link::Identifier(
                vk::PipelineShaderStageModuleIdentifierCreateInfoEXT::default().identifier(bytes),
            ),
        };
        // The elements are on the heap: moving the vector does not move them.
        let links: Vec<Link<'a>> = shaders.iter().map(link).collect();
        let stage = |((shader, code), link): (&(&'a Shader, Code<'a>), &Link<'a>)| {
            let mut info =
                vk::PipelineShaderStageCreateInfo::default().stage(shader.stage).name(&shader.entry);
            info.p_next = match link {
                Link::Nothing => ptr::null(),
                Link::Inline(inline) => ptr::from_ref(inline).cast(),
                Link::Identifier(identifier) => ptr::from_ref(identifier).cast(),
            };
            if let Code::Module(module) = code {
                info.module = *module;
            }
            info
        };
        let infos = shaders.iter().zip(&links).map(stage).collect();
        Stages { infos, _links: links }
    }

    /// No stages.
    pub fn none() -> Stages<'a> {
        Stages { infos: Vec::new(), _links: Vec::new() }
    }

    /// The stages' create infos.
    pub fn infos(&self) -> &[vk::PipelineShaderStageCreateInfo<'a>] {
        &self.infos
    }
}
