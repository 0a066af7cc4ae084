//! Structures of Vulkan as the registry describes them: their names, sTypes and sizes, also of those that the bindings
//! do not have. What becomes of each is decided elsewhere.
//!
//! - [`structures`] the tables, generated
//! - [`layout`] the sizes of structures, from their members

pub mod layout;
pub mod structures;

use ash::vk;
use layout::Structure;

/// A structure that may stand in the chain of VkDeviceCreateInfo.
pub fn of_device(s_type: vk::StructureType) -> Option<&'static Structure> {
    structures::DEVICES.iter().find(|structure| structure.s_type == s_type)
}

#[cfg(test)]
mod tests {
    use super::layout::named;
    use super::*;

    #[test]
    fn structures_are_as_large_as_those_of_the_bindings() {
        fn is<T: vk::TaggedStructure>(name: &str) {
            let all = [structures::PIPELINES, structures::DEVICES].concat();
            let structure = named(&all, name).expect(name);
            assert_eq!((structure.s_type, structure.size), (T::STRUCTURE_TYPE, size_of::<T>()), "{name}");
        }
        is::<vk::PhysicalDeviceFeatures2<'_>>("PhysicalDeviceFeatures2");
        is::<vk::PhysicalDeviceVulkan12Features<'_>>("PhysicalDeviceVulkan12Features");
        is::<vk::DevicePrivateDataCreateInfo<'_>>("DevicePrivateDataCreateInfo");
        is::<vk::PipelineRasterizationLineStateCreateInfoKHR<'_>>("PipelineRasterizationLineStateCreateInfo");
        is::<vk::SamplerCustomBorderColorCreateInfoEXT<'_>>("SamplerCustomBorderColorCreateInfoEXT");
        is::<vk::RenderPassFragmentDensityMapCreateInfoEXT<'_>>("RenderPassFragmentDensityMapCreateInfoEXT");
        is::<vk::PipelineShaderStageModuleIdentifierCreateInfoEXT<'_>>(
            "PipelineShaderStageModuleIdentifierCreateInfoEXT",
        );
        is::<vk::SubpassDescriptionDepthStencilResolve<'_>>("SubpassDescriptionDepthStencilResolve");
    }
}
