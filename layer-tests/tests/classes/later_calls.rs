//! Tests of later calls with a pipeline: links that use it, statistics, internal representations, group handles, and
//! binaries captured from it or its links. The answers are the same whether the driver or the stash made it.

use std::collections::BTreeMap;

use ash::{khr, vk};
use serde_json::{Value, json};
use vkstash_layer_tests::child::{Scenario, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::vulkan::{binaries, spirv};

use super::draft::{BEFORE, Draft, FRAGMENT, INPUT, OPTIMIZED, OUTPUT, RETAIN};
use super::queries::{REPRESENTATIONS, STATISTICS, capture, look, shader_info};
use super::rays::Rays;
use super::rig::{Options, Rig, keep};

use vk::GraphicsPipelineLibraryFlagsEXT as Subset;
use vk::PipelineCreateFlags as Flags;

/// The answers of later calls about pipelines, by name.
type Seen = BTreeMap<String, Value>;

/// Creates pipelines, one program after the other.
struct Maker {
    rig: Rig,
    seen: Seen,
    own_binaries: bool,
    /// A flag of this run's links that links of earlier runs did not have.
    further: Flags,
}

impl Maker {
    fn note(&mut self, name: &str, value: Value) {
        assert!(self.seen.insert(name.to_owned(), value).is_none(), "{name} is there already");
    }

    fn graphics(
        &mut self,
        name: &str,
        info: vk::GraphicsPipelineCreateInfo<'_>,
        flags: Flags,
    ) -> vk::Pipeline {
        let mut info = info;
        info.flags |= flags;
        let (result, pipeline) = self.rig.graphics(vk::PipelineCache::null(), info);
        let seen = look(&self.rig, pipeline, flags);
        self.note(name, json!([result.as_raw(), seen]));
        pipeline
    }

    /// Four libraries, links of them, and a library of libraries.
    fn libraries(&mut self, what: &str, flags: Flags, value: f32) {
        let draft = Draft::of_values(&self.rig, value, value + 0.25);
        let four = [INPUT, BEFORE, FRAGMENT, OUTPUT].map(|subset| {
            self.graphics(&format!("{what}: {subset:?}"), draft.library(subset, Flags::empty()), flags)
        });
        let [input, before, fragment, output] = four;
        // Libraries no longer need their modules: optimizing links use the libraries' own information.
        for stage in &draft.stages {
            // SAFETY: created by this draft, and destroyed once; links with shaders of their own create new modules.
            unsafe { self.rig.device.destroy_module(stage.module) };
        }
        let draft = Draft::of_values(&self.rig, value, value + 0.25);
        let looked_into = flags & (STATISTICS | REPRESENTATIONS);
        let fast = draft.link(&four, Subset::empty(), Flags::empty());
        let fast = self.graphics(&format!("{what}: fast link"), fast, looked_into);
        let info = shader_info(&self.rig, fast, vk::ShaderStageFlags::FRAGMENT);
        self.note(&format!("{what}: fast link, shader info"), info);
        let own = draft.link(&[input, before, output], FRAGMENT, Flags::empty());
        self.graphics(&format!("{what}: own fragment shader"), own, looked_into);
        let joined = draft.link(&[before, fragment], Subset::empty(), Flags::LIBRARY_KHR);
        let joined = self.graphics(&format!("{what}: joined shaders"), joined, flags);
        let further = draft.link(&[input, joined, output], Subset::empty(), self.further);
        self.graphics(&format!("{what}: their fast link"), further, looked_into);
        if flags.contains(RETAIN) {
            let further = draft.link(&[input, joined, output], Subset::empty(), OPTIMIZED | self.further);
            self.graphics(&format!("{what}: their further optimized link"), further, looked_into);
            let optimized = draft.link(&four, Subset::empty(), OPTIMIZED);
            let optimized = self.graphics(&format!("{what}: optimized link"), optimized, looked_into);
            let info = shader_info(&self.rig, optimized, vk::ShaderStageFlags::VERTEX);
            self.note(&format!("{what}: optimized link, shader info"), info);
            // Libraries that may be served, in a link that no run has created before.
            let further = draft.link(&four, Subset::empty(), OPTIMIZED | self.further);
            self.graphics(&format!("{what}: further optimized link"), further, looked_into);
            let library = draft.link(&four, Subset::empty(), OPTIMIZED | RETAIN | Flags::LIBRARY_KHR);
            let library = self.graphics(&format!("{what}: library of libraries"), library, looked_into);
            let again = draft.link(&[library], Subset::empty(), OPTIMIZED);
            self.graphics(&format!("{what}: its optimized link"), again, looked_into);
            let further = draft.link(&[library], Subset::empty(), OPTIMIZED | self.further);
            self.graphics(&format!("{what}: its further optimized link"), further, looked_into);
            // Libraries of several subsets, and of one subset beside other libraries.
            let shaders = draft.library(BEFORE | FRAGMENT, Flags::empty());
            let shaders = self.graphics(&format!("{what}: both shaders"), shaders, flags);
            let further = draft.link(&[input, shaders, output], Subset::empty(), OPTIMIZED | self.further);
            self.graphics(&format!("{what}: further link of both shaders"), further, looked_into);
            let grown = draft.link(&[input, before], FRAGMENT, Flags::LIBRARY_KHR);
            let grown = self.graphics(&format!("{what}: shader beside libraries"), grown, flags);
            let further = draft.link(&[grown, output], Subset::empty(), OPTIMIZED | self.further);
            self.graphics(&format!("{what}: further link of it"), further, looked_into);
            let some =
                draft.link(&[before, fragment], Subset::empty(), OPTIMIZED | RETAIN | Flags::LIBRARY_KHR);
            let some = self.graphics(&format!("{what}: library of shaders"), some, looked_into);
            let further = draft.link(&[input, some, output], Subset::empty(), OPTIMIZED | self.further);
            self.graphics(&format!("{what}: its further link"), further, looked_into);
        }
        let further = draft.link(&[input, before, output], FRAGMENT, self.further);
        self.graphics(&format!("{what}: further own fragment shader"), further, looked_into);
        if self.own_binaries {
            let captured = vk::PipelineCreateFlags2CreateInfoKHR::default()
                .flags(vk::PipelineCreateFlags2KHR::from_raw(binaries::CAPTURE_DATA));
            let info = draft.link(&four, Subset::empty(), Flags::empty()).push_next(keep(captured));
            let (result, pipeline) = self.rig.graphics(vk::PipelineCache::null(), info);
            let captured = capture(&self.rig, pipeline);
            self.note(&format!("{what}: captured link"), json!([result.as_raw(), captured]));
        }
    }

    fn compute(&mut self, name: &str, flags: Flags, value: u32) {
        let stage = self.rig.stage(vk::ShaderStageFlags::COMPUTE, &spirv::compute(value));
        let layout = self.rig.device.compute_layout();
        let plain = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout).flags(flags);
        let make = |rig: &Rig, info: vk::ComputePipelineCreateInfo<'_>| {
            // SAFETY: a valid create info.
            let (result, made) = unsafe { rig.device.create_compute(vk::PipelineCache::null(), &[info]) };
            (result.as_raw(), made[0])
        };
        let (result, base) = make(&self.rig, plain.flags(flags | Flags::ALLOW_DERIVATIVES));
        let looked =
            (look(&self.rig, base, flags), shader_info(&self.rig, base, vk::ShaderStageFlags::COMPUTE));
        self.note(name, json!([result, looked]));
        let derived =
            plain.flags(flags | Flags::DERIVATIVE).base_pipeline_handle(base).base_pipeline_index(-1);
        let (result, derived) = make(&self.rig, derived);
        let looked = look(&self.rig, derived, flags);
        self.note(&format!("{name}: derived"), json!([result, looked]));
        if self.own_binaries {
            // A pipeline that differs from the served one in this flag alone.
            let (_, _) = make(&self.rig, plain);
            let raw = u64::from(flags.as_raw()) | binaries::CAPTURE_DATA;
            let captured = vk::PipelineCreateFlags2CreateInfoKHR::default()
                .flags(vk::PipelineCreateFlags2KHR::from_raw(raw));
            let (result, pipeline) = make(&self.rig, plain.push_next(keep(captured)));
            let captured = capture(&self.rig, pipeline);
            self.note(&format!("{name}: captured"), json!([result, captured]));
        }
    }
}

