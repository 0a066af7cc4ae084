//! A pipeline of any kind.

use ash::vk;

use super::compute::compute;
use super::graphics::graphics;
use super::ray_tracing::ray_tracing;
use super::{Device, RebuildError, Rebuilt, same_schema};
use crate::capture::LibraryTraits;
use vkstash_model::recipe::{Pipeline, Recipe};

/// The create info of a pipeline, for one of the three commands.
pub enum Info<'a> {
    /// vkCreateComputePipelines.
    Compute(Rebuilt<'a, vk::ComputePipelineCreateInfo<'a>>),
    /// vkCreateGraphicsPipelines, and what has to be known of the pipeline where it is a library.
    Graphics(Rebuilt<'a, vk::GraphicsPipelineCreateInfo<'a>>, LibraryTraits),
    /// vkCreateRayTracingPipelinesKHR.
    RayTracing(Rebuilt<'a, vk::RayTracingPipelineCreateInfoKHR<'a>>),
}

/// The create info of the pipeline that a recipe describes.
pub fn pipeline<'a>(recipe: &Recipe<'_>, device: &'a impl Device) -> Result<Info<'a>, RebuildError> {
    same_schema(recipe.schema)?;
    match &recipe.pipeline {
        Pipeline::Compute(recipe) => compute(recipe, device).map(Info::Compute),
        Pipeline::Graphics(recipe) => {
            graphics(recipe, device).map(|(rebuilt, traits)| Info::Graphics(rebuilt, traits))
        }
        Pipeline::RayTracing(recipe) => ray_tracing(recipe, device).map(Info::RayTracing),
        Pipeline::Shaders(_) => Err(RebuildError::NoPipeline),
    }
}
