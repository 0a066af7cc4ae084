//! The one table of pNext structures that may stand in a chain of a pipeline, a stage, a piece of state, a
//! layout, a render pass, a module, a sampler or a colour conversion: what becomes of each, and why.
//! docs/structures.md is written from it.
//!
//! A structure that has no row makes the pipeline go to the driver unchanged. It is never skipped: a key
//! that leaves out something that matters is a wrong pipeline (contract 7.1).

use ash::vk::{self, TaggedStructure};

use crate::counters::BypassReason;
use crate::newer;

/// What capture does with a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// Its members are plain numbers: this many bytes after pNext, without padding, go into the key.
    Plain(usize),
    /// It cannot change what the driver makes of the create info.
    Ignored,
    /// It holds pointers, counts or handles and is read by the part of capture whose chain it belongs to;
    /// anywhere else it is a reason to bypass.
    Special,
    /// The pipeline must go to the driver unchanged.
    Bypass(BypassReason),
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The structure.
    pub s_type: vk::StructureType,
    /// Its size in bytes in this process, for copies of chains.
    pub size: usize,
    /// What becomes of it.
    pub handling: Handling,
    /// Why, or how.
    pub reason: &'static str,
    type_name: fn() -> &'static str,
}

impl Row {
    /// The structure's name without "Vk".
    pub fn name(&self) -> &'static str {
        last_of((self.type_name)())
    }
}