/// Ray tracing: libraries, links of them, groups.
fn rays(rays: &Rays, flags: Flags, further: Flags, what: &str, value: u32, seen: &mut Seen) {
    let none = vk::PipelineCache::null();
    let mut note = |name: &str, made: (vk::Result, vk::Pipeline), groups: u32| {
        let (result, pipeline) = made;
        let stacks: Vec<u64> = match rays.rig.device.has_command(c"vkGetRayTracingShaderGroupStackSizeKHR") {
            // SAFETY: a live pipeline with this many groups, the first of which is general.
            true if result == vk::Result::SUCCESS && groups > 0 => vec![unsafe {
                let general = vk::ShaderGroupShaderKHR::GENERAL;
                rays.commands.get_ray_tracing_shader_group_stack_size(pipeline, 0, general)
            }],
            _ => Vec::new(),
        };
        let handles = rays.group_handles(pipeline, groups);
        let distinct: std::collections::BTreeSet<_> = handles.chunks(32).collect();
        let looked = look(&rays.rig, pipeline, flags);
        let value = json!([result.as_raw(), looked, stacks, handles.len(), distinct.len()]);
        seen.insert(format!("{what}: {name}"), value);
        pipeline
    };
    let mut complete = rays.groups(value);
    complete.flags |= flags;
    let complete = note("rays", rays.make(none, complete), 5);
    let mut library = rays.library(rays.groups(value + 1));
    library.flags |= flags;
    let library = note("ray library", rays.make(none, library), 0);
    let mut linked = rays.linked(rays.plain(value + 2), &[library]);
    linked.flags |= flags;
    let linked = note("ray link", rays.make(none, linked), 6);
    let mut again = rays.linked(rays.plain(value + 3), &[library]);
    again.flags |= flags | further;
    let again = note("further ray link", rays.make(none, again), 6);
    rays.destroy(&[complete, linked, again, library]);
}

