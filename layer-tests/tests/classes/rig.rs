//! A device with all features that the suites use and the driver has.
//!
//! Each step runs in a process of its own, so structures that create infos point to are never freed.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_void};
use std::ptr;
use std::sync::Arc;

use ash::{ext, khr, vk};
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions, binaries};

/// Keeps a value until the process ends.
pub fn keep<T>(value: T) -> &'static mut T {
    Box::leak(Box::new(value))
}

/// Keeps a list.
pub fn keep_all<T>(values: impl IntoIterator<Item = T>) -> &'static [T] {
    values.into_iter().collect::<Vec<_>>().leak()
}

/// The head of every structure in a chain.
#[repr(C)]
struct Head {
    s_type: vk::StructureType,
    p_next: *mut c_void,
}

/// An extension and its feature structure.
type Extension = (&'static CStr, Option<(vk::StructureType, usize)>);

macro_rules! with {
    ($name:expr, $features:ident) => {
        (
            $name,
            Some((
                <vk::$features<'_> as vk::TaggedStructure>::STRUCTURE_TYPE,
                size_of::<vk::$features<'_>>(),
            )),
        )
    };
}

const EXTENSIONS: &[Extension] = &[
    (khr::pipeline_library::NAME, None),
    with!(ext::graphics_pipeline_library::NAME, PhysicalDeviceGraphicsPipelineLibraryFeaturesEXT),
    with!(ext::mesh_shader::NAME, PhysicalDeviceMeshShaderFeaturesEXT),
    with!(khr::fragment_shading_rate::NAME, PhysicalDeviceFragmentShadingRateFeaturesKHR),
    with!(ext::pipeline_robustness::NAME, PhysicalDevicePipelineRobustnessFeaturesEXT),
    with!(ext::robustness2::NAME, PhysicalDeviceRobustness2FeaturesEXT),
    (ext::sample_locations::NAME, None),
    (ext::discard_rectangles::NAME, None),
    (ext::conservative_rasterization::NAME, None),
    with!(ext::line_rasterization::NAME, PhysicalDeviceLineRasterizationFeaturesEXT),
    with!(ext::provoking_vertex::NAME, PhysicalDeviceProvokingVertexFeaturesEXT),
    with!(ext::color_write_enable::NAME, PhysicalDeviceColorWriteEnableFeaturesEXT),
    with!(ext::depth_clip_enable::NAME, PhysicalDeviceDepthClipEnableFeaturesEXT),
    with!(ext::depth_clip_control::NAME, PhysicalDeviceDepthClipControlFeaturesEXT),
    with!(ext::vertex_attribute_divisor::NAME, PhysicalDeviceVertexAttributeDivisorFeaturesEXT),
    with!(ext::transform_feedback::NAME, PhysicalDeviceTransformFeedbackFeaturesEXT),
    with!(ext::extended_dynamic_state::NAME, PhysicalDeviceExtendedDynamicStateFeaturesEXT),
    with!(ext::extended_dynamic_state2::NAME, PhysicalDeviceExtendedDynamicState2FeaturesEXT),
    with!(ext::extended_dynamic_state3::NAME, PhysicalDeviceExtendedDynamicState3FeaturesEXT),
    with!(ext::vertex_input_dynamic_state::NAME, PhysicalDeviceVertexInputDynamicStateFeaturesEXT),
    with!(khr::pipeline_executable_properties::NAME, PhysicalDevicePipelineExecutablePropertiesFeaturesKHR),
    (ash::amd::shader_info::NAME, None),
    with!(khr::maintenance5::NAME, PhysicalDeviceMaintenance5FeaturesKHR),
    with!(khr::ray_tracing_pipeline::NAME, PhysicalDeviceRayTracingPipelineFeaturesKHR),
    with!(khr::acceleration_structure::NAME, PhysicalDeviceAccelerationStructureFeaturesKHR),
    (khr::deferred_host_operations::NAME, None),
    with!(ext::shader_module_identifier::NAME, PhysicalDeviceShaderModuleIdentifierFeaturesEXT),
];

const CORE: &[(vk::StructureType, usize)] = &[
    (
        vk::StructureType::PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
        size_of::<vk::PhysicalDeviceVulkan11Features<'_>>(),
    ),
    (
        vk::StructureType::PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        size_of::<vk::PhysicalDeviceVulkan12Features<'_>>(),
    ),
    (
        vk::StructureType::PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
        size_of::<vk::PhysicalDeviceVulkan13Features<'_>>(),
    ),
];

/// Options beside those that every device gets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// VK_KHR_pipeline_binary and its feature.
    pub binaries: bool,
    /// disableInternalCache.
    pub no_internal_cache: bool,
    /// Leaves out this extension.
    pub without: Option<&'static CStr>,
}

