//! The one table of pNext structures that may stand in a chain of a pipeline, a stage, a piece of state, a
//! layout, a render pass, a module, a sampler or a colour conversion: what becomes of each, and why.
//! docs/evidence/structures.md is written from it.
//!
//! A structure that has no row makes the pipeline go to the driver unchanged. It is never skipped: a key
//! that leaves out something that matters is a wrong pipeline (contract 7.1).

use ash::vk;

use crate::counters::BypassReason;
use crate::registry;
use crate::registry::layout::{Structure, named};
use crate::registry::structures::PIPELINES;

/// What capture does with a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// The structure's members are plain numbers: this many bytes after pNext, without padding, go into the key.
    Plain(usize),
    /// The structure cannot change what the driver makes of the create info.
    Ignored,
    /// The structure holds pointers, counts or handles and is read by the part of capture whose chain it belongs to;
    /// anywhere else it is a reason to bypass.
    Special,
    /// The pipeline must go to the driver unchanged.
    Bypass(BypassReason),
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The structure, as the registry describes it.
    pub structure: Structure,
    /// What becomes of it.
    pub handling: Handling,
    /// Why, or how.
    pub reason: &'static str,
}

/// VkDataGraphPipelineCreateInfoARM, which the bindings lack.
pub const DATA_GRAPH: vk::StructureType = vk::StructureType::from_raw(1_000_507_000);

/// Create infos of pipelines that are passed by. They extend nothing, so the registry's tables lack them.
const PASSED_BY: [(vk::StructureType, &str); 3] = [
    (DATA_GRAPH, "DataGraphPipelineCreateInfoARM"),
    (vk::StructureType::EXECUTION_GRAPH_PIPELINE_CREATE_INFO_AMDX, "ExecutionGraphPipelineCreateInfoAMDX"),
    (vk::StructureType::RAY_TRACING_PIPELINE_CREATE_INFO_NV, "RayTracingPipelineCreateInfoNV"),
];

/// The name of a structure, as log lines give it, or its number where the tables do not have it: the bindings' own
/// names would be 90 KB of the library.
pub fn name(s_type: vk::StructureType) -> String {
    let structure = find(s_type).map(|row| &row.structure).or_else(|| registry::of_device(s_type));
    let passed_by = || PASSED_BY.iter().find(|(of_kind, _)| *of_kind == s_type).map(|(_, name)| *name);
    let name = structure.map(|structure| structure.name).or_else(passed_by);
    name.map_or_else(|| format!("sType {}", s_type.as_raw()), |name| format!("Vk{name}"))
}

const fn row(name: &str, handling: Handling, reason: &'static str) -> Row {
    match named(PIPELINES, name) {
        Some(structure) => Row { structure, handling, reason },
        None => panic!("no such structure"),
    }
}

/// A structure of numbers.
const fn plain(name: &str) -> Row {
    let row = row(name, Ignored, "its numbers");
    match row.structure.numbers {
        Some(bytes) => Row { handling: Plain(bytes), ..row },
        None => panic!("not made of numbers alone"),
    }
}

use Handling::{Bypass, Ignored, Plain, Special};

