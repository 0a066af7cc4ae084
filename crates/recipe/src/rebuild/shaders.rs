//! Shader objects.

use ash::vk;

use super::arena::{Arena, Chain};
use super::extensions::chain_plain;
use super::mappings::mappings;
use super::stage::{name, specialization};
use super::{RebuildError, Rebuilt, ensure, found};
use crate::capture::shaders::HASHED;
use vkstash_model::recipe::{Code, Shaders, Stage};
use vkstash_model::record::Key;

/// The create infos of one call.
pub type Infos<'a> = Vec<vk::ShaderCreateInfoEXT<'a>>;

/// What shader objects are made of beside what their recipe holds.
pub trait Device {
    /// The SPIR-V with this identity.
    fn code(&self, identity: &Key) -> Option<&[u32]>;
    /// The create info with the set layouts and the push constants of the layout with this digest.
    fn layout(&self, digest: &Key) -> Option<&vk::PipelineLayoutCreateInfo<'_>>;
}

/// The create infos of shaders, which are linked if there are several.
pub fn shaders<'a>(
    shaders: &Shaders<'_>,
    device: &'a impl Device,
) -> Result<Rebuilt<'a, Infos<'a>>, RebuildError> {
    let mut arena = Arena::default();
    ensure(shaders.stages.len() == shaders.next_stages.len(), "a shader without its next stages")?;
    let layout = found(device.layout(&shaders.layout), "layout", &shaders.layout)?;
    let mut infos = Infos::new();
    for (stage, &next) in shaders.stages.iter().zip(&shaders.next_stages) {
        let info = shader(&mut arena, stage, next, device)?;
        infos.push(vk::ShaderCreateInfoEXT {
            set_layout_count: layout.set_layout_count,
            p_set_layouts: layout.p_set_layouts,
            push_constant_range_count: layout.push_constant_range_count,
            p_push_constant_ranges: layout.p_push_constant_ranges,
            ..info
        });
    }
    let linked =
        |info: &vk::ShaderCreateInfoEXT<'_>| info.flags.contains(vk::ShaderCreateFlagsEXT::LINK_STAGE);
    // VUID-vkCreateShadersEXT-pCreateInfos-08410: the stages of linked shaders differ.
    let in_order = shaders.stages.windows(2).all(|pair| pair[0].stage < pair[1].stage);
    ensure(infos.len() == 1 || infos.iter().all(linked) && in_order, "shaders that are not linked")?;
    ensure(!infos.is_empty(), "no shader")?;
    Ok(Rebuilt::new(infos, arena))
}

fn shader<'a>(
    arena: &mut Arena,
    stage: &Stage<'_>,
    next: u32,
    device: &'a impl Device,
) -> Result<vk::ShaderCreateInfoEXT<'a>, RebuildError> {
    ensure(stage.stage.is_power_of_two(), "a stage that is not one")?;
    if stage.flags & !HASHED != 0 {
        return Err(RebuildError::Flags(stage.flags.into()));
    }
    let mut chain = Chain::default();
    chain_plain(arena, &mut chain, &stage.extensions)?;
    if !stage.mappings.is_empty() {
        let info = mappings(arena, &stage.mappings)?;
        chain.push(arena, info)?;
    }
    let Code::Module(identity) = &stage.code else {
        return Err(RebuildError::Contradiction("a shader object that is named by an identifier"));
    };
    let code = found(device.code(identity), "module", identity)?;
    Ok(vk::ShaderCreateInfoEXT {
        p_next: chain.head(),
        flags: vk::ShaderCreateFlagsEXT::from_raw(stage.flags),
        stage: vk::ShaderStageFlags::from_raw(stage.stage),
        next_stage: vk::ShaderStageFlags::from_raw(next),
        code_type: vk::ShaderCodeTypeEXT::SPIRV,
        code_size: size_of_val(code),
        p_code: code.as_ptr().cast(),
        p_name: name(arena, stage.entry_point)?,
        p_specialization_info: specialization(arena, &stage.specialization)?,
        ..Default::default()
    })
}