/// The last part of a type's path, without its parameters.
pub fn last_of(path: &'static str) -> &'static str {
    let path = path.split('<').next().unwrap_or_default();
    path.rsplit("::").next().unwrap_or_default()
}

/// The name of a structure, as log lines give it: the bindings' where the table has none, and its number where they
/// have none either.
pub fn name(s_type: vk::StructureType) -> String {
    find(s_type).map_or_else(|| format!("{s_type:?}"), |row| format!("Vk{}", row.name()))
}

const fn row<T: TaggedStructure>(handling: Handling, reason: &'static str) -> Row {
    let type_name = std::any::type_name::<T>;
    Row { s_type: T::STRUCTURE_TYPE, size: size_of::<T>(), handling, reason, type_name }
}

/// A structure of numbers.
const fn plain<T: TaggedStructure>(bytes: usize) -> Row {
    row::<T>(Plain(bytes), "its numbers")
}

use Handling::{Bypass, Ignored, Plain, Special};

/// The table.
pub const TABLE: &[Row] = &[
    // What the call is told and tells: no part of the pipeline.
    row::<vk::PipelineCreationFeedbackCreateInfo<'_>>(
        Ignored,
        "the driver's answer; put right where the layer's cache was passed",
    ),
    row::<vk::DebugUtilsObjectNameInfoEXT<'_>>(Ignored, "a name"),
    row::<vk::ShaderModuleValidationCacheCreateInfoEXT<'_>>(Ignored, "for validation layers"),
    row::<vk::RenderPassCreationFeedbackCreateInfoEXT<'_>>(Ignored, "the driver's answer"),
    row::<vk::RenderPassSubpassFeedbackCreateInfoEXT<'_>>(Ignored, "the driver's answer"),
    // Pipelines.
    row::<vk::PipelineCreateFlags2CreateInfoKHR<'_>>(Special, "replaces the flags (contract 3.4)"),
    row::<vk::PipelineRenderingCreateInfo<'_>>(Special, "view mask; formats with fragment output state"),
    row::<vk::GraphicsPipelineLibraryCreateInfoEXT<'_>>(Special, "the subsets of state that are read"),
    row::<vk::PipelineLibraryCreateInfoKHR<'_>>(Special, "the keys of the libraries"),
    row::<vk::PipelineDiscardRectangleStateCreateInfoEXT<'_>>(Special, "rectangles where they are static"),
    row::<vk::RenderingAttachmentLocationInfoKHR<'_>>(Special, "with fragment output state"),
    row::<vk::RenderingInputAttachmentIndexInfoKHR<'_>>(Special, "with fragment shader state"),
    row::<vk::AttachmentSampleCountInfoAMD<'_>>(Special, "with fragment output state"),
    row::<newer::CustomResolveCreateInfoEXT>(Special, "with fragment state"),
    row::<newer::PipelineBinaryInfoKHR>(Special, "with binaries the pipeline is the program's own business"),
    plain::<vk::PipelineRobustnessCreateInfoEXT<'_>>(16),
    plain::<vk::PipelineFragmentShadingRateStateCreateInfoKHR<'_>>(16),
    plain::<vk::PipelineFragmentShadingRateEnumStateCreateInfoNV<'_>>(16),
    plain::<vk::PipelineCompilerControlCreateInfoAMD<'_>>(4),
    plain::<vk::PipelineRepresentativeFragmentTestStateCreateInfoNV<'_>>(4),
    plain::<vk::MultiviewPerViewAttributesInfoNVX<'_>>(8),
    plain::<vk::ExternalFormatANDROID<'_>>(8),
    plain::<newer::ExternalFormatOHOS>(8),
    plain::<newer::PipelineFragmentDensityMapLayeredCreateInfoVALVE>(4),
    plain::<newer::RayTracingPipelineClusterAccelerationStructureCreateInfoNV>(4),
    row::<vk::ComputePipelineIndirectBufferInfoNV<'_>>(
        Bypass(BypassReason::NotCacheable),
        "device addresses",
    ),
    row::<vk::SubpassShadingPipelineCreateInfoHUAWEI<'_>>(
        Bypass(BypassReason::NotCacheable),
        "a render pass handle, on hardware that nobody has measured",
    ),
    row::<vk::GraphicsPipelineShaderGroupsCreateInfoNV<'_>>(
        Bypass(BypassReason::NotCacheable),
        "pipelines inside pipelines, for device-generated commands",
    ),
    // Stages.
    row::<vk::PipelineShaderStageModuleIdentifierCreateInfoEXT<'_>>(Special, "names the code"),
    row::<vk::ShaderModuleCreateInfo<'_>>(Special, "is the code"),
    row::<newer::ShaderDescriptorSetAndBindingMappingInfoEXT>(Special, "with its embedded samplers"),
    plain::<vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo<'_>>(4),
    row::<vk::PipelineShaderStageNodeCreateInfoAMDX<'_>>(
        Bypass(BypassReason::NotCacheable),
        "execution graphs",
    ),
    // Graphics state.
    row::<vk::PipelineVertexInputDivisorStateCreateInfoKHR<'_>>(Special, "sorted by binding"),
    plain::<vk::PipelineTessellationDomainOriginStateCreateInfo<'_>>(4),
    plain::<vk::PipelineViewportDepthClipControlCreateInfoEXT<'_>>(4),
    row::<vk::PipelineViewportWScalingStateCreateInfoNV<'_>>(Special, "factors where they are static"),
    row::<vk::PipelineViewportSwizzleStateCreateInfoNV<'_>>(Special, "where it is static"),
    row::<vk::PipelineViewportExclusiveScissorStateCreateInfoNV<'_>>(Special, "where it is static"),
    row::<vk::PipelineViewportShadingRateImageStateCreateInfoNV<'_>>(
        Special,
        "palettes where they are static",
    ),
    row::<vk::PipelineViewportCoarseSampleOrderStateCreateInfoNV<'_>>(
        Special,
        "orders where they are static",
    ),
    row::<newer::PipelineViewportDepthClampControlCreateInfoEXT>(Special, "the range where it counts"),
    plain::<vk::PipelineRasterizationStateRasterizationOrderAMD<'_>>(4),
    plain::<vk::PipelineRasterizationConservativeStateCreateInfoEXT<'_>>(12),
    plain::<vk::PipelineRasterizationStateStreamCreateInfoEXT<'_>>(8),
    plain::<vk::PipelineRasterizationDepthClipStateCreateInfoEXT<'_>>(8),
    plain::<vk::PipelineRasterizationLineStateCreateInfoKHR<'_>>(14),
    plain::<vk::PipelineRasterizationProvokingVertexStateCreateInfoEXT<'_>>(4),
    plain::<vk::DepthBiasRepresentationInfoEXT<'_>>(8),
    plain::<vk::PipelineCoverageToColorStateCreateInfoNV<'_>>(12),
    plain::<vk::PipelineCoverageReductionStateCreateInfoNV<'_>>(8),
    row::<vk::PipelineCoverageModulationStateCreateInfoNV<'_>>(Special, "its table where it is static"),
    row::<vk::PipelineSampleLocationsStateCreateInfoEXT<'_>>(Special, "locations where they are static"),
    plain::<vk::PipelineColorBlendAdvancedStateCreateInfoEXT<'_>>(12),
    row::<vk::PipelineColorWriteCreateInfoEXT<'_>>(Special, "where it is static"),
    // Descriptor set layouts, samplers and colour conversions.
    row::<vk::DescriptorSetLayoutBindingFlagsCreateInfo<'_>>(Special, "put beside the bindings"),
    row::<vk::MutableDescriptorTypeCreateInfoEXT<'_>>(Special, "put beside the bindings"),
    row::<vk::SamplerYcbcrConversionInfo<'_>>(Special, "the conversion's own description"),
    plain::<vk::SamplerReductionModeCreateInfo<'_>>(4),
    plain::<vk::SamplerCustomBorderColorCreateInfoEXT<'_>>(20),
    plain::<newer::SamplerCustomBorderColorIndexCreateInfoEXT>(4),
    plain::<vk::SamplerBorderColorComponentMappingCreateInfoEXT<'_>>(20),
    plain::<vk::SamplerBlockMatchWindowCreateInfoQCOM<'_>>(12),
    plain::<vk::SamplerCubicWeightsCreateInfoQCOM<'_>>(4),
    plain::<vk::SamplerYcbcrConversionYcbcrDegammaCreateInfoQCOM<'_>>(8),
    plain::<vk::ExternalFormatQNX<'_>>(8),
    row::<vk::OpaqueCaptureDescriptorDataCreateInfoEXT<'_>>(
        Bypass(BypassReason::NotCacheable),
        "replays one device's descriptors",
    ),
    // Render passes.
    row::<vk::RenderPassMultiviewCreateInfo<'_>>(Special, "put beside the subpasses and dependencies"),
    row::<vk::RenderPassInputAttachmentAspectCreateInfo<'_>>(Special, "put beside the input attachments"),
    row::<vk::SubpassDescriptionDepthStencilResolve<'_>>(Special, "modes and attachment"),
    row::<vk::FragmentShadingRateAttachmentInfoKHR<'_>>(Special, "attachment and texel size"),
    plain::<vk::RenderPassFragmentDensityMapCreateInfoEXT<'_>>(8),
    plain::<vk::RenderPassCreationControlEXT<'_>>(4),
    plain::<newer::RenderPassTileShadingCreateInfoQCOM>(12),
    plain::<newer::TileMemorySizeInfoQCOM>(8),
    plain::<vk::MultisampledRenderToSingleSampledInfoEXT<'_>>(8),
    plain::<vk::AttachmentDescriptionStencilLayout<'_>>(8),
    plain::<vk::AttachmentReferenceStencilLayout<'_>>(4),
    plain::<vk::MemoryBarrier2<'_>>(32),
    plain::<newer::MemoryBarrierAccessFlags3KHR>(16),
];