/// The table. A structure of the registry without a row here does not pass the tests.
pub static TABLE: &[Row] = &[
    // Names, and options and answers of the call: no part of the pipeline.
    row(
        "PipelineCreationFeedbackCreateInfo",
        Ignored,
        "the driver's answer; put right where the layer's cache was passed",
    ),
    row("DebugUtilsObjectNameInfoEXT", Ignored, "a name"),
    row("ShaderModuleValidationCacheCreateInfoEXT", Ignored, "for validation layers"),
    row("ValidationFeaturesEXT", Ignored, "for validation layers"),
    row("RenderPassCreationFeedbackCreateInfoEXT", Ignored, "the driver's answer"),
    row("RenderPassSubpassFeedbackCreateInfoEXT", Ignored, "the driver's answer"),
    // Pipelines.
    row("PipelineCreateFlags2CreateInfo", Special, "replaces the flags (contract 3.4)"),
    row("PipelineRenderingCreateInfo", Special, "view mask; formats with fragment output state"),
    row("GraphicsPipelineLibraryCreateInfoEXT", Special, "the subsets of state that are read"),
    row("PipelineLibraryCreateInfoKHR", Special, "the keys of the libraries"),
    row("PipelineDiscardRectangleStateCreateInfoEXT", Special, "rectangles where they are static"),
    row("RenderingAttachmentLocationInfo", Special, "with fragment output state"),
    row("RenderingInputAttachmentIndexInfo", Special, "with fragment shader state"),
    row("AttachmentSampleCountInfoAMD", Special, "with fragment output state"),
    row("CustomResolveCreateInfoEXT", Special, "with fragment state"),
    row("PipelineBinaryInfoKHR", Special, "with binaries the pipeline is the program's own business"),
    plain("PipelineRobustnessCreateInfo"),
    plain("PipelineFragmentShadingRateStateCreateInfoKHR"),
    plain("PipelineFragmentShadingRateEnumStateCreateInfoNV"),
    plain("PipelineCompilerControlCreateInfoAMD"),
    plain("PipelineRepresentativeFragmentTestStateCreateInfoNV"),
    plain("MultiviewPerViewAttributesInfoNVX"),
    plain("ExternalFormatANDROID"),
    plain("ExternalFormatOHOS"),
    plain("PipelineFragmentDensityMapLayeredCreateInfoVALVE"),
    plain("RayTracingPipelineClusterAccelerationStructureCreateInfoNV"),
    row("ComputePipelineIndirectBufferInfoNV", Bypass(BypassReason::NotCacheable), "device addresses"),
    row(
        "SubpassShadingPipelineCreateInfoHUAWEI",
        Bypass(BypassReason::NotCacheable),
        "a render pass handle, on hardware that nobody has measured",
    ),
    row(
        "GraphicsPipelineShaderGroupsCreateInfoNV",
        Bypass(BypassReason::NotCacheable),
        "pipelines inside pipelines, for device-generated commands",
    ),
    // Stages.
    row("PipelineShaderStageModuleIdentifierCreateInfoEXT", Special, "names the code"),
    row("ShaderModuleCreateInfo", Special, "is the code"),
    row("ShaderDescriptorSetAndBindingMappingInfoEXT", Special, "with its embedded samplers"),
    plain("PipelineShaderStageRequiredSubgroupSizeCreateInfo"),
    row("PipelineShaderStageNodeCreateInfoAMDX", Bypass(BypassReason::NotCacheable), "execution graphs"),
    // Graphics state.
    row("PipelineVertexInputDivisorStateCreateInfo", Special, "sorted by binding"),
    plain("PipelineTessellationDomainOriginStateCreateInfo"),
    plain("PipelineViewportDepthClipControlCreateInfoEXT"),
    row("PipelineViewportWScalingStateCreateInfoNV", Special, "factors where they are static"),
    row("PipelineViewportSwizzleStateCreateInfoNV", Special, "where it is static"),
    row("PipelineViewportExclusiveScissorStateCreateInfoNV", Special, "where it is static"),
    row("PipelineViewportShadingRateImageStateCreateInfoNV", Special, "palettes where they are static"),
    row("PipelineViewportCoarseSampleOrderStateCreateInfoNV", Special, "orders where they are static"),
    row("PipelineViewportDepthClampControlCreateInfoEXT", Special, "the range where it counts"),
    plain("PipelineRasterizationStateRasterizationOrderAMD"),
    plain("PipelineRasterizationConservativeStateCreateInfoEXT"),
    plain("PipelineRasterizationStateStreamCreateInfoEXT"),
    plain("PipelineRasterizationDepthClipStateCreateInfoEXT"),
    plain("PipelineRasterizationLineStateCreateInfo"),
    plain("PipelineRasterizationProvokingVertexStateCreateInfoEXT"),
    plain("DepthBiasRepresentationInfoEXT"),
    plain("PipelineCoverageToColorStateCreateInfoNV"),
    plain("PipelineCoverageReductionStateCreateInfoNV"),
    row("PipelineCoverageModulationStateCreateInfoNV", Special, "its table where it is static"),
    row("PipelineSampleLocationsStateCreateInfoEXT", Special, "locations where they are static"),
    plain("PipelineColorBlendAdvancedStateCreateInfoEXT"),
    row("PipelineColorWriteCreateInfoEXT", Special, "where it is static"),
    // Descriptor set layouts, samplers and colour conversions.
    row("DescriptorSetLayoutBindingFlagsCreateInfo", Special, "put beside the bindings"),
    row("MutableDescriptorTypeCreateInfoEXT", Special, "put beside the bindings"),
    row("SamplerYcbcrConversionInfo", Special, "the conversion's own description"),
    plain("SamplerReductionModeCreateInfo"),
    plain("SamplerCustomBorderColorCreateInfoEXT"),
    plain("SamplerCustomBorderColorIndexCreateInfoEXT"),
    plain("SamplerBorderColorComponentMappingCreateInfoEXT"),
    plain("SamplerBlockMatchWindowCreateInfoQCOM"),
    plain("SamplerCubicWeightsCreateInfoQCOM"),
    plain("SamplerYcbcrConversionYcbcrDegammaCreateInfoQCOM"),
    plain("ExternalFormatQNX"),
    row(
        "OpaqueCaptureDescriptorDataCreateInfoEXT",
        Bypass(BypassReason::NotCacheable),
        "replays one device's descriptors",
    ),
    // Render passes.
    row("RenderPassMultiviewCreateInfo", Special, "put beside the subpasses and dependencies"),
    row("RenderPassInputAttachmentAspectCreateInfo", Special, "put beside the input attachments"),
    row("SubpassDescriptionDepthStencilResolve", Special, "modes and attachment"),
    row("FragmentShadingRateAttachmentInfoKHR", Special, "attachment and texel size"),
    plain("RenderPassFragmentDensityMapCreateInfoEXT"),
    plain("RenderPassCreationControlEXT"),
    plain("RenderPassTileShadingCreateInfoQCOM"),
    plain("TileMemorySizeInfoQCOM"),
    plain("MultisampledRenderToSingleSampledInfoEXT"),
    plain("AttachmentDescriptionStencilLayout"),
    plain("AttachmentReferenceStencilLayout"),
    plain("MemoryBarrier2"),
    plain("MemoryBarrierAccessFlags3KHR"),
];

