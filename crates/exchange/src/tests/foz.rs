//! Archives of Fossilize: what is taken is what they say, and nothing else is.

use std::collections::{BTreeMap, BTreeSet};

use ash::vk::{self, Handle};
use vkstash_fossilize::archive::{Reader, Tag, Writer};
use vkstash_fossilize::json::write;

use super::numbers::{Numbers, first_seed, seeds};
use super::*;
use crate::foz::export::{FozExported, export, export_one};
use crate::foz::import::{FozImported, applications, import};

const SAMPLER: u64 = 0xa1;
const SET_LAYOUT: u64 = 0xb1;
const LAYOUT: u64 = 0xc1;
const RENDER_PASS: u64 = 0xd1;
const COMPUTE: u64 = 0xe1;
const GRAPHICS: u64 = 0xe2;
const LIBRARY: u64 = 0xe3;
/// Stands before the library that it names.
const LINK: u64 = 0xe0;
const MODULE: u64 = 0xf1;

/// The documents of an archive.
type Documents = BTreeMap<(Tag, u64), Vec<u8>>;

fn layout() -> vk::PipelineLayout {
    vk::PipelineLayout::from_raw(LAYOUT)
}

fn stage(stage: vk::ShaderStageFlags) -> vk::PipelineShaderStageCreateInfo<'static> {
    let module = vk::ShaderModule::from_raw(MODULE);
    vk::PipelineShaderStageCreateInfo::default().stage(stage).module(module).name(c"main")
}

/// Samplers, layouts, a render pass, a module.
fn objects(documents: &mut Documents) {
    let mut conversion = vk::SamplerYcbcrConversionCreateInfo::default()
        .format(vk::Format::G8_B8_R8_3PLANE_420_UNORM)
        .ycbcr_model(vk::SamplerYcbcrModelConversion::YCBCR_709);
    let mut sampler = vk::SamplerCreateInfo::default().mag_filter(vk::Filter::LINEAR);
    sampler.p_next = (&raw mut conversion).cast();
    let samplers = [vk::Sampler::from_raw(SAMPLER)];
    let binding = vk::DescriptorSetLayoutBinding::default()
        .descriptor_type(vk::DescriptorType::COMBINED_IMAGE_SAMPLER)
        .stage_flags(vk::ShaderStageFlags::ALL)
        .immutable_samplers(&samplers);
    let bindings = [binding];
    let set = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
    let sets = [vk::DescriptorSetLayout::from_raw(SET_LAYOUT)];
    let layout = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
    let attachments = [vk::AttachmentDescription::default()
        .format(vk::Format::R8G8B8A8_UNORM)
        .samples(vk::SampleCountFlags::TYPE_1)];
    let color = [vk::AttachmentReference::default()];
    let subpasses = [vk::SubpassDescription::default().color_attachments(&color)];
    let pass = vk::RenderPassCreateInfo::default().attachments(&attachments).subpasses(&subpasses);
    let code: Vec<u32> = [0x0723_0203, 0x0001_0000, 0, 1, 0].into_iter().chain(0..200).collect();
    let module = vk::ShaderModuleCreateInfo::default().code(&code);
    // SAFETY: valid create infos, which live during this call.
    unsafe {
        documents.insert((Tag::Sampler, SAMPLER), write::sampler(SAMPLER, &sampler).unwrap());
        documents
            .insert((Tag::DescriptorSetLayout, SET_LAYOUT), write::set_layout(SET_LAYOUT, &set).unwrap());
        documents.insert((Tag::PipelineLayout, LAYOUT), write::pipeline_layout(LAYOUT, &layout).unwrap());
        documents.insert((Tag::RenderPass, RENDER_PASS), write::render_pass(RENDER_PASS, &pass).unwrap());
        documents.insert((Tag::ShaderModule, MODULE), write::module(MODULE, &module).unwrap());
    }
}

