//! The classes of pipelines that a driver's caches may hold or not.

use ash::vk;

use vkstash_recipe::capture::parsed::Parsed;

/// What a driver may keep in its caches or not: RADV, for one, caches complete pipelines and no fast links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipelineClass {
    /// Complete compute and graphics pipelines. A driver whose caches hold none of them holds nothing at all.
    Complete,
    /// Graphics pipeline libraries.
    Library,
    /// Links of graphics pipeline libraries.
    Link,
    /// Ray tracing pipelines and their libraries.
    RayTracing,
}

impl PipelineClass {
    /// The number of classes.
    pub const COUNT: usize = 4;

    /// The class of the pipeline that a create info describes.
    pub fn of(parsed: &Parsed<'_>) -> PipelineClass {
        if parsed.bind_point == vk::PipelineBindPoint::RAY_TRACING_KHR {
            PipelineClass::RayTracing
        } else if parsed.is_linked() {
            PipelineClass::Link
        } else if parsed.is_library() {
            PipelineClass::Library
        } else {
            PipelineClass::Complete
        }
    }
}
