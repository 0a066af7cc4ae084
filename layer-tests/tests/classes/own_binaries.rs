//! A program's own use of pipeline binaries: the same with the layer as without it.

use std::ptr;

use ash::vk;
use serde_json::{Value, json};
use vkstash_layer_tests::child::scenario;
use vkstash_layer_tests::env::Driver;
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::vulkan::{Device, IDENTIFIER_EXTENSION, binaries, spirv};
use vkstash_layer_tests::work::UNKNOWN_STRUCTURE;

use super::rig::{Options, Rig, keep, keep_all};

type Info = vk::ComputePipelineCreateInfo<'static>;

fn chain(info: &Info) -> *const std::ffi::c_void {
    ptr::from_ref(info).cast()
}

/// `info` with an identifier in place of the code.
fn named(info: Info, identifier: &[u8]) -> Info {
    let bytes = keep_all(identifier.iter().copied());
    let node = vk::PipelineShaderStageModuleIdentifierCreateInfoEXT::default().identifier(bytes);
    let mut named = info;
    named.stage = named.stage.push_next(keep(node));
    named.stage.module = vk::ShaderModule::null();
    named.flags |= vk::PipelineCreateFlags::FAIL_ON_PIPELINE_COMPILE_REQUIRED;
    named
}

/// `info` with binaries in its chain, and nothing else there.
fn made_of(info: Info, made: &[u64]) -> Info {
    let mut from_data = info;
    from_data.p_next = ptr::from_ref(keep(binaries::Info::new(keep_all(made.iter().copied())))).cast();
    from_data
}

/// `info` behind a structure that nobody knows, which is the first reason to leave the pipeline to the driver.
fn behind_unknown(info: Info) -> Info {
    let s_type = vk::StructureType::from_raw(UNKNOWN_STRUCTURE);
    let mut behind = info;
    let unknown = vk::BaseInStructure { s_type, p_next: info.p_next.cast(), ..Default::default() };
    behind.p_next = ptr::from_ref(keep(unknown)).cast();
    behind
}

fn create(device: &Device, info: Info) -> (i32, vk::Pipeline) {
    // SAFETY: a valid create info.
    let (result, made) = unsafe { device.create_compute(vk::PipelineCache::null(), &[info]) };
    (result.as_raw(), made[0])
}

fn probe(device: &Device, info: &Info) -> Result<Vec<u64>, vk::Result> {
    // SAFETY: a valid create info.
    unsafe { binaries::probe(device, chain(info)) }
}

/// What comes of stages that identifiers name, one of them the code of `plain`, whose key and binaries are given.
fn identified(
    device: &Device,
    plain: Info,
    key: &(vk::Result, Vec<u8>),
    made: &[u64],
    internal: bool,
) -> Value {
    let identifier = device.identifier_of_code(&spirv::compute(3));
    let known = named(plain, &identifier);
    let unknown = named(plain, &[0x77; 32]);
    // SAFETY: valid create infos.
    let (by_name, by_nothing) = unsafe {
        (binaries::pipeline_key(device, chain(&known)), binaries::pipeline_key(device, chain(&unknown)))
    };
    let mut may_compile = known;
    may_compile.flags = vk::PipelineCreateFlags::empty();
    let by_binary = made_of(may_compile, made);
    let by_binary = [by_binary, behind_unknown(by_binary)].map(|info| create(device, info).0);
    let probed = internal.then(|| {
        [probe(device, &known), probe(device, &unknown)]
            .map(|found| found.map(|list| list.len()).map_err(vk::Result::as_raw))
    });
    json!({
        "same_key": by_name == *key,
        "unknown": by_nothing.0.as_raw(),
        "by_binary": by_binary,
        "probed": probed.map(|[known, unknown]| (known.is_ok(), unknown.err())),
    })
}

/// The step: keys, capture, data, creation from data, probes and release; null if the device lacks binaries.
fn own(input: &Value) -> Value {
    let no_internal_cache = input["no_internal_cache"] == true;
    let rig = Rig::with(Options { binaries: true, no_internal_cache, ..Options::default() });
    if !rig.has(binaries::NAME) {
        return Value::Null;
    }
    let device = &rig.device;
    let stage = rig.stage(vk::ShaderStageFlags::COMPUTE, &spirv::compute(3));
    let plain = Info::default().stage(stage).layout(device.compute_layout());
    let flags = vk::PipelineCreateFlags2CreateInfoKHR::default()
        .flags(vk::PipelineCreateFlags2KHR::from_raw(binaries::CAPTURE_DATA));
    let capturing = plain.push_next(keep(flags));
    // SAFETY: NULL, and valid create infos.
    let (global, key) = unsafe {
        (binaries::pipeline_key(device, ptr::null()), binaries::pipeline_key(device, chain(&plain)))
    };
    let (captured, pipeline) = create(device, capturing);
    let made = binaries::captured(device, pipeline).unwrap();
    let listed = binaries::contents(device, &made);
    let (_, _, _, size) = binaries::data(device, made[0], None);
    let (short, _, _, told) = binaries::data(device, made[0], Some(size - 1));
    let released = binaries::release(device, pipeline);
    let again = binaries::all_stored(device, &listed).unwrap();
    // Beside binaries, code and identifiers are ignored.
    let mut without_code = plain;
    without_code.stage.module = vk::ShaderModule::null();
    let by_data = made_of(without_code, &again);
    let by_data = [by_data, behind_unknown(by_data)].map(|info| create(device, info).0);
    let internal = binaries::Properties::of(device).internal_cache != 0 && !no_internal_cache;
    let probed = internal.then(|| probe(device, &plain).map(|found| found.len()).map_err(vk::Result::as_raw));
    let has_identifiers = rig.has(IDENTIFIER_EXTENSION);
    let identified = has_identifiers.then(|| identified(device, plain, &key, &again, internal));
    made.iter().chain(&again).for_each(|&binary| binaries::destroy(device, binary));
    json!({
        "global": [json!(global.0.as_raw()), json!(global.1)],
        "key": [json!(key.0.as_raw()), json!(key.1)],
        "captured": captured,
        "listed": listed.iter().map(|(key, data)| (key.len(), data.len())).collect::<Vec<_>>(),
        "short": [json!(short.as_raw()), json!(told == size)],
        "released": released.as_raw(),
        "by_data": by_data,
        "probed": format!("{probed:?}"),
        "identified": identified,
    })
}