/// The step: creates the pipelines of one kind, and gives the answers of all later calls about them.
fn see(input: &Value) -> Value {
    let own_binaries = input["own"] == true;
    let rig = Rig::with(Options { binaries: own_binaries, ..Options::default() });
    let own_binaries = own_binaries && rig.has(binaries::NAME);
    let further = Flags::from_raw(input["further"].as_u64().unwrap() as u32);
    let mut maker = Maker { rig, seen: Seen::new(), own_binaries, further };
    let looked_into = maker.rig.has(khr::pipeline_executable_properties::NAME);
    let kinds: Vec<(&str, Flags)> = match input["kind"].as_str().unwrap() {
        "plain" => vec![("plain", Flags::empty())],
        "statistics" if looked_into => vec![("statistics", STATISTICS)],
        "representations" if looked_into => {
            vec![("representations", REPRESENTATIONS), ("both", STATISTICS | REPRESENTATIONS)]
        }
        _ => return Value::Null,
    };
    for (number, &(what, flags)) in kinds.iter().enumerate() {
        let number = number as u32;
        maker.compute(&format!("{what}: compute"), flags, 40 + number);
        let draft = Draft::of_values(&maker.rig, 0.75, 0.125);
        maker.graphics(&format!("{what}: graphics"), draft.complete(), flags);
        if maker.rig.has(ash::ext::graphics_pipeline_library::NAME) {
            maker.libraries(&format!("{what}: libraries"), flags, 1.0);
            maker.libraries(&format!("{what}: retained libraries"), flags | RETAIN, 2.0);
        }
    }
    let Maker { rig, mut seen, .. } = maker;
    if let Some(with_rays) = Rays::new(rig) {
        for (number, &(what, flags)) in kinds.iter().enumerate() {
            rays(&with_rays, flags, further, what, 100 + 10 * number as u32, &mut seen);
        }
    }
    json!(seen)
}

