//! Structures that neither the bindings nor the layer's model have, declared from the registry.

use std::ffi::c_void;

use ash::vk::{self, TaggedStructure};

use crate::json::structure::structure;

/// Declares structures of one number behind sType and pNext.
macro_rules! declare {
    ($($(#[$doc:meta])* $name:ident = $s_type:literal { $json:literal: $field:ident, })*) => { $(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        #[allow(missing_docs, reason = "the members are those of the registry")]
        pub struct $name {
            pub s_type: vk::StructureType,
            pub p_next: *mut c_void,
            pub $field: u32,
        }

        // SAFETY: the structure starts with sType and pNext, and the registry gives it this value.
        unsafe impl TaggedStructure for $name {
            const STRUCTURE_TYPE: vk::StructureType = vk::StructureType::from_raw($s_type);
        }

        structure! { newer $name { $json: value $field, } }
    )* };
}

declare! {
    /// VkPipelineFragmentDensityMapLayeredCreateInfoVALVE.
    PipelineFragmentDensityMapLayeredCreateInfoVALVE = 1_000_611_002 {
        "maxFragmentDensityMapLayers": max_fragment_density_map_layers,
    }
    /// VkRayTracingPipelineClusterAccelerationStructureCreateInfoNV.
    RayTracingPipelineClusterAccelerationStructureCreateInfoNV = 1_000_569_007 {
        "allowClusterAccelerationStructure": allow_cluster_acceleration_structure,
    }
    /// VkPhysicalDeviceMaintenance8FeaturesKHR.
    PhysicalDeviceMaintenance8FeaturesKHR = 1_000_574_000 {
        "maintenance8": maintenance8,
    }
}

/// VkDepthClampRangeEXT.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DepthClampRange {
    /// minDepthClamp.
    pub min_depth_clamp: f32,
    /// maxDepthClamp.
    pub max_depth_clamp: f32,
}

structure! { plain DepthClampRange {
    "minDepthClamp": value min_depth_clamp,
    "maxDepthClamp": value max_depth_clamp,
} }