/// A complete pipeline, with the viewports of its own or with dynamic ones.
fn graphics(has_viewports: bool) -> Vec<u8> {
    let stages = [stage(vk::ShaderStageFlags::VERTEX), stage(vk::ShaderStageFlags::FRAGMENT)];
    let vertices = vk::PipelineVertexInputStateCreateInfo::default();
    let assembly = vk::PipelineInputAssemblyStateCreateInfo::default();
    let viewport =
        vk::PipelineViewportStateCreateInfo { viewport_count: 1, scissor_count: 1, ..Default::default() };
    let rasterization = vk::PipelineRasterizationStateCreateInfo::default().line_width(1.0);
    let samples =
        vk::PipelineMultisampleStateCreateInfo::default().rasterization_samples(vk::SampleCountFlags::TYPE_1);
    let attachments = [vk::PipelineColorBlendAttachmentState::default()];
    let blend = vk::PipelineColorBlendStateCreateInfo::default().attachments(&attachments);
    let states = [vk::DynamicState::VIEWPORT, vk::DynamicState::SCISSOR];
    let dynamic = vk::PipelineDynamicStateCreateInfo::default().dynamic_states(&states);
    let mut info = vk::GraphicsPipelineCreateInfo::default()
        .stages(&stages)
        .vertex_input_state(&vertices)
        .input_assembly_state(&assembly)
        .viewport_state(&viewport)
        .rasterization_state(&rasterization)
        .multisample_state(&samples)
        .color_blend_state(&blend)
        .layout(layout())
        .render_pass(vk::RenderPass::from_raw(RENDER_PASS));
    if !has_viewports {
        info = info.dynamic_state(&dynamic);
    }
    // SAFETY: as above; the arrays of viewports are NULL.
    unsafe { write::graphics(GRAPHICS, &info) }.unwrap()
}

/// A library of vertex input, or a link of libraries.
fn library(hash: u64, libraries: &[u64]) -> Vec<u8> {
    let vertices = vk::PipelineVertexInputStateCreateInfo::default();
    let assembly = vk::PipelineInputAssemblyStateCreateInfo::default();
    let handles: Vec<_> = libraries.iter().map(|&hash| vk::Pipeline::from_raw(hash)).collect();
    let mut link = vk::PipelineLibraryCreateInfoKHR::default().libraries(&handles);
    let mut subsets = vk::GraphicsPipelineLibraryCreateInfoEXT::default()
        .flags(vk::GraphicsPipelineLibraryFlagsEXT::VERTEX_INPUT_INTERFACE);
    let flags = vk::PipelineCreateFlags::LIBRARY_KHR;
    let mut info = vk::GraphicsPipelineCreateInfo::default().flags(flags);
    info = match libraries {
        [] => info.vertex_input_state(&vertices).input_assembly_state(&assembly).push_next(&mut subsets),
        _ => info.push_next(&mut link),
    };
    // SAFETY: as above.
    unsafe { write::graphics(hash, &info) }.unwrap()
}

fn application(name: &std::ffi::CStr) -> Vec<u8> {
    let info = vk::ApplicationInfo::default()
        .application_name(name)
        .engine_name(c"")
        .api_version(vk::API_VERSION_1_3);
    let features = vk::PhysicalDeviceFeatures2 {
        features: vk::PhysicalDeviceFeatures { robust_buffer_access: 1, ..Default::default() },
        ..Default::default()
    };
    // SAFETY: as above.
    unsafe { write::application(&info, &features) }.unwrap()
}

fn everything() -> Documents {
    let mut documents = Documents::new();
    objects(&mut documents);
    let info =
        vk::ComputePipelineCreateInfo::default().stage(stage(vk::ShaderStageFlags::COMPUTE)).layout(layout());
    // SAFETY: as above.
    let compute = unsafe { write::compute(COMPUTE, &info) }.unwrap();
    documents.insert((Tag::ComputePipeline, COMPUTE), compute);
    documents.insert((Tag::GraphicsPipeline, GRAPHICS), graphics(false));
    documents.insert((Tag::GraphicsPipeline, LIBRARY), library(LIBRARY, &[]));
    documents.insert((Tag::GraphicsPipeline, LINK), library(LINK, &[LIBRARY]));
    documents.insert((Tag::ApplicationInfo, 1), application(c"Some Game"));
    documents
}

