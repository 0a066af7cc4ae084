//! Graphics pipeline libraries and their links: single and combined subsets, nested, optimized and not, with
//! libraries destroyed before and after, from identifiers, and with the program's own caches.

use std::ptr;

use ash::{ext, vk};
use serde_json::{Value, json};
use vkstash_layer_tests::child::{Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::vulkan::IDENTIFIER_EXTENSION;
use vkstash_layer_tests::work::UNKNOWN_STRUCTURE;

use super::draft::{BEFORE, Draft, FRAGMENT, INPUT, OPTIMIZED, OUTPUT, RETAIN};
use super::rig::{Rig, keep, keep_all};
use super::{Results, covered, drivers};

use vk::GraphicsPipelineLibraryFlagsEXT as Subset;
use vk::PipelineCreateFlags as Flags;

const NONE: Flags = Flags::empty();
const FAIL_ON: Flags = Flags::FAIL_ON_PIPELINE_COMPILE_REQUIRED;

/// Creates pipelines through one cache, and records the result of each.
struct Maker {
    rig: Rig,
    cache: vk::PipelineCache,
    results: Vec<(String, Option<(i32, bool)>)>,
}

impl Maker {
    fn make(&mut self, name: &str, info: vk::GraphicsPipelineCreateInfo<'_>) -> vk::Pipeline {
        let (result, pipeline) = self.rig.graphics(self.cache, info);
        self.results.push((name.to_owned(), Some((result.as_raw(), pipeline != vk::Pipeline::null()))));
        pipeline
    }

    /// The four libraries of a pipeline.
    fn four(&mut self, draft: &Draft, flags: Flags) -> [vk::Pipeline; 4] {
        [INPUT, BEFORE, FRAGMENT, OUTPUT]
            .map(|subset| self.make(&format!("library of {subset:?}"), draft.library(subset, flags)))
    }
}

/// A program, described by its name.
type Program = fn(&mut Maker);

const PROGRAMS: &[(&str, Program)] = &[
    ("subsets alone", |maker| {
        let draft = Draft::new(&maker.rig);
        let four = maker.four(&draft, NONE);
        maker.make("link", draft.link(&four, Subset::empty(), NONE));
    }),
    ("optimized link", |maker| {
        let draft = Draft::new(&maker.rig);
        let four = maker.four(&draft, RETAIN);
        maker.make("fast", draft.link(&four, Subset::empty(), NONE));
        maker.make("optimized", draft.link(&four, Subset::empty(), OPTIMIZED));
    }),
    ("optimized library", |maker| {
        let draft = Draft::new(&maker.rig);
        let four = maker.four(&draft, RETAIN);
        let flags = OPTIMIZED | RETAIN | Flags::LIBRARY_KHR;
        maker.make("library", draft.link(&four, Subset::empty(), flags));
    }),
    ("combinations", |maker| {
        let draft = Draft::new(&maker.rig);
        let edges = maker.make("edges", draft.library(INPUT | OUTPUT, NONE));
        let shaders = maker.make("shaders", draft.library(BEFORE | FRAGMENT, NONE));
        let most = maker.make("all but output", draft.library(INPUT | BEFORE | FRAGMENT, NONE));
        let output = maker.make("output", draft.library(OUTPUT, NONE));
        maker.make("two", draft.link(&[edges, shaders], Subset::empty(), NONE));
        maker.make("two, other order", draft.link(&[shaders, edges], Subset::empty(), NONE));
        maker.make("most", draft.link(&[most, output], Subset::empty(), NONE));
        maker.make("all subsets", draft.library(INPUT | BEFORE | FRAGMENT | OUTPUT, NONE));
    }),
    ("nested", |maker| {
        let draft = Draft::new(&maker.rig);
        let [input, before, fragment, output] = maker.four(&draft, RETAIN);
        let shaders = maker
            .make("shaders", draft.link(&[before, fragment], Subset::empty(), Flags::LIBRARY_KHR | RETAIN));
        maker.make("fast", draft.link(&[input, shaders, output], Subset::empty(), NONE));
        maker.make("optimized", draft.link(&[input, shaders, output], Subset::empty(), OPTIMIZED));
    }),
    ("own state", |maker| {
        let draft = Draft::new(&maker.rig);
        let [input, before, _, output] = maker.four(&draft, RETAIN);
        maker.make("own fragment shader", draft.link(&[input, before, output], FRAGMENT, NONE));
        maker.make("the same, optimized", draft.link(&[input, before, output], FRAGMENT, OPTIMIZED));
        let edges = [input, output];
        maker.make("own shaders", draft.link(&edges, BEFORE | FRAGMENT, NONE));
    }),
    ("independent sets", |maker| {
        let raw = &maker.rig.device.raw;
        let binding = |stage| {
            keep_all([vk::DescriptorSetLayoutBinding::default()
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .descriptor_count(1)
                .stage_flags(stage)])
        };
        // SAFETY: a live device and valid create infos; with independent sets a set layout may be NULL.
        let [first, second, both] = unsafe {
            let sets = [vk::ShaderStageFlags::VERTEX, vk::ShaderStageFlags::FRAGMENT].map(|stage| {
                let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(binding(stage));
                raw.create_descriptor_set_layout(&info, None).unwrap()
            });
            let null = vk::DescriptorSetLayout::null();
            [[sets[0], null], [null, sets[1]], sets].map(|sets| {
                let info = vk::PipelineLayoutCreateInfo::default()
                    .flags(vk::PipelineLayoutCreateFlags::INDEPENDENT_SETS_EXT)
                    .set_layouts(&sets);
                raw.create_pipeline_layout(&info, None).unwrap()
            })
        };
        let mut draft = Draft::new(&maker.rig);
        let edges = maker.make("edges", draft.library(INPUT | OUTPUT, RETAIN));
        draft.layout = first;
        let before = maker.make("first set", draft.library(BEFORE, RETAIN));
        draft.layout = second;
        let fragment = maker.make("second set", draft.library(FRAGMENT, RETAIN));
        draft.layout = both;
        maker.make("fast", draft.link(&[edges, before, fragment], Subset::empty(), NONE));
        maker.make("optimized", draft.link(&[edges, before, fragment], Subset::empty(), OPTIMIZED));
    }),
    ("used again", |maker| {
        // The handle of a destroyed library is reused for another library; links must not confuse them.
        let edges = Draft::new(&maker.rig).library(INPUT | OUTPUT, RETAIN);
        let edges = maker.make("edges", edges);
        for value in [1.0, 2.0, 3.0] {
            let draft = Draft::of_values(&maker.rig, 0.5, value);
            let (result, shaders) = maker.rig.graphics(maker.cache, draft.library(BEFORE | FRAGMENT, RETAIN));
            maker.results.push((format!("shaders {value}"), Some((result.as_raw(), true))));
            maker.make("link", draft.link(&[edges, shaders], Subset::empty(), OPTIMIZED));
            // SAFETY: a link no longer needs its libraries once it is created.
            unsafe { maker.rig.device.destroy_pipeline(shaders) };
        }
    }),
    ("from identifiers", |maker| {
        let draft = Draft::new(&maker.rig);
        let edges = maker.make("edges", draft.library(INPUT | OUTPUT, RETAIN));
        let shaders = maker.make("shaders", draft.library(BEFORE | FRAGMENT, RETAIN));
        maker.make("link", draft.link(&[edges, shaders], Subset::empty(), OPTIMIZED));
        let named = by_identifier(&maker.rig, &draft);
        let info = named.library(BEFORE | FRAGMENT, RETAIN | FAIL_ON);
        let (result, again) = maker.rig.graphics(maker.cache, info);
        let refused = vk::Result::PIPELINE_COMPILE_REQUIRED;
        assert!(result == vk::Result::SUCCESS || result == refused, "{result:?}");
        if result == vk::Result::SUCCESS {
            for flags in [FAIL_ON, FAIL_ON | OPTIMIZED] {
                let (result, pipeline) =
                    maker.rig.graphics(maker.cache, named.link(&[edges, again], Subset::empty(), flags));
                assert!(result == vk::Result::SUCCESS || result == refused, "{result:?}");
                assert_eq!(result == vk::Result::SUCCESS, pipeline != vk::Pipeline::null());
            }
        }
    }),
    ("unknown identifiers", |maker| {
        let draft = Draft::of_values(&maker.rig, 77.0, 78.0);
        let named = by_identifier(&maker.rig, &draft);
        let (result, again) = maker.rig.graphics(maker.cache, named.library(BEFORE | FRAGMENT, FAIL_ON));
        let edges = maker.make("edges", draft.library(INPUT | OUTPUT, NONE));
        let linked = match result {
            vk::Result::SUCCESS => {
                maker.rig.graphics(maker.cache, named.link(&[edges, again], Subset::empty(), FAIL_ON)).0
            }
            other => other,
        };
        assert_eq!(linked, vk::Result::PIPELINE_COMPILE_REQUIRED, "nobody has ever seen this code");
    }),
];

/// The pipeline of this draft, with identifiers in place of the modules.
fn by_identifier(rig: &Rig, draft: &Draft) -> Draft {
    let mut named = Draft::new(rig);
    named.layout = draft.layout;
    named.stages.clear();
    for stage in &draft.stages {
        let identifier = keep_all(rig.device.identifier(stage.module));
        let info = vk::PipelineShaderStageModuleIdentifierCreateInfoEXT::default().identifier(identifier);
        let mut stage = stage.push_next(keep(info));
        stage.module = vk::ShaderModule::null();
        named.stages.push(stage);
    }
    named
}

/// The step: runs a program, with a cache of its own or none. Null if the device lacks libraries.
pub fn make(input: &Value) -> Value {
    let rig = Rig::open();
    let (_, program) = PROGRAMS.iter().find(|(name, _)| input["program"] == *name).unwrap();
    let needs_names = input["program"].as_str().unwrap().contains("identifiers");
    if !rig.has(ext::graphics_pipeline_library::NAME) || needs_names && !rig.has(IDENTIFIER_EXTENSION) {
        return Value::Null;
    }
    let data: Vec<u8> = serde_json::from_value(input["data"].clone()).unwrap_or_default();
    let cached = input["cache"] == true;
    let cache = if cached { rig.device.cache(&data) } else { vk::PipelineCache::null() };
    let mut maker = Maker { rig, cache, results: Vec::new() };
    program(&mut maker);
    let data = if cached { maker.rig.device.cache_data(cache) } else { Vec::new() };
    maker.rig.device.destroy_cache(cache);
    json!({ "results": maker.results, "data": data })
}

/// Number of pipelines of a program that RADV writes into its caches and never finds there: optimized libraries of
/// libraries, and links with shaders of their own that are not optimized.
fn never_found(program: &str) -> u64 {
    match program {
        "optimized library" | "nested" => 1,
        "own state" => 2,
        _ => 0,
    }
}

/// Runs a program without the layer, cold and warm; its results are the same each time.
fn three_runs(scenario: &Scenario, env: &Env, name: &str, cache: bool) -> Option<()> {
    let input = json!({ "program": name, "cache": cache });
    let results = |value: &Value| serde_json::from_value::<Results>(value["results"].clone());
    let driver = env.driver();
    let with_names = name.contains("identifiers");
    let without = scenario.run_ok::<Value>("make", &env.clone().without_layer(), &input).value;
    let cold = scenario.run_ok::<Value>("make", env, &input);
    let Ok(expected) = results(&cold.value) else {
        assert!(with_names || *driver == Driver::Machine, "{name}: no libraries on {}", driver.name());
        return None;
    };
    // On a driver without identifiers the layer offers them.
    if let Ok(without) = results(&without) {
        assert_eq!(expected, without, "{name} on {}", driver.name());
    }
    assert!(expected.iter().all(|(_, result)| *result == Some((0, true))), "{name}: {expected:?}");
    let counters = cold.reports.counters();
    let what = format!("{name} on {}, own cache: {cache}: {counters:?}", driver.name());
    assert!(cold.reports.bypassed().is_empty(), "{what} {:?}", cold.reports.bypassed());
    // A library for optimizing links needs its code, whatever the caches hold.
    if !with_names {
        assert_eq!(cold.reports.sum("not_taken"), 0, "{what}");
        assert_eq!(cold.reports.sum("served"), 0, "{what}");
    }
    let warm = scenario.run_ok::<Value>("make", env, &input);
    assert_eq!(results(&warm.value).unwrap(), expected, "{what}");
    let counters = warm.reports.counters();
    let what = format!("{name} on {}, own cache: {cache}: {counters:?}", driver.name());
    assert!(warm.reports.bypassed().is_empty(), "{what}");
    if with_names {
        assert_eq!(warm.reports.sum("compiled"), 0, "{what}");
    } else if matches!(driver, Driver::Radv | Driver::Machine) && never_found(name) > 0 {
        assert!(warm.reports.sum("compiled") <= never_found(name), "{what}");
        return Some(());
    } else {
        // Libraries of libraries for optimizing links are passed to the driver.
        covered(driver, &warm.reports, expected.len() - usize::from(name == "optimized library"));
    }
    if cache && matches!(driver, Driver::Radv | Driver::Test(_)) && !with_names {
        // Cache data from a completely served run warms a run without the layer.
        let input = json!({ "program": name, "cache": true, "data": warm.value["data"] });
        let elsewhere = env.clone().stash(scenario.folder().join("nothing"));
        let again = scenario.run_ok::<Value>("make", &elsewhere, &input);
        let counters = again.reports.counters();
        assert_eq!(
            again.reports.sum("compiled") + again.reports.sum("served"),
            0,
            "{what} then {counters:?}"
        );
        // A link names the keys of its libraries, which the driver had.
        assert!(again.reports.bypassed().is_empty(), "{what} then {:?}", again.reports.bypassed());
        std::fs::remove_dir_all(scenario.folder().join("nothing")).unwrap();
    }
    Some(())
}

fn on_all(cache: bool) {
    scenario(&[("make", make)], |scenario| {
        for (number, driver) in drivers(json!({ "reuse_handles": true })).into_iter().enumerate() {
            let Some(env) = scenario.on(driver) else { continue };
            for (name, _) in PROGRAMS {
                let env = env.clone().stash(scenario.folder().join(format!("stash {number} {name}")));
                three_runs(scenario, &env, name, cache);
            }
        }
    });
}

#[test]
fn libraries_and_links_are_the_same_and_compiled_once() {
    on_all(false);
}

#[test]
fn libraries_and_links_with_the_programs_own_cache() {
    on_all(true);
}

#[test]
fn libraries_by_emulated_identifiers() {
    scenario(&[("make", make)], |scenario| {
        for driver in [Driver::Radv, Driver::Test(json!({ "identifiers": true })), Driver::Machine] {
            let Some(env) = scenario.on(driver.clone()) else { continue };
            let env = env.var("VKSTASH_IDENTIFIERS", "emulate");
            for (name, _) in PROGRAMS {
                let stash = scenario.folder().join(format!("stash {} {name}", driver.name()));
                three_runs(scenario, &env.clone().stash(stash), name, false);
            }
        }
    });
}

/// Creates a library for each subset, one of which nobody can describe, and a link of them that compiles nothing. Gives
/// what the driver gets for each.
fn at_once(_: &Value) -> Value {
    let rig = Rig::open();
    let driver = TestDriver::open();
    let draft = Draft::new(&rig);
    let mut maker = Maker { rig, cache: vk::PipelineCache::null(), results: Vec::new() };
    driver.take_record();
    let s_type = vk::StructureType::from_raw(UNKNOWN_STRUCTURE);
    let four = [INPUT, BEFORE, FRAGMENT, OUTPUT].map(|subset| {
        let mut info = draft.library(subset, NONE);
        if subset == FRAGMENT {
            info.p_next = ptr::from_ref(keep(vk::BaseInStructure {
                s_type,
                p_next: info.p_next.cast(),
                ..Default::default()
            }))
            .cast();
        }
        maker.make("library", info)
    });
    maker.make("link", draft.link(&four, Subset::empty(), NONE));
    let record = driver.take_record();
    assert!(maker.results.iter().all(|(_, result)| *result == Some((0, true))), "{:?}", maker.results);
    let calls = record["calls"].as_array().unwrap().iter();
    let creations = calls.filter(|call| call["command"] == "vkCreateGraphicsPipelines");
    json!(creations.map(|call| json!([call["cache"], call["flags"]])).collect::<Vec<_>>())
}

/// What has nothing to compile goes down once, as the program wrote it: a question would cost as much as the call.
#[test]
fn libraries_without_shaders_and_fast_links_go_down_at_once() {
    scenario(&[("at once", at_once)], |scenario| {
        let env = scenario.on(Driver::Test(json!({}))).unwrap().var("VKSTASH_ASK_FIRST", "driver");
        let flags = u64::from(Flags::LIBRARY_KHR.as_raw());
        for _ in 0..3 {
            let ended = scenario.run_ok::<Vec<Value>>("at once", &env, &());
            let calls = &ended.value;
            let [library, link] = [flags, 0].map(|flags| json!(["null", [flags]]));
            let ends = [&calls[0], &calls[calls.len() - 2], &calls[calls.len() - 1]];
            assert_eq!(ends, [&library, &library, &link], "{calls:?}");
            // Both edges of the pipeline, and the link.
            assert_eq!(ended.reports.sum("nothing_to_compile"), 3, "{:?}", ended.reports.counters());
            // The library. To describe the link would cost as much again.
            assert_eq!(ended.reports.bypassed().iter().map(|bypass| bypass.count).sum::<u64>(), 1);
        }
    });
}
