//! Shader objects: served from the stash from the second run on, linked ones together or not at all.

use std::fs;
use std::process::Command;

use ash::vk;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use vkstash_layer_tests::child::{Run, Scenario, Step, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::paths;
use vkstash_layer_tests::suite::device_segments;
use vkstash_layer_tests::vulkan::shader_objects::{self, Code, Shader};
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions, spirv};
use vkstash_layer_tests::work::UNKNOWN_STRUCTURE;

const STEPS: &[(&str, Step)] = &[("shaders", shaders)];

/// What a program creates: each call is one element.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Program {
    /// Compute shaders, each in a call of its own.
    compute: Vec<u32>,
    /// Compute shaders in one call.
    together: Vec<u32>,
    /// Vertex and fragment shaders that are linked, in one call for each pair.
    linked: Vec<u32>,
    /// With a compute shader between the two.
    mixed: bool,
    /// The value of a specialization constant.
    constant: Option<u32>,
    /// Every shader is made once more, of the binary that the driver has given out.
    again: bool,
    /// The sType of a structure in the device's chain that the device header does not cover.
    unhashed: Option<i32>,
}

/// What it got: for each shader the digest of its binary.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Created {
    binaries: Vec<String>,
}

fn compute(number: u32, constant: Option<u32>) -> Shader {
    let code = Code::Spirv(spirv::compute(number));
    let (stage, next) = (vk::ShaderStageFlags::COMPUTE, vk::ShaderStageFlags::empty());
    Shader { stage, next, linked: false, code, constant }
}

fn linked(number: u32) -> [Shader; 2] {
    let fragment = vk::ShaderStageFlags::FRAGMENT;
    let shader =
        |stage, next, words| Shader { stage, next, linked: true, code: Code::Spirv(words), constant: None };
    [
        // In another order than that of the stages.
        shader(fragment, vk::ShaderStageFlags::empty(), spirv::fragment(number as f32)),
        shader(vk::ShaderStageFlags::VERTEX, fragment, spirv::vertex(number as f32)),
    ]
}

impl Program {
    /// The calls.
    fn calls(&self) -> Vec<Vec<Shader>> {
        let mut calls: Vec<Vec<Shader>> =
            self.compute.iter().map(|number| vec![compute(*number, self.constant)]).collect();
        if !self.together.is_empty() {
            calls.push(self.together.iter().map(|number| compute(*number, self.constant)).collect());
        }
        for &number in &self.linked {
            let [fragment, vertex] = linked(number);
            let between = self.mixed.then(|| compute(1000 + number, self.constant));
            calls.push([fragment].into_iter().chain(between).chain([vertex]).collect());
        }
        calls
    }

    fn count(&self) -> u64 {
        self.calls().iter().map(|call| call.len() as u64).sum()
    }
}

/// Whether the driver has the extension: null, or what was made.
fn shaders(input: &Value) -> Value {
    let program: Program = serde_json::from_value(input.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let mut options = shader_objects::device_options();
    let unhashed = program.unhashed.map(|s_type| (vk::StructureType::from_raw(s_type), vec![true]));
    options.switches.extend(unhashed);
    let Ok(device) = Device::new(&instance, &options) else { return Value::Null };
    let binding = [vk::DescriptorSetLayoutBinding::default()
        .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
        .descriptor_count(1)
        .stage_flags(vk::ShaderStageFlags::COMPUTE)];
    let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&binding);
    let mut made = Created::default();
    // SAFETY: a live device with the extension; each object is destroyed once, when nothing uses it any more.
    unsafe {
        let set = device.raw.create_descriptor_set_layout(&info, None).unwrap();
        let sets = [set];
        for call in program.calls() {
            let (result, objects) = shader_objects::create(&device, &sets, &call);
            assert_eq!(result, vk::Result::SUCCESS);
            let binaries: Vec<_> = objects.iter().map(|o| shader_objects::binary(&device, *o)).collect();
            made.binaries.extend(binaries.iter().map(|b| format!("{:x?}", Sha256::digest(b.bytes()))));
            shader_objects::destroy(&device, &objects);
            if program.again {
                let call: Vec<_> = call
                    .into_iter()
                    .zip(binaries)
                    .map(|(shader, binary)| Shader { code: Code::Binary(binary), ..shader })
                    .collect();
                let (result, objects) = shader_objects::create(&device, &sets, &call);
                assert_eq!(result, vk::Result::SUCCESS);
                shader_objects::destroy(&device, &objects);
            }
        }
        device.raw.destroy_descriptor_set_layout(set, None);
    }
    serde_json::to_value(made).unwrap()
}

