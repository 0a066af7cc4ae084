//! Compute pipelines, and what all pipelines have in common: stages and flags.

use ash::vk;

use super::guard_page::{forbidden, place, place_one};
use super::helpers::{
    Known, assert_all_differ, compute_info, handle, link, named, of_compute, of_compute_with, reason, shader,
};
use vkstash_model::counters::BypassReason;
use vkstash_model::identifier::module_identity;

#[test]
fn every_part_of_a_compute_pipeline_separates() {
    let base = of_compute(&compute_info()).unwrap().0;
    assert_eq!(base, of_compute(&compute_info()).unwrap().0);
    let mut others = vec![
        compute_info().layout(handle(3)),
        compute_info().flags(vk::PipelineCreateFlags::DISABLE_OPTIMIZATION),
        compute_info().stage(shader(vk::ShaderStageFlags::COMPUTE, 7)),
        compute_info().stage(shader(vk::ShaderStageFlags::COMPUTE, 1).name(c"other")),
        compute_info().stage(
            shader(vk::ShaderStageFlags::COMPUTE, 1)
                .flags(vk::PipelineShaderStageCreateFlags::REQUIRE_FULL_SUBGROUPS),
        ),
    ];
    let robust = vk::PipelineRobustnessCreateInfoEXT::default()
        .storage_buffers(vk::PipelineRobustnessBufferBehaviorEXT::ROBUST_BUFFER_ACCESS_2);
    let mut with_robust = compute_info();
    with_robust.p_next = (&raw const robust).cast();
    others.push(with_robust);
    let size = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo {
        required_subgroup_size: 64,
        ..Default::default()
    };
    let mut with_size = compute_info();
    with_size.stage.p_next = (&raw const size).cast();
    others.push(with_size);
    let mut seen = vec![base];
    for info in &others {
        let bytes = of_compute(info).unwrap().0;
        assert!(!seen.contains(&bytes));
        seen.push(bytes);
    }
}