/// The row of a structure, if it has one. Chains are short and so is the table: a scan beats a map.
pub fn find(s_type: vk::StructureType) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.s_type == s_type)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write;
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    #[test]
    fn no_structure_has_two_rows_and_no_plain_one_claims_more_than_it_holds() {
        for (index, row) in TABLE.iter().enumerate() {
            assert!(TABLE[..index].iter().all(|other| other.s_type != row.s_type), "{:?}", row.s_type);
            if let Plain(bytes) = row.handling {
                let room = row.size - size_of::<vk::BaseInStructure<'_>>();
                assert!(bytes <= room && room - bytes < 8, "{:?}: {bytes} of {room}", row.s_type);
            }
        }
    }

    /// What a structure may extend for this table to be in charge of it.
    fn covers(extended: &str) -> bool {
        let graphics_state = extended.starts_with("Pipeline") && extended.ends_with("StateCreateInfo");
        // Ray tracing by the NVIDIA extension goes to the driver as it is.
        graphics_state
            || [
                "GraphicsPipelineCreateInfo",
                "ComputePipelineCreateInfo",
                "RayTracingPipelineCreateInfoKHR",
                "RayTracingShaderGroupCreateInfoKHR",
                "RayTracingPipelineInterfaceCreateInfoKHR",
                "PipelineLibraryCreateInfoKHR",
                "PipelineShaderStageCreateInfo",
                "PipelineLayoutCreateInfo",
                "DescriptorSetLayoutCreateInfo",
                "RenderPassCreateInfo",
                "RenderPassCreateInfo2",
                "AttachmentDescription2",
                "AttachmentReference2",
                "SubpassDescription2",
                "SubpassDependency2",
                "ShaderModuleCreateInfo",
                "SamplerCreateInfo",
                "SamplerYcbcrConversionCreateInfo",
            ]
            .contains(&extended)
    }

    fn bindings() -> PathBuf {
        let architecture = match std::env::consts::ARCH {
            "x86" => "i686",
            other => other,
        };
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--offline", "--filter-platform"])
            // What other platforms need may not be here.
            .arg(format!("{architecture}-unknown-linux-gnu"))
            .arg("--manifest-path")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
            .output()
            .unwrap();
        let metadata = String::from_utf8(output.stdout).unwrap();
        // "manifest_path":"…/ash-0.38.0+1.3.281/Cargo.toml"
        let manifests = metadata.split("\"manifest_path\":\"").skip(1);
        let paths = manifests.map(|rest| rest.split('"').next().unwrap());
        let manifest = paths.into_iter().find(|path| path.contains("/ash-0.")).unwrap();
        PathBuf::from(manifest).with_file_name("src").join("vk").join("definitions.rs")
    }

    /// Every structure of which the bindings say that it may stand in a chain that is scanned has a row.
    #[test]
    fn every_structure_of_the_bindings_has_a_row() {
        let source = std::fs::read_to_string(bindings()).unwrap();
        let known: BTreeSet<&str> = TABLE.iter().map(Row::name).collect();
        let mut found = BTreeSet::new();
        for text in source.split("unsafe impl Extends").skip(1) {
            let mut words = text.split_whitespace();
            let (extended, structure) = (words.next().unwrap(), words.nth(1).unwrap());
            if covers(extended) {
                found.insert(structure.split(['<', '{']).next().unwrap());
            }
        }
        assert!(found.len() > 50, "the bindings' source has changed its form: {found:?}");
        let missing: Vec<_> = found.difference(&known).collect();
        assert!(missing.is_empty(), "no row for {missing:?}");
    }

    /// docs/structures.md says what the table says (VKSTASH_PUBLISH_GOLDEN=1 writes it).
    #[test]
    fn the_documentation_lists_the_table() {
        let mut text = String::from(DOCUMENT_HEAD);
        let mut rows: Vec<&Row> = TABLE.iter().collect();
        rows.sort_by_key(|row| row.name());
        for row in rows {
            let handling = match row.handling {
                Plain(_) => "hashed".to_owned(),
                Special => "read, hashed".to_owned(),
                Ignored => "ignored".to_owned(),
                Bypass(reason) => format!("bypass: `{}`", reason.name()),
            };
            writeln!(text, "| Vk{} | {handling} | {} |", row.name(), row.reason).unwrap();
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/structures.md");
        if std::env::var_os("VKSTASH_PUBLISH_GOLDEN").is_some() {
            std::fs::write(path, &text).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), text);
    }

    const DOCUMENT_HEAD: &str = "\
# Structures in pNext chains

How capture treats each structure that may extend a pipeline, a stage, a piece of state, a layout, a render pass, a
module, a sampler or a colour conversion. A test writes this file from the table in `crates/model/src/structures.rs`. A pipeline
with a structure that has no row goes to the driver unchanged (`unknown_structure`).

*Hashed*: all members are numbers, and go into the key unchanged. *Read*: the structure contains pointers, counts or handles;
capture reads the members that are valid, and those that matter go into the key. *Ignored*: the structure cannot change the
pipeline. *Bypass*: the pipeline goes to the driver unchanged, counted under that reason.

| structure | treatment | details |
|---|---|---|
";
}