const DRIVERS: [Driver; 3] = [Driver::Radv, Driver::RadvOnShim, Driver::Lavapipe];

fn on_each_driver(test: impl Fn(&Scenario, &Env)) {
    scenario(STEPS, |scenario| {
        let mut tested = 0;
        for driver in DRIVERS {
            let Some(env) = scenario.on(driver.clone()) else { continue };
            let env = env.stash(scenario.folder().join(driver.name()));
            if scenario.run_ok::<Value>("shaders", &env, &Program::default()).value.is_null() {
                eprintln!("{} has no shader objects", driver.name());
                continue;
            }
            test(scenario, &env);
            tested += 1;
        }
        if tested == 0 {
            scenario.skip("no driver has VK_EXT_shader_object");
        }
    });
}

fn run(scenario: &Scenario, env: &Env, program: &Program) -> Run<Created> {
    scenario.run_ok("shaders", env, program)
}

fn numbers(run: &Run<Created>) -> [u64; 5] {
    ["shaders_served", "shaders_compiled", "shaders_recorded", "shaders_not_taken", "shaders_passed_on"]
        .map(|name| run.reports.sum(name))
}

fn program() -> Program {
    let (compute, together, linked) = (vec![1, 2], vec![3, 4, 5], vec![6, 7]);
    Program { compute, together, linked, mixed: true, ..Program::default() }
}

#[test]
fn shader_objects_are_made_of_their_binaries_from_the_second_run_on() {
    on_each_driver(|scenario, env| {
        let without = run(scenario, &env.clone().without_layer(), &program()).value;
        let count = program().count();
        let first = run(scenario, env, &program());
        assert_eq!(numbers(&first), [0, count, count, 0, 0], "{:?}", first.reports);
        let second = run(scenario, env, &program());
        assert_eq!(numbers(&second), [count, 0, 0, 0, 0], "{:?}", second.reports);
        assert_eq!([&first.value, &second.value], [&without; 2], "the driver's binaries of what was made");
    });
}

/// What is specialized, linked or laid out otherwise is another shader.
#[test]
fn other_constants_and_the_same_shaders_unlinked_are_compiled() {
    on_each_driver(|scenario, env| {
        let first = Program { compute: vec![1], ..Program::default() };
        assert_eq!(numbers(&run(scenario, env, &first))[1], 1);
        let other = Program { constant: Some(4), ..first.clone() };
        assert_eq!(numbers(&run(scenario, env, &other)), [0, 1, 1, 0, 0]);
        for program in [&first, &other] {
            assert_eq!(numbers(&run(scenario, env, program)), [1, 0, 0, 0, 0]);
        }
    });
}

/// What a program makes of binaries of its own goes to the driver, which gives out the same binaries with the layer.
#[test]
fn a_programs_own_binaries_are_left_to_the_driver() {
    on_each_driver(|scenario, env| {
        let program = Program { again: true, ..program() };
        let count = program.count();
        let without = run(scenario, &env.clone().without_layer(), &program).value;
        let first = run(scenario, env, &program);
        assert_eq!(numbers(&first), [0, count, count, 0, count], "{:?}", first.reports);
        let second = run(scenario, env, &program);
        assert_eq!(numbers(&second), [count, 0, 0, 0, count], "{:?}", second.reports);
        assert_eq!([&first.value, &second.value], [&without; 2]);
    });
}