#[test]
fn only_the_specialization_bytes_that_are_named_count_and_their_order_does_not() {
    let entry = |constant_id, offset| vk::SpecializationMapEntry { constant_id, offset, size: 4 };
    let of = |entries: &[vk::SpecializationMapEntry], data: &[u8]| {
        let info = vk::SpecializationInfo::default().map_entries(entries).data(data);
        let stage = shader(vk::ShaderStageFlags::COMPUTE, 1).specialization_info(&info);
        of_compute(&compute_info().stage(stage)).map(|(bytes, _)| bytes)
    };
    let base = of(&[entry(0, 0), entry(1, 4)], &[1, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(base, of(&[entry(1, 4), entry(0, 0)], &[1, 0, 0, 0, 2, 0, 0, 0]));
    assert_eq!(base, of(&[entry(1, 0), entry(0, 4)], &[2, 0, 0, 0, 1, 0, 0, 0, 99]));
    assert_ne!(base, of(&[entry(0, 0), entry(1, 4)], &[1, 0, 0, 0, 3, 0, 0, 0]));
    assert_ne!(base, of(&[entry(0, 0), entry(2, 4)], &[1, 0, 0, 0, 2, 0, 0, 0]));
    assert!(of(&[entry(0, 8)], &[1, 0, 0, 0]).is_err());
}

#[test]
fn flags2_replaces_flags_and_create_options_do_not_separate() {
    let base = of_compute(&compute_info()).unwrap().0;
    let flags = vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED
        | vk::PipelineCreateFlags::EARLY_RETURN_ON_FAILURE;
    let (bytes, options) = of_compute(&compute_info().flags(flags)).unwrap();
    assert_eq!(bytes, base);
    assert!(options.fails_on_compile_required && options.returns_early && !options.flags2);

    let flags2 = vk::PipelineCreateFlags2CreateInfoKHR {
        flags: vk::PipelineCreateFlags2KHR::from_raw(flags.as_raw().into()),
        ..Default::default()
    };
    let mut info = compute_info().flags(vk::PipelineCreateFlags::DISABLE_OPTIMIZATION);
    info.p_next = (&raw const flags2).cast();
    let (bytes, options) = of_compute(&info).unwrap();
    assert_eq!(bytes, base, "the old flags are ignored");
    assert!(options.fails_on_compile_required && options.flags2);
}

/// A key without these flags is the key that it was before they were hashed.
#[test]
fn what_tools_look_into_is_hashed_where_the_drivers_caches_answer_for_it() {
    let [statistics, representations] = [
        vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR,
        vk::PipelineCreateFlags::CAPTURE_INTERNAL_REPRESENTATIONS_KHR,
    ];
    let of = |flags, looked_into| {
        let known = Known { looked_into, ..Known::default() };
        of_compute_with(&compute_info().flags(flags), &known)
    };
    let none = vk::PipelineCreateFlags::empty();
    let base = of(none, none).unwrap().0;
    for answered in [none, statistics, representations, statistics | representations] {
        assert_eq!(of(none, answered).unwrap().0, base);
        let mut seen = vec![base.clone()];
        for flags in [statistics, representations, statistics | representations] {
            let captured = of(flags, answered);
            if answered.contains(flags) {
                let (bytes, _) = captured.unwrap();
                assert!(!seen.contains(&bytes), "{flags:?}");
                seen.push(bytes);
            } else {
                assert_eq!(reason(captured), Err(BypassReason::Statistics), "{flags:?}");
            }
        }
    }
}

#[test]
fn what_may_not_be_cached_is_refused_with_its_reason() {
    let refused = |flags: u64| {
        let flags2 = vk::PipelineCreateFlags2CreateInfoKHR {
            flags: vk::PipelineCreateFlags2KHR::from_raw(flags),
            ..Default::default()
        };
        let mut info = compute_info();
        info.p_next = (&raw const flags2).cast();
        reason(of_compute(&info))
    };
    assert_eq!(refused(1 << 31), Err(BypassReason::NotCacheable));
    assert_eq!(refused(1 << 32), Err(BypassReason::NotCacheable));
    let representations = vk::PipelineCreateFlags::CAPTURE_INTERNAL_REPRESENTATIONS_KHR;
    assert_eq!(refused(representations.as_raw().into()), Err(BypassReason::Statistics));
    assert_eq!(refused(1 << 60), Err(BypassReason::UnknownFlag));
    let mut info = compute_info();
    info.stage.module = vk::ShaderModule::null();
    assert_eq!(reason(of_compute(&info)), Err(BypassReason::UnknownObject));
    info = compute_info();
    info.s_type = vk::StructureType::APPLICATION_INFO;
    assert_eq!(reason(of_compute(&info)), Err(BypassReason::WrongStructure));
}

#[test]
fn an_identifier_is_a_name_where_it_is_known_and_stands_for_itself_where_not() {
    let identifier = [3_u8; 8];
    let structure = vk::PipelineShaderStageModuleIdentifierCreateInfoEXT::default().identifier(&identifier);
    let mut info = compute_info();
    info.stage.module = vk::ShaderModule::null();
    info.stage.p_next = (&raw const structure).cast();
    let of = |known: &Known| of_compute_with(&info, known).unwrap();
    let (unknown, options) = of(&Known::default());
    assert!(options.lacks_code);
    let (known, _) =
        of(&Known { pair: Some(named(handle::<vk::ShaderModule>(1)).unwrap()), ..Known::default() });
    assert_ne!(unknown, known);
    assert_eq!(known, of_compute(&compute_info()).unwrap().0, "known by identifier or by module: one recipe");
}

#[test]
fn an_identifier_of_size_zero_beside_a_module_is_ignored_and_its_pointer_unread() {
    let mut structure = vk::PipelineShaderStageModuleIdentifierCreateInfoEXT {
        p_identifier: forbidden(),
        ..Default::default()
    };
    let mut info = compute_info();
    info.stage.p_next = (&raw const structure).cast();
    let (bytes, options) = of_compute(&info).unwrap();
    assert_eq!(bytes, of_compute(&compute_info()).unwrap().0);
    assert!(!options.lacks_code && options.identifier_structure);
    // Too long: never read, and without a module there is no code.
    structure.identifier_size = 33;
    info.stage.module = vk::ShaderModule::null();
    info.stage.p_next = (&raw const structure).cast();
    assert!(of_compute(&info).is_err());
}

#[test]
fn inline_code_is_named_like_a_module_of_the_same_words() {
    let words = [vk::PipelineCreateFlags::empty().as_raw(), 7, 8];
    let module = vk::ShaderModuleCreateInfo::default().code(&words);
    let mut info = compute_info();
    info.stage.module = vk::ShaderModule::null();
    info.stage.p_next = (&raw const module).cast();
    let (inline, options) = of_compute(&info).unwrap();
    let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let identity = module_identity(vk::ShaderModuleCreateFlags::empty(), &code);
    assert_eq!(options.inline, [identity], "whoever records the code need not hash it again");
    assert!(of_compute(&compute_info()).unwrap().1.inline.is_empty());
    let other_words = [0, 7, 9];
    let other = vk::ShaderModuleCreateInfo::default().code(&other_words);
    info.stage.p_next = (&raw const other).cast();
    assert_ne!(inline, of_compute(&info).unwrap().0);
}

/// Each bit of the flags separates, is an option of the call or refuses: none is lost.
#[test]
fn no_flag_is_lost() {
    let of = |flags: u64| {
        let flags2 = vk::PipelineCreateFlags2CreateInfoKHR {
            flags: vk::PipelineCreateFlags2KHR::from_raw(flags),
            ..Default::default()
        };
        let mut info = compute_info();
        info.p_next = place_one(flags2).cast();
        of_compute(&info)
    };
    let (base, _) = of(0).unwrap();
    let mut seen = vec![base.clone()];
    let mut refused = 0;
    for bit in 0..64 {
        match of(1 << bit) {
            Ok((bytes, options)) if bytes == base => {
                assert!(options.fails_on_compile_required || options.returns_early, "bit {bit} is lost");
            }
            Ok((bytes, _)) => {
                assert!(!seen.contains(&bytes), "bit {bit}");
                seen.push(bytes);
            }
            Err(refusal) => {
                let known = [BypassReason::NotCacheable, BypassReason::Statistics, BypassReason::UnknownFlag];
                assert!(known.contains(&refusal.reason), "bit {bit}: {refusal:?}");
                refused += 1;
            }
        }
    }
    assert!(seen.len() > 30 && refused > 10, "{} and {refused}", seen.len());
}

#[test]
fn the_flags_of_old_and_new_are_one_recipe() {
    let old = of_compute(&compute_info().flags(vk::PipelineCreateFlags::DISPATCH_BASE)).unwrap().0;
    let flags2 = vk::PipelineCreateFlags2CreateInfoKHR {
        flags: vk::PipelineCreateFlags2KHR::DISPATCH_BASE,
        ..Default::default()
    };
    let mut info = compute_info();
    info.p_next = place_one(flags2).cast();
    assert_eq!(old, of_compute(&info).unwrap().0);
}

#[test]
fn the_base_pipeline_does_not_separate() {
    let base = of_compute(&compute_info()).unwrap().0;
    let derived = compute_info().base_pipeline_index(7).base_pipeline_handle(handle(8));
    assert_eq!(base, of_compute(&derived).unwrap().0);
}

#[test]
fn a_layout_is_read_unless_descriptors_come_from_a_heap() {
    let mut info = compute_info().layout(vk::PipelineLayout::null());
    assert_eq!(reason(of_compute(&info)), Err(BypassReason::UnknownObject));
    let flags = vk::PipelineCreateFlags2KHR::from_raw(1 << 36);
    info.p_next = place_one(vk::PipelineCreateFlags2CreateInfoKHR { flags, ..Default::default() }).cast();
    let heap = of_compute(&info).unwrap().0;
    info.layout = handle(3);
    assert_eq!(heap, of_compute(&info).unwrap().0);
}

#[test]
fn identifiers_separate_by_size_and_bytes_and_not_by_what_lies_behind() {
    let of = |bytes: &[u8]| {
        let info = vk::PipelineShaderStageModuleIdentifierCreateInfoEXT {
            identifier_size: bytes.len() as u32,
            p_identifier: place(bytes),
            ..Default::default()
        };
        let mut stage = compute_info();
        stage.stage.module = vk::ShaderModule::null();
        stage.stage.p_next = place_one(info).cast();
        of_compute(&stage).map(|(bytes, _)| bytes)
    };
    let longest: [u8; 32] = std::array::from_fn(|index| index as u8);
    let mut captures: Vec<_> = (1..=32).map(|size| (format!("{size} bytes"), of(&longest[..size]))).collect();
    captures.push(("another".to_owned(), of(&[1])));
    assert_all_differ(captures);
    for illegal in [0, 33] {
        assert_eq!(reason(of(&vec![1; illegal])), Err(BypassReason::UnknownObject));
    }
}

#[test]
fn the_order_of_a_chain_does_not_separate() {
    let robust = vk::PipelineRobustnessCreateInfoEXT::default();
    let name = vk::DebugUtilsObjectNameInfoEXT::default();
    let size = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo {
        required_subgroup_size: 8,
        ..Default::default()
    };
    let of = |order: [usize; 3]| {
        let nodes = [place_one(robust).cast(), place_one(name).cast(), place_one(size).cast()];
        let mut info = compute_info();
        info.stage.p_next = link(&order.map(|index| nodes[index]));
        of_compute(&info).unwrap().0
    };
    for order in [[0, 2, 1], [1, 0, 2], [2, 1, 0]] {
        assert_eq!(of([0, 1, 2]), of(order));
    }
}