fn archive(documents: &Documents) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes).unwrap();
    documents.iter().for_each(|((tag, hash), text)| assert!(writer.write(*tag, *hash, text).unwrap()));
    writer.finish().unwrap();
    bytes
}

/// Takes an archive into the stash below `root`.
fn take(root: &Path, bytes: &[u8]) -> Option<FozImported> {
    let path = root.join("archive.foz");
    fs::write(&path, bytes).unwrap();
    let reader = Reader::open(&path).ok()?;
    let stash = root.join("stash");
    fs::create_dir_all(&stash).unwrap();
    Some(import(&reader, &stash, &app(), &mut |_, _| {}).unwrap())
}

/// The portable records of the stash below `root`. Each is what its key says.
fn records(root: &Path) -> BTreeSet<(Kind, Key)> {
    let stash = Stash::open_patiently(&root.join("stash"), &app()).unwrap();
    let mut records = BTreeSet::new();
    for kind in PORTABLE {
        stash.portable().for_each(kind, &mut |key, payload| {
            assert!(check::is_true(kind, key, payload), "{kind:?}");
            records.insert((kind, *key));
        });
    }
    records
}

#[test]
fn objects_have_the_same_keys_after_an_export_and_another_import() {
    let [first, second] = [root(), root()];
    let taken = take(first.path(), &archive(&everything())).unwrap();
    assert!(taken.refused.is_empty(), "{taken:?}");
    let expected =
        [("recipe", 4), ("module", 1), ("layout", 1), ("render_pass", 1), ("device_configuration", 1)];
    assert_eq!(taken.records, expected.into_iter().collect());
    let again = take(first.path(), &archive(&everything())).unwrap();
    assert_eq!(
        (again.records.len(), again.present),
        (0, 7),
        "the device is looked at only where there is none"
    );

    let stash = Stash::open_patiently(&first.path().join("stash"), &app()).unwrap();
    let mut bytes = Vec::new();
    let exported = export(&[stash.portable().clone()], &mut bytes, &mut |_, _| {}).unwrap();
    assert_eq!((exported.pipelines, exported.objects, exported.refused.len()), (4, 10, 0));
    let taken = take(second.path(), &bytes).unwrap();
    assert!(taken.refused.is_empty(), "{taken:?}");
    assert_eq!(records(first.path()), records(second.path()));
    let reader = Reader::open(&second.path().join("archive.foz")).unwrap();
    assert_eq!(applications(&reader), [b"Some Game".to_vec()]);
}

/// The tags of an archive, in their order.
fn tags(root: &Path, bytes: &[u8]) -> Vec<Tag> {
    let path = root.join("one.foz");
    fs::write(&path, bytes).unwrap();
    let reader = Reader::open(&path).unwrap();
    let mut tags: Vec<_> = reader.entries().iter().map(|entry| entry.tag()).collect();
    tags.sort();
    tags
}

#[test]
fn one_pipeline_is_exported_with_what_it_needs_and_nothing_else() {
    let root = root();
    take(root.path(), &archive(&everything())).unwrap();
    let stash = Stash::open_patiently(&root.path().join("stash"), &app()).unwrap();
    let mut keys = Vec::new();
    stash.portable().for_each(Kind::Recipe, &mut |key, _| keys.push(*key));
    let mut found = BTreeSet::new();
    for key in keys {
        let mut bytes = Vec::new();
        let exported = export_one(stash.portable(), &key, &mut bytes).unwrap();
        assert!(exported.refused.is_empty(), "{exported:?}");
        let tags = tags(root.path(), &bytes);
        assert_eq!(tags.len() as u64, exported.objects);
        found.insert(tags);
        // Nothing else of another stash has that key.
        let other = self::root();
        let taken = take(other.path(), &bytes).unwrap();
        assert!(taken.refused.is_empty() && records(other.path()).contains(&(Kind::Recipe, key)));
    }
    use Tag::*;
    let with_layout = [ApplicationInfo, Sampler, DescriptorSetLayout, PipelineLayout, ShaderModule];
    let with = |more: &[Tag]| {
        let mut tags = [&with_layout[..], more].concat();
        tags.sort();
        tags
    };
    let library = Vec::from([ApplicationInfo, GraphicsPipeline]);
    let link = Vec::from([ApplicationInfo, GraphicsPipeline, GraphicsPipeline]);
    let expected = [with(&[ComputePipeline]), with(&[RenderPass, GraphicsPipeline]), library, link];
    assert_eq!(found, expected.into_iter().collect());
}