/// A driver does not check its binaries against what its device was created with.
#[test]
fn a_device_with_a_structure_that_no_digest_covers_gets_no_binaries() {
    on_each_driver(|scenario, env| {
        let without = run(scenario, &env.clone().without_layer(), &program()).value;
        let private_data = vk::StructureType::DEVICE_PRIVATE_DATA_CREATE_INFO.as_raw();
        for s_type in [UNKNOWN_STRUCTURE, private_data] {
            let program = Program { unhashed: Some(s_type), ..program() };
            for _ in 0..2 {
                let seen = run(scenario, env, &program);
                assert_eq!(numbers(&seen), [0; 5], "{s_type}: {:?}", seen.reports);
                assert_eq!(seen.value, without, "{s_type}");
            }
        }
    });
}

/// As after an update of the driver: what is portable is left, and `vkstash prewarm` makes the binaries of it.
#[test]
fn what_a_driver_has_not_made_yet_is_prewarmed_from_recipes() {
    on_each_driver(|scenario, env| {
        let env = &env.clone().var("VKSTASH_LIBRARY", paths::layer_library().to_str().unwrap());
        // RADV's binary of a compute shader is another one if its call has linked shaders, too.
        let program = Program { mixed: false, ..program() };
        let first = run(scenario, env, &program);
        for segment in device_segments(&env.stash_folder()) {
            fs::remove_file(segment).unwrap();
        }
        let mut tool = Command::new(paths::profile_folder().join("vkstash"));
        env.apply(&mut tool);
        let output = tool.args(["prewarm", "--all", "--json"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        // Five single shaders, and two pairs.
        let made = ["made", "checked"].map(|name| report[name].as_u64().unwrap());
        assert_eq!((made, output.status.success()), ([7, 7], true), "{report:#}{said}");
        let again = run(scenario, env, &program);
        assert_eq!(numbers(&again), [program.count(), 0, 0, 0, 0], "{:?}", again.reports);
        assert_eq!(again.value, first.value);
    });
}

/// RADV checks a binary against its UUID alone, in which ACO_DEBUG and most of the options of driconf are not.
#[test]
fn what_a_driver_has_compiled_with_other_options_is_not_served() {
    on_each_driver(|scenario, env| {
        let (program, count) = (program(), program().count());
        let expect = |env: &Env, served: bool, what: &str| {
            let seen = run(scenario, env, &program);
            let numbers = numbers(&seen);
            assert_eq!(numbers, if served { [count, 0, 0, 0, 0] } else { [0, count, count, 0, 0] }, "{what}");
            assert_eq!(seen.value, run(scenario, &env.clone().without_layer(), &program).value, "{what}");
        };
        let option = env.clone().var("ACO_DEBUG", "noopt");
        for (env, served, what) in [
            (&option, false, "with an option"),
            (&option, true, "with it again"),
            (env, false, "without it"),
            (env, true, "without it again"),
            (&env.clone().var("MESA_VK_WSI_PRESENT_MODE", "fifo"), true, "with one about windows"),
        ] {
            expect(env, served, what);
        }
        let file = env.home().join(".drirc");
        let text = "<driconf><device><application name='all'>\
            <option name='radv_disable_trunc_coord' value='true'/></application></device></driconf>";
        fs::write(&file, text).unwrap();
        expect(env, false, "with a file");
        expect(env, true, "with it again");
        fs::remove_file(file).unwrap();
        expect(env, false, "without the file");
    });
}

/// `vkstash run` sets variables of drivers, too, which say nothing about code.
#[test]
fn what_was_recorded_under_the_tool_is_served_without_it() {
    on_each_driver(|scenario, env| {
        let mut tool = Command::new(paths::profile_folder().join("vkstash"));
        env.clone().without_layer().apply(&mut tool);
        tool.env("VKSTASH_LIBRARY", paths::layer_library()).args(["run", "--quiet", "--dir"]);
        tool.arg(env.stash_folder()).arg("--").arg(std::env::current_exe().unwrap());
        let output = scenario.as_step(&mut tool, "shaders", &program()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let again = run(scenario, env, &program());
        assert_eq!(numbers(&again), [program().count(), 0, 0, 0, 0], "{:?}", again.reports);
    });
}