/// A device with everything that the tests of this suite need.
pub struct Rig {
    /// The device itself.
    pub device: Device,
    enabled: BTreeSet<CString>,
    features: Vec<&'static mut [u32]>,
}

impl Rig {
    /// A device with everything except pipeline binaries.
    pub fn open() -> Rig {
        Rig::with(Options::default())
    }

    /// The instance's first device, with all extensions of the list that it has.
    pub fn with(options: Options) -> Rig {
        let instance = Instance::new(&InstanceOptions::default()).unwrap();
        Rig::on(&instance, options)
    }

    /// The first device of the caller's instance, with all extensions of the list that it has.
    pub fn on(instance: &Arc<Instance>, options: Options) -> Rig {
        let physical = instance.physical_device();
        let mut enabled: BTreeSet<CString> = instance.device_extensions(physical).into_iter().collect();
        let mut wanted: Vec<Extension> = EXTENSIONS.to_vec();
        if options.binaries {
            let size = size_of::<vk::PhysicalDeviceMaintenance5FeaturesKHR<'_>>();
            wanted.push((binaries::NAME, Some((binaries::FEATURES, size))));
        }
        wanted.retain(|(name, _)| enabled.contains(*name) && options.without != Some(*name));
        enabled.retain(|name| wanted.iter().any(|(wanted, _)| *wanted == name.as_c_str()));
        let structures = CORE.iter().copied().chain(wanted.iter().filter_map(|(_, features)| *features));
        let mut features: Vec<&'static mut [u32]> = Vec::new();
        let mut head: *mut c_void = ptr::null_mut();
        for (s_type, size) in structures {
            let words: &mut [u64] = vec![0; size.div_ceil(8)].leak();
            let start: *mut u64 = words.as_mut_ptr();
            // SAFETY: large and aligned enough for any structure, whose head is written here.
            unsafe {
                start.cast::<Head>().write(Head { s_type, p_next: head });
                features.push(std::slice::from_raw_parts_mut(start.cast(), size / 4));
            }
            head = start.cast();
        }
        let mut all = vk::PhysicalDeviceFeatures2 { p_next: head, ..Default::default() };
        let mut switch = binaries::InternalCacheControl::disabled();
        let names: Vec<_> = wanted.iter().map(|(name, _)| name.as_ptr()).collect();
        let queue = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
        let mut info =
            vk::DeviceCreateInfo::default().queue_create_infos(&queue).enabled_extension_names(&names);
        // SAFETY: a live physical device, and a chain of structures that it knows.
        let raw = unsafe {
            instance.raw.get_physical_device_features2(physical, &mut all);
            // robustBufferAccess is not used by these suites, and has rules of its own.
            all.features.robust_buffer_access = 0;
            info.p_next = ptr::from_ref(&all).cast();
            if options.no_internal_cache {
                switch.p_next = info.p_next;
                info.p_next = ptr::from_ref(&switch).cast();
            }
            instance.raw.create_device(physical, &info, None)
        };
        Rig { device: Device::adopt(instance, physical, raw.unwrap()), enabled, features }
    }

    /// Whether the device has this extension, enabled.
    pub fn has(&self, name: &CStr) -> bool {
        self.enabled.contains(name)
    }

    /// Whether a member of a feature structure is enabled; members count from 0.
    pub fn feature(&self, s_type: vk::StructureType, member: usize) -> bool {
        let found = self.features.iter().find(|words| words[0] == s_type.as_raw() as u32);
        found.is_some_and(|words| words[size_of::<Head>() / 4 + member] != 0)
    }

    /// Whether the driver follows pointers to state that a library ignores (contract 6): NVIDIA's 580.159 does.
    pub fn reads_ignored_state(&self) -> bool {
        const NVIDIA: u32 = 0x10DE;
        let device = &self.device;
        // SAFETY: a live instance, and a physical device of it.
        let properties = unsafe { device.instance.raw.get_physical_device_properties(device.physical) };
        properties.vendor_id == NVIDIA
    }

    /// A stage with code of its own.
    pub fn stage(
        &self,
        stage: vk::ShaderStageFlags,
        code: &[u32],
    ) -> vk::PipelineShaderStageCreateInfo<'static> {
        vk::PipelineShaderStageCreateInfo::default()
            .stage(stage)
            .module(self.device.module(code))
            .name(c"main")
    }

    /// vkCreateGraphicsPipelines with one create info.
    pub fn graphics(
        &self,
        cache: vk::PipelineCache,
        info: vk::GraphicsPipelineCreateInfo<'_>,
    ) -> (vk::Result, vk::Pipeline) {
        // SAFETY: the suites' create infos are valid, except for pointers that the driver must not follow.
        let (result, made) = unsafe { self.device.create_graphics(cache, &[info]) };
        (result, made[0])
    }
}