#[test]
fn the_programs_own_binaries_work_as_without_the_layer() {
    scenario(&[("own", own)], |scenario| {
        let test =
            Driver::Test(json!({ "pipeline_binary": true, "api_version": "1.4", "identifiers": true }));
        for driver in [Driver::Radv, test, Driver::Machine] {
            for mode in ["auto", "emulate"] {
                let Some(env) = scenario.on(driver.clone()) else { continue };
                let stash = scenario.folder().join(format!("stash {} {mode}", driver.name()));
                let env = env.stash(stash).var("VKSTASH_IDENTIFIERS", mode);
                for input in [json!({}), json!({ "no_internal_cache": true })] {
                    let without = scenario.run_ok::<Value>("own", &env.clone().without_layer(), &input).value;
                    if without.is_null() {
                        assert_eq!(driver, Driver::Machine, "the others have all of it");
                        continue;
                    }
                    for _ in 0..2 {
                        let with = scenario.run_ok::<Value>("own", &env, &input).value;
                        let what = format!("{} {mode} {input}", driver.name());
                        for name in
                            ["global", "key", "captured", "listed", "short", "released", "by_data", "probed"]
                        {
                            if mode == "emulate" && name == "global" {
                                // The driver is not asked for identifiers: another device, another key.
                                continue;
                            }
                            // The lengths of NVIDIA's binaries of one pipeline differ by a byte from run to run.
                            if driver != Driver::Machine || name != "listed" {
                                assert_eq!(with[name], without[name], "{what}: {name}");
                            }
                        }
                        let identified = &with["identified"];
                        if !identified.is_null() && mode == "emulate" {
                            assert_eq!(identified["same_key"], true, "{what}: {identified}");
                            assert_eq!(identified["by_binary"], json!([0, 0]), "{what}: {identified}");
                            assert_ne!(identified["unknown"], 0, "{what}: {identified}");
                        } else {
                            assert_eq!(*identified, without["identified"], "{what}");
                        }
                    }
                }
            }
        }
    });
}

/// The step: results for an identifier whose code the stash has, and for one that nobody issued. On the test driver
/// also how many of the calls it got.
fn without_code(_: &Value) -> Value {
    let rig = Rig::with(Options { binaries: true, ..Options::default() });
    let device = &rig.device;
    let stage = rig.stage(vk::ShaderStageFlags::COMPUTE, &spirv::compute(3));
    let plain = Info::default().stage(stage).layout(device.compute_layout());
    let known = named(plain, &device.identifier_of_code(&spirv::compute(3)));
    let unknown = named(plain, &[0x77; 32]);
    let driver = std::env::var_os("VKSTASH_TEST_ICD").map(|_| TestDriver::open());
    let results = [known, unknown].map(|info| {
        driver.iter().for_each(|driver| _ = driver.take_record());
        // SAFETY: a valid create info.
        let (key, _) = unsafe { binaries::pipeline_key(device, chain(&info)) };
        let probed = probe(device, &info).map_or_else(vk::Result::as_raw, |made| {
            made.iter().for_each(|&binary| binaries::destroy(device, binary));
            0
        });
        let asked = driver.as_ref().map(|driver| {
            let record = driver.take_record();
            assert_eq!(record["violations"], json!([]));
            let names = ["vkGetPipelineKeyKHR", "vkCreatePipelineBinariesKHR"];
            let is_asked = |call: &&Value| names.iter().any(|name| call["command"] == *name);
            record["calls"].as_array().unwrap().iter().filter(is_asked).count()
        });
        (key.as_raw(), probed, asked)
    });
    json!(results)
}

/// A driver that has identifiers takes the layer's for one of its own, and gives a key that no module will have.
#[test]
fn an_emulated_identifier_without_code_has_no_key_and_no_binaries() {
    /// VK_PIPELINE_BINARY_MISSING_KHR.
    const MISSING: i32 = 1_000_483_000;
    scenario(&[("without code", without_code)], |scenario| {
        let test =
            json!({ "pipeline_binary": true, "api_version": "1.4", "disk_cache": true, "identifiers": true });
        for driver in [Driver::Test(test), Driver::Radv] {
            let Some(env) = scenario.on(driver) else { continue };
            let env = env.var("VKSTASH_IDENTIFIERS", "emulate");
            let results: [(i32, i32, Option<u64>); 2] = scenario.run_ok("without code", &env, &()).value;
            let [known, unknown] = results;
            assert_eq!(known.0, 0, "{}: {results:?}", env.driver().name());
            let refused = (vk::Result::ERROR_UNKNOWN.as_raw(), MISSING);
            assert_eq!((unknown.0, unknown.1), refused, "{}: {results:?}", env.driver().name());
            if let (Some(of_known), Some(of_unknown)) = (known.2, unknown.2) {
                assert!(of_known >= 2 && of_unknown == 0, "{results:?}");
            }
        }
    });
}