/// The differences of two answers, one line each.
fn differences(one: &Value, other: &Value) -> Vec<String> {
    let (one, other) = (one.as_object().unwrap(), other.as_object().unwrap());
    let names: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
    let different = names.into_iter().filter(|name| one.get(*name) != other.get(*name));
    different.map(|name| format!("{name}: {:?} and {:?}", one.get(name), other.get(name))).collect()
}

/// Reduces captured binaries to their keys.
fn keep_keys_alone(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if let Some(Value::Array(binaries)) = members.get_mut("contents") {
                binaries.iter_mut().for_each(|binary| *binary = binary[0].take());
            }
            members.values_mut().for_each(keep_keys_alone);
        }
        Value::Array(elements) => elements.iter_mut().for_each(keep_keys_alone),
        _ => {}
    }
}

/// Two runs with the layer, each beside two runs without it: all see the same. Gives the counters of the last run.
fn same(scenario: &Scenario, env: &Env, kind: &str, own: bool) -> Option<BTreeMap<String, u64>> {
    let mut counters = BTreeMap::new();
    for (round, further) in [("cold", Flags::ALLOW_DERIVATIVES), ("warm", Flags::DISABLE_OPTIMIZATION)] {
        let input = &json!({ "kind": kind, "own": own, "further": further.as_raw() });
        let without = scenario.run_ok::<Value>("see", &env.clone().without_layer(), input).value;
        if without.is_null() {
            return None;
        }
        let again = scenario.run_ok::<Value>("see", &env.clone().without_layer(), input).value;
        let unsteady = differences(&without, &again);
        assert!(unsteady.is_empty() || *env.driver() == Driver::Machine, "{unsteady:#?}");
        let with = scenario.run_ok::<Value>("see", env, input);
        let (mut theirs, mut ours) = (without, with.value);
        if *env.driver() == Driver::Machine {
            // NVIDIA's binaries are compressed, and their bytes differ from run to run.
            [&mut theirs, &mut ours].into_iter().for_each(keep_keys_alone);
        }
        let new = differences(&theirs, &ours);
        assert!(new.is_empty(), "{round} {input} on {}: {new:#?}", env.driver().name());
        counters = ["served", "compiled", "bypassed", "not_taken"]
            .map(|what| (what.to_owned(), with.reports.sum(what)))
            .into();
    }
    Some(counters)
}

/// Each driver, the test driver with `script` added, for programs that capture binaries and others.
fn each(kind: &str, script: Value, check: impl Fn(&Driver, &str, BTreeMap<String, u64>)) {
    scenario(&[("see", see)], |scenario| {
        let mut test = json!({ "pipeline_binary": true, "api_version": "1.4", "identifiers": true });
        test.as_object_mut().unwrap().extend(script.as_object().unwrap().clone());
        for driver in [Driver::Radv, Driver::RadvOnShim, Driver::Test(test), Driver::Machine] {
            for (way, own) in [("no binaries", false), ("own binaries", true)] {
                let Some(env) = scenario.on(driver.clone()) else { continue };
                let stash = scenario.folder().join(format!("stash {} {way}", driver.name()));
                match same(scenario, &env.stash(stash), kind, own) {
                    Some(counters) => check(&driver, way, counters),
                    None => assert_eq!(driver, Driver::Machine, "the others have all of it"),
                }
            }
        }
    });
}

