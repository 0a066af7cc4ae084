//! How programs create pipelines: which cache they pass, and what they ask first.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use ash::vk;

use crate::corpus::Module;
use crate::device::Device;
use crate::{CacheHabit, Figures, Options};

/// Identifiers of an earlier run by module name, valid under one algorithm.
#[derive(Default, serde::Serialize, serde::Deserialize)]
struct Known {
    algorithm: [u8; 16],
    identifiers: HashMap<String, Vec<u8>>,
}

/// Runs the modules through the habit that the options name.
pub fn run(device: &Device, options: &Options, modules: &[Module], figures: &mut Figures) {
    let loaded = match (options.cache, &options.cache_file) {
        (CacheHabit::File, Some(path)) => std::fs::read(path).unwrap_or_default(),
        _ => Vec::new(),
    };
    let lasting =
        matches!(options.cache, CacheHabit::File | CacheHabit::Shared).then(|| device.cache(&loaded));
    let known = options.identifiers.as_deref().map(|path| read_identifiers(device, path));
    if options.threads > 1 {
        let shares = modules.chunks(modules.len().div_ceil(options.threads).max(1));
        let parts: Vec<Figures> = std::thread::scope(|scope| {
            let threads: Vec<_> = shares
                .map(|share| {
                    let known = known.as_ref();
                    scope.spawn(move || {
                        let mut figures = Figures::default();
                        share.iter().for_each(|m| one(device, options, m, lasting, known, &mut figures));
                        figures
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for part in parts {
            figures.pipelines.extend(part.pipelines);
            figures.modules.extend(part.modules);
        }
    } else {
        modules.iter().for_each(|m| one(device, options, m, lasting, known.as_ref(), figures));
    }
    if let (Some(path), Some(_)) = (&options.identifiers, &device.identifiers) {
        if !path.exists() {
            write_identifiers(device, modules, path);
        }
    }
    if let Some(cache) = lasting {
        // SAFETY: a live cache that nobody uses any more.
        unsafe {
            if let (CacheHabit::File, Some(path)) = (options.cache, &options.cache_file) {
                std::fs::write(path, device.device.get_pipeline_cache_data(cache).unwrap()).unwrap();
            }
            device.device.destroy_pipeline_cache(cache, None);
        }
    }
}

fn one(
    device: &Device,
    options: &Options,
    module: &Module,
    lasting: Option<vk::PipelineCache>,
    known: Option<&Known>,
    figures: &mut Figures,
) {
    let fresh = matches!(options.cache, CacheHabit::Fresh | CacheHabit::FreshRead);
    let identifier = known.and_then(|known| known.identifiers.get(&module.name));
    if let Some(identifier) = identifier {
        let cache = if fresh { Some(device.cache(&[])) } else { None };
        let mut named =
            vk::PipelineShaderStageModuleIdentifierCreateInfoEXT::default().identifier(identifier);
        let mut info = create_info(device, module, vk::ShaderModule::null())
            .flags(vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED);
        info.stage = info.stage.push_next(&mut named);
        let started = Instant::now();
        let (result, pipeline) = device.create(&info, cache.or(lasting).unwrap_or_default());
        let spent = started.elapsed();
        finish(device, options, cache);
        match result {
            vk::Result::SUCCESS => {
                figures.by_identifier += 1;
                figures.pipelines.push(spent.as_nanos() as u64);
                // SAFETY: a pipeline that was just made.
                unsafe { device.device.destroy_pipeline(pipeline, None) };
                return;
            }
            vk::Result::PIPELINE_COMPILE_REQUIRED => {
                assert_eq!(pipeline, vk::Pipeline::null(), "no handle with COMPILE_REQUIRED");
                figures.compile_required += 1;
            }
            error => panic!("{}: {error:?}", module.name),
        }
    }
    let started = Instant::now();
    let shader = shader(device, module);
    figures.modules.push(started.elapsed().as_nanos() as u64);
    let cache = if fresh { Some(device.cache(&[])) } else { None };
    let info = create_info(device, module, shader);
    let started = Instant::now();
    let (result, pipeline) = device.create(&info, cache.or(lasting).unwrap_or_default());
    figures.pipelines.push(started.elapsed().as_nanos() as u64);
    assert_eq!(result, vk::Result::SUCCESS, "{}", module.name);
    finish(device, options, cache);
    // SAFETY: objects that were just made and are used no more.
    unsafe {
        device.device.destroy_pipeline(pipeline, None);
        device.device.destroy_shader_module(shader, None);
    }
}

fn shader(device: &Device, module: &Module) -> vk::ShaderModule {
    let info = vk::ShaderModuleCreateInfo::default().code(&module.words);
    // SAFETY: real SPIR-V.
    unsafe { device.device.create_shader_module(&info, None).unwrap() }
}

fn create_info<'a>(
    device: &Device,
    module: &'a Module,
    shader: vk::ShaderModule,
) -> vk::ComputePipelineCreateInfo<'a> {
    let stage = vk::PipelineShaderStageCreateInfo::default()
        .stage(vk::ShaderStageFlags::COMPUTE)
        .module(shader)
        .name(&module.entry_point);
    vk::ComputePipelineCreateInfo::default().stage(stage).layout(device.layout)
}

/// What becomes of a cache that was made for one pipeline.
fn finish(device: &Device, options: &Options, cache: Option<vk::PipelineCache>) {
    let Some(cache) = cache else { return };
    // SAFETY: a live cache that nobody uses any more.
    unsafe {
        if options.cache == CacheHabit::FreshRead {
            device.device.get_pipeline_cache_data(cache).unwrap();
        }
        device.device.destroy_pipeline_cache(cache, None);
    }
}

/// First uses of entries in a freshly loaded in-memory cache: what "hit" means.
pub fn first_uses(device: &Device, modules: &[Module], figures: &mut Figures) {
    let shaders: Vec<_> = modules.iter().map(|module| shader(device, module)).collect();
    let filled = device.cache(&[]);
    for (module, &shader) in modules.iter().zip(&shaders) {
        let (result, pipeline) = device.create(&create_info(device, module, shader), filled);
        assert_eq!(result, vk::Result::SUCCESS, "{}", module.name);
        // SAFETY: a pipeline that was just made.
        unsafe { device.device.destroy_pipeline(pipeline, None) };
    }
    // SAFETY: a live cache, read once and destroyed.
    let data = unsafe {
        let data = device.device.get_pipeline_cache_data(filled).unwrap();
        device.device.destroy_pipeline_cache(filled, None);
        data
    };
    let loaded = device.cache(&data);
    for (module, &shader) in modules.iter().zip(&shaders) {
        let info = create_info(device, module, shader);
        let started = Instant::now();
        let (result, pipeline) = device.create(&info, loaded);
        figures.pipelines.push(started.elapsed().as_nanos() as u64);
        assert_eq!(result, vk::Result::SUCCESS, "{}", module.name);
        // SAFETY: objects that are used no more.
        unsafe {
            device.device.destroy_pipeline(pipeline, None);
            device.device.destroy_shader_module(shader, None);
        }
    }
    // SAFETY: as above.
    unsafe { device.device.destroy_pipeline_cache(loaded, None) };
}

fn read_identifiers(device: &Device, path: &Path) -> Known {
    let known: Known =
        std::fs::read(path).map(|bytes| serde_json::from_slice(&bytes).unwrap()).unwrap_or_default();
    // As translators do: identifiers of another algorithm mean nothing.
    if device.algorithm == Some(known.algorithm) { known } else { Known::default() }
}

fn write_identifiers(device: &Device, modules: &[Module], path: &Path) {
    let mut known = Known { algorithm: device.algorithm.unwrap_or_default(), ..Known::default() };
    let Some(query) = &device.identifiers else { return };
    for module in modules {
        let shader = shader(device, module);
        // SAFETY: a live module of a device with the extension.
        unsafe {
            let mut identifier = vk::ShaderModuleIdentifierEXT::default();
            (query.fp().get_shader_module_identifier_ext)(device.device.handle(), shader, &mut identifier);
            let bytes = &identifier.identifier[..identifier.identifier_size as usize];
            known.identifiers.insert(module.name.clone(), bytes.to_vec());
            device.device.destroy_shader_module(shader, None);
        }
    }
    std::fs::write(path, serde_json::to_vec(&known).unwrap()).unwrap();
}
