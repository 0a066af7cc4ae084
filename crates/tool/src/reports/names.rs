//! Vulkan's names for the numbers in reports.

use ash::vk;
use vkstash_model::structures;

/// `VK_STRUCTURE_TYPE_...`, or `None` for a number that these headers do not know.
pub(crate) fn structure_type(raw: i32) -> Option<String> {
    named("VK_STRUCTURE_TYPE_", format!("{:?}", vk::StructureType::from_raw(raw)))
}

/// `vertex`, `ray generation`.
pub(crate) fn stage_name(stage: u32) -> String {
    let debug = format!("{:?}", vk::ShaderStageFlags::from_raw(stage));
    match debug.trim_end_matches("_KHR").trim_end_matches("_EXT") {
        "RAYGEN" => "ray generation".to_owned(),
        name => name.to_lowercase().replace('_', " "),
    }
}

/// `vertex + fragment`. Empty where there are none.
pub(crate) fn stages(flags: vk::ShaderStageFlags) -> String {
    let bits = (0..u32::BITS).map(|bit| 1 << bit).filter(|bit| flags.as_raw() & bit != 0);
    bits.map(stage_name).collect::<Vec<_>>().join(" + ")
}

/// Why pipelines bypassed the stash, in words: the reason in a report, and the structure that caused it (0: none).
pub(crate) fn bypass(reason: &str, s_type: i32) -> String {
    let words = match reason {
        "unknown_structure" => "unknown structure",
        "not_cacheable" => "may not be cached",
        "statistics" => "pipeline statistics asked for",
        "ray_tracing" => "VK_NV_ray_tracing",
        "own_binaries" => "made of the program's own binaries",
        "unknown_flag" => "unknown flag",
        "opaque_object" => "an object that cannot be described",
        "unknown_object" => "an object whose creation was not seen",
        "wrong_structure" => "not the structure that the command expects",
        newer => newer,
    };
    match (s_type, structure_type(s_type)) {
        (0, _) => words.to_owned(),
        (_, Some(name)) => format!("{words} {name}"),
        (number, None) => format!("{words} {}", structures::name(vk::StructureType::from_raw(number))),
    }
}

/// `VK_DRIVER_ID_...`, or `None` for one that these headers do not know.
pub(crate) fn driver_id(raw: u32) -> Option<String> {
    let raw = i32::try_from(raw).ok()?;
    named("VK_DRIVER_ID_", format!("{:?}", vk::DriverId::from_raw(raw)))
}

/// ash prints the bare number where it has no name.
fn named(prefix: &str, debug: String) -> Option<String> {
    let is_name = debug.starts_with(|first: char| first.is_ascii_uppercase());
    is_name.then(|| format!("{prefix}{debug}"))
}

/// A driver's version in its vendor's format.
pub(crate) fn driver_version(driver_id: u32, version: u32) -> String {
    const NVIDIA_PROPRIETARY: u32 = vk::DriverId::NVIDIA_PROPRIETARY.as_raw() as u32;
    if driver_id == NVIDIA_PROPRIETARY {
        // NVIDIA packs 10, 8, 8 and 6 bits.
        return format!("{}.{}.{}", version >> 22, (version >> 14) & 0xff, (version >> 6) & 0xff);
    }
    let (major, minor, patch) =
        (vk::api_version_major(version), vk::api_version_minor(version), vk::api_version_patch(version));
    format!("{major}.{minor}.{patch}")
}

/// A driver and its version: `MESA_RADV 25.0.7`.
pub(crate) fn driver(id: u32, version: u32) -> String {
    let version = driver_version(id, version);
    match self::driver_id(id).as_deref().and_then(|name| name.strip_prefix("VK_DRIVER_ID_")) {
        Some(name) => format!("{name} {version}"),
        None => format!("driver {version}"),
    }
}

#[cfg(test)]
mod tests {
    use vkstash_model::counters::BypassReason;

    use super::*;

    #[test]
    fn known_numbers_have_names_and_unknown_ones_do_not() {
        let robustness = vk::StructureType::PIPELINE_ROBUSTNESS_CREATE_INFO_EXT.as_raw();
        let name = structure_type(robustness).unwrap();
        assert_eq!(name, "VK_STRUCTURE_TYPE_PIPELINE_ROBUSTNESS_CREATE_INFO_EXT");
        assert_eq!(structure_type(i32::MAX), None);
        assert_eq!(driver_id(3).as_deref(), Some("VK_DRIVER_ID_MESA_RADV"));
        assert_eq!(driver_id(u32::MAX), None);
    }

    #[test]
    fn a_bypass_without_a_structure_names_none() {
        assert_eq!(bypass("statistics", 0), "pipeline statistics asked for");
        let robustness = vk::StructureType::PIPELINE_ROBUSTNESS_CREATE_INFO_EXT.as_raw();
        let named = "may not be cached VK_STRUCTURE_TYPE_PIPELINE_ROBUSTNESS_CREATE_INFO_EXT";
        assert_eq!(bypass("not_cacheable", robustness), named);
        assert_eq!(
            bypass("unknown_structure", 1_000_628_002),
            "unknown structure VkCustomResolveCreateInfoEXT"
        );
        let graph = "may not be cached VkDataGraphPipelineCreateInfoARM";
        assert_eq!(bypass("not_cacheable", 1_000_507_000), graph);
        assert_eq!(bypass("of_a_newer_version", i32::MAX), "of_a_newer_version sType 2147483647");
        for reason in [
            BypassReason::UnknownStructure,
            BypassReason::NotCacheable,
            BypassReason::Statistics,
            BypassReason::RayTracing,
            BypassReason::OwnBinaries,
            BypassReason::UnknownFlag,
            BypassReason::OpaqueObject,
            BypassReason::UnknownObject,
            BypassReason::WrongStructure,
        ] {
            assert!(!bypass(reason.name(), 0).contains('_') || reason == BypassReason::RayTracing);
        }
    }

    #[test]
    fn versions_read_as_their_vendors_write_them() {
        assert_eq!(driver_version(4, (580 << 22) | (159 << 14) | (3 << 6)), "580.159.3");
        assert_eq!(driver_version(3, vk::make_api_version(0, 25, 0, 7)), "25.0.7");
    }
}