#[test]
fn served_pipelines_are_linked_derived_and_captured_as_compiled_ones() {
    each("plain", json!({}), |driver, way, counters| {
        assert!(counters["served"] > 0, "{} {way}: {counters:?}", driver.name());
    });
}

#[test]
fn statistics_of_served_pipelines_are_those_of_compiled_ones() {
    each("statistics", json!({}), |driver, way, counters| {
        println!("statistics on {}, {way}: the same answers; {counters:?}", driver.name());
        assert!(counters["served"] > 0, "{} {way}: {counters:?}", driver.name());
    });
}

/// With this flag Mesa's drivers use no cache; other drivers have not been measured.
#[test]
fn internal_representations_are_the_drivers_own() {
    each("representations", json!({ "caches_statistics": false }), |driver, way, counters| {
        println!("representations on {}, {way}: the same answers; {counters:?}", driver.name());
        assert_eq!(counters["served"], 0, "{} {way}: {counters:?}", driver.name());
    });
}

/// The step: of pipelines with these flags, how many a cache's data gives under FAIL_ON, and how many of those answer
/// as compiled ones do.
fn offer(input: &Value) -> Value {
    let rig = Rig::open();
    if !rig.has(khr::pipeline_executable_properties::NAME) {
        return Value::Null;
    }
    let flags = Flags::from_raw(input.as_u64().unwrap() as u32);
    let fail_on = Flags::FAIL_ON_PIPELINE_COMPILE_REQUIRED;
    let (first, layout) = (rig.device.cache(&[]), rig.device.compute_layout());
    let infos: Vec<_> = (70..80)
        .map(|value| {
            let stage = rig.stage(vk::ShaderStageFlags::COMPUTE, &spirv::compute(value));
            vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout)
        })
        .collect();
    let make = |cache, info: &vk::ComputePipelineCreateInfo<'_>, flags| {
        // SAFETY: a valid create info.
        unsafe { rig.device.create_compute(cache, &[info.flags(flags)]) }.1[0]
    };
    let compiled: Vec<_> = infos.iter().map(|info| look(&rig, make(first, info, flags), flags)).collect();
    let second = rig.device.cache(&rig.device.cache_data(first));
    let mut taken: Vec<_> = infos
        .iter()
        .zip(&compiled)
        .map(|(info, compiled)| (look(&rig, make(second, info, flags | fail_on), flags), compiled))
        .collect();
    taken.retain(|(offered, _)| !offered.is_null());
    [first, second].into_iter().for_each(|cache| rig.device.destroy_cache(cache));
    json!([taken.len(), taken.iter().filter(|(offered, compiled)| offered == *compiled).count()])
}

/// Measures what src/state/process/policy.rs says of drivers. VKSTASH_TEST_DRIVER names another driver; --nocapture
/// prints the result.
#[test]
fn caches_of_captured_pipelines_behave_as_the_table_of_drivers_says() {
    scenario(&[("offer", offer)], |scenario| {
        let forgetful = json!({ "caches_statistics": false });
        for driver in [
            Driver::Radv,
            Driver::RadvOnShim,
            Driver::Test(json!({})),
            Driver::Test(forgetful.clone()),
            Driver::Machine,
        ] {
            let Some(env) = scenario.on(driver.clone()).map(Env::without_layer) else { continue };
            let measured = [STATISTICS, REPRESENTATIONS].map(|flags| {
                let of = scenario.run_ok::<Value>("offer", &env, &flags.as_raw()).value;
                println!("{}, {flags:?}: [taken, with equal answers] of 10: {of}", driver.name());
                of
            });
            let expected = match &driver {
                Driver::Machine => continue,
                Driver::Test(script) if *script == forgetful => [json!([10, 0]), json!([10, 0])],
                Driver::Test(_) => [json!([10, 10]), json!([10, 10])],
                _ => [json!([10, 10]), json!([0, 0])],
            };
            assert_eq!(measured, expected, "{}", driver.name());
        }
    });
}