#[test]
fn a_pipeline_that_lacks_something_is_refused_and_one_that_is_not_there_is_none() {
    let root = root();
    take(root.path(), &archive(&everything())).unwrap();
    let [without_modules, without_recipes] = [Kind::Module, Kind::Recipe].map(|left_out| {
        let stash = Stash::open_patiently(&root.path().join(left_out.name()), &app()).unwrap();
        let from = Stash::open_patiently(&root.path().join("stash"), &app()).unwrap();
        for kind in PORTABLE.into_iter().filter(|kind| *kind != left_out) {
            from.portable().for_each(kind, &mut |key, record| {
                assert!(stash.portable().put(kind, key, record.into()));
            });
        }
        stash
    });
    let mut keys = Vec::new();
    without_modules.portable().for_each(Kind::Recipe, &mut |key, _| keys.push(*key));
    let refused = |stash: &Stash, key| export_one(stash.portable(), key, Vec::new()).unwrap().refused.len();
    // Library and link have no modules.
    assert_eq!(keys.iter().map(|key| refused(&without_modules, key)).sum::<usize>(), 2);
    for key in &keys {
        let exported = export_one(without_recipes.portable(), key, Vec::new()).unwrap();
        assert_eq!((exported.pipelines, exported.refused.len()), (0, 0));
    }
}

#[test]
fn recipes_without_their_modules_are_not_exported() {
    let root = root();
    let stash = Stash::open_patiently(root.path(), &app()).unwrap();
    recipes().iter().for_each(|recipe| put(stash.portable(), Kind::Recipe, recipe));
    let FozExported { pipelines, objects, refused } =
        export(&[stash.portable().clone()], Vec::new(), &mut |_, _| {}).unwrap();
    assert_eq!(pipelines + refused.values().sum::<u64>(), recipes().len() as u64);
    assert!(objects <= pipelines, "{refused:?}");
}

#[test]
fn what_an_archive_lacks_or_says_wrongly_is_left_out_and_counted() {
    let refused = |change: &dyn Fn(&mut Documents)| {
        let mut documents = everything();
        change(&mut documents);
        let root = root();
        let taken = take(root.path(), &archive(&documents)).unwrap();
        (taken.records.get("recipe").copied().unwrap_or(0), taken.refused.into_iter().collect::<Vec<_>>())
    };
    let unknown = "names an object that the archive does not have".to_owned();
    let lacks = |key: (Tag, u64)| refused(&move |documents| assert!(documents.remove(&key).is_some()));
    assert_eq!(lacks((Tag::ShaderModule, MODULE)), (2, vec![(unknown.clone(), 2)]));
    assert_eq!(lacks((Tag::RenderPass, RENDER_PASS)), (3, vec![(unknown.clone(), 1)]));
    // The set layout, the layout, and the pipelines with it.
    assert_eq!(lacks((Tag::Sampler, SAMPLER)), (2, vec![(unknown.clone(), 4)]));
    let circle = refused(&|documents| {
        documents.insert((Tag::GraphicsPipeline, LIBRARY), library(LIBRARY, &[LINK]));
    });
    assert_eq!(circle, (2, vec![(unknown, 2)]));
    let other = refused(&|documents| {
        let document = documents[&(Tag::GraphicsPipeline, GRAPHICS)].clone();
        documents.insert((Tag::GraphicsPipeline, 5), document);
    });
    assert_eq!(other, (4, vec![("an entry of another object than its name says".to_owned(), 1)]));
    // Neither an array nor dynamic state.
    let (recipes, reasons) = refused(&|documents| {
        documents.insert((Tag::GraphicsPipeline, GRAPHICS), graphics(true));
    });
    assert_eq!(recipes, 3, "{reasons:?}");
    let nested = refused(&|documents| {
        documents.insert((Tag::Sampler, SAMPLER), "[".repeat(10_000).into());
    });
    assert_eq!(nested.0, 2, "{nested:?}");
}