/// The row of a structure, if it has one. Chains are short and so is the table: a scan beats a map.
pub fn find(s_type: vk::StructureType) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.structure.s_type == s_type)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::fmt::Write;

    use super::*;

    #[test]
    fn each_structure_of_the_registry_has_one_row() {
        for structure in PIPELINES {
            let rows = TABLE.iter().filter(|row| row.structure.s_type == structure.s_type).count();
            assert_eq!(rows, 1, "rows of {}", structure.name);
        }
    }

    #[test]
    fn structures_are_called_what_the_registry_calls_them() {
        assert_eq!(name(vk::StructureType::from_raw(1_000_628_002)), "VkCustomResolveCreateInfoEXT");
        assert_eq!(name(vk::StructureType::DEVICE_PRIVATE_DATA_CREATE_INFO), "VkDevicePrivateDataCreateInfo");
        assert_eq!(name(DATA_GRAPH), "VkDataGraphPipelineCreateInfoARM");
        assert_eq!(name(vk::StructureType::SUBMIT_INFO), "sType 4");
    }

    /// docs/evidence/structures.md says what the table says (VKSTASH_PUBLISH_GOLDEN=1 writes it).
    #[test]
    fn the_documentation_lists_the_table() {
        let mut text = String::from(DOCUMENT_HEAD);
        let mut rows: Vec<&Row> = TABLE.iter().collect();
        rows.sort_by_key(|row| row.structure.name);
        for row in rows {
            let handling = match row.handling {
                Plain(_) => "hashed".to_owned(),
                Special => "read, hashed".to_owned(),
                Ignored => "ignored".to_owned(),
                Bypass(reason) => format!("bypass: `{}`", reason.name()),
            };
            writeln!(text, "| Vk{} | {handling} | {} |", row.structure.name, row.reason).unwrap();
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/evidence/structures.md");
        if std::env::var_os("VKSTASH_PUBLISH_GOLDEN").is_some() {
            std::fs::write(path, &text).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), text);
    }

    const DOCUMENT_HEAD: &str = "\
# Structures in pNext chains

How capture treats each structure that may extend a pipeline, a stage, a piece of state, a layout, a render pass, a
module, a sampler or a colour conversion. A test writes this file from the table in `crates/model/src/structures.rs`. A
pipeline with a structure that has no row goes to the driver unchanged (`unknown_structure`).

*Hashed*: all members are numbers, and go into the key unchanged. *Read*: the structure contains pointers, counts or
handles; capture reads the members that are valid, and those that matter go into the key. *Ignored*: the structure
cannot change the pipeline. *Bypass*: the pipeline goes to the driver unchanged, counted under that reason.

| structure | treatment | details |
|---|---|---|
";
}