fn below(numbers: &mut Numbers, limit: usize) -> usize {
    (numbers.next() % limit.max(1) as u64) as usize
}

/// Changes a document: a byte, a number, a piece that is missing or stands there twice.
fn change(numbers: &mut Numbers, text: &mut Vec<u8>) {
    let (from, length) = (below(numbers, text.len()), 1 + below(numbers, 12));
    let to = (from + length).min(text.len());
    match below(numbers, 5) {
        0 if !text.is_empty() => text[from] ^= 1 << below(numbers, 8),
        1 => drop(text.drain(from..to)),
        2 => drop(text.splice(from..from, text[from..to].to_vec())),
        3 => {
            let digits = text[from..].iter().position(u8::is_ascii_digit).map(|at| from + at);
            let values =
                ["0", "1", "4294967295", "18446744073709551615", "-1", "1e300", "null", "\"\"", "1000000000"];
            let value = values[below(numbers, values.len())];
            if let Some(at) = digits {
                let end = text[at..]
                    .iter()
                    .position(|byte| !byte.is_ascii_digit())
                    .map_or(text.len(), |end| at + end);
                text.splice(at..end, value.bytes());
            }
        }
        _ => text.truncate(from),
    }
}

#[test]
fn changed_archives_bring_only_what_is_true() {
    let everything = everything();
    let keys: Vec<_> = everything.keys().copied().collect();
    for seed in first_seed()..first_seed() + seeds(150) {
        let mut numbers = Numbers(seed);
        let mut documents = everything.clone();
        for _ in 0..=below(&mut numbers, 3) {
            let key = keys[below(&mut numbers, keys.len())];
            change(&mut numbers, documents.get_mut(&key).unwrap());
        }
        let mut bytes = archive(&documents);
        if below(&mut numbers, 3) == 0 {
            let at = below(&mut numbers, bytes.len());
            bytes[at] ^= 1 << below(&mut numbers, 8);
        }
        let root = root();
        if let Some(taken) = take(root.path(), &bytes) {
            let count = taken.records.values().sum::<u64>();
            assert_eq!(records(root.path()).len() as u64, count, "seed {seed}: {taken:?}");
        }
    }
}

/// `cargo test --release -p vkstash-exchange what_100_000 -- --ignored --nocapture`
#[test]
#[ignore = "prints figures"]
fn what_100_000_pipelines_cost() {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes).unwrap();
    let mut documents = Documents::new();
    objects(&mut documents);
    documents.iter().for_each(|((tag, hash), text)| assert!(writer.write(*tag, *hash, text).unwrap()));
    let (from, constants) = (format!("{GRAPHICS:016x}"), "\"blendConstants\":[0.0,0.0,0.0,0.0]");
    let document = String::from_utf8(graphics(false)).unwrap();
    assert!(document.contains(constants), "{document}");
    for number in 1..=100_000_u64 {
        let hash = 0x1000 + number;
        let own = format!("\"blendConstants\":[{number}.0,0.0,0.0,0.0]");
        let text = document.replace(&from, &format!("{hash:016x}")).replace(constants, &own);
        assert!(writer.write(Tag::GraphicsPipeline, hash, text.as_bytes()).unwrap());
    }
    writer.finish().unwrap();
    let root = root();
    let began = std::time::Instant::now();
    let taken = take(root.path(), &bytes).unwrap();
    println!("import of 100,000 pipelines, {} bytes: {:.1?}", bytes.len(), began.elapsed());
    assert_eq!(taken.records["recipe"], 100_000, "{taken:?}");
    let stash = Stash::open_patiently(&root.path().join("stash"), &app()).unwrap();
    let (began, mut own) = (std::time::Instant::now(), Vec::new());
    let exported = export(&[stash.portable().clone()], &mut own, &mut |_, _| {}).unwrap();
    println!("export of {}, {} bytes: {:.1?}", exported.pipelines, own.len(), began.elapsed());
}
