//! Shader objects on a driver that refuses binaries, fails with them, dies of them or gives out strange ones, and with
//! a stash whose binaries are wrong: the program gets what it gets without the layer.

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use ash::vk;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use vkstash_layer_tests::child::{Run, Scenario, Step, scenario};
use vkstash_layer_tests::env::{Driver, Env};
use vkstash_layer_tests::suite::{device_segments, rewrite_artifacts};
use vkstash_layer_tests::test_driver::TestDriver;
use vkstash_layer_tests::vulkan::shader_objects::{self, Binary, Code, Shader};
use vkstash_layer_tests::vulkan::{Device, Instance, InstanceOptions, allocator, spirv};
use vkstash_model::budgets::SHADER_BINARIES;
use vkstash_model::failed::Refusals;
use vkstash_model::payload::{self, StoredShaders, shaders_payload};

const STEPS: &[(&str, Step)] = &[("shaders", shaders)];
const NO_MEMORY: i32 = vk::Result::ERROR_OUT_OF_HOST_MEMORY.as_raw();
const UNKNOWN: i32 = vk::Result::ERROR_UNKNOWN.as_raw();
const INCOMPATIBLE: i32 = vk::Result::INCOMPATIBLE_SHADER_BINARY_EXT.as_raw();

/// What a call asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Part {
    /// A compute shader.
    Compute(u32),
    /// A vertex and a fragment shader that are linked.
    Linked(u32),
    /// A compute shader of the binary that the driver has given out for another one, or of a damaged one.
    Own { number: u32, damaged: bool },
}

/// What a program does. Its shaders live until its end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Program {
    calls: Vec<Vec<Part>>,
    /// Allocation callbacks of its own.
    allocator: bool,
}

/// What a program gets of a call: its result, and for each shader null, or the digest of the binary that the driver
/// gives out, or what it says instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Answer {
    result: i32,
    shaders: Vec<Option<Result<String, i32>>>,
}

/// What a program gets, and what its driver has met.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Seen {
    answers: Vec<Answer>,
    /// Of each vkCreateShadersEXT: which shaders were made of binaries.
    of_binaries: Vec<Vec<bool>>,
    /// Their results.
    results: Vec<i32>,
}

fn compute(code: Code) -> Shader {
    let (stage, next) = (vk::ShaderStageFlags::COMPUTE, vk::ShaderStageFlags::empty());
    Shader { stage, next, linked: false, code, constant: None }
}

/// The shaders of a part. `given`: the binaries of the compute shaders so far.
fn shaders_of(part: &Part, given: &[(u32, Binary)]) -> Vec<Shader> {
    match *part {
        Part::Compute(number) => vec![compute(Code::Spirv(spirv::compute(number)))],
        Part::Linked(number) => {
            let fragment = vk::ShaderStageFlags::FRAGMENT;
            let shader = |stage, next, words| Shader {
                stage,
                next,
                linked: true,
                code: Code::Spirv(words),
                constant: None,
            };
            let vertex = shader(vk::ShaderStageFlags::VERTEX, fragment, spirv::vertex(number as f32));
            let none = vk::ShaderStageFlags::empty();
            vec![vertex, shader(fragment, none, spirv::fragment(number as f32))]
        }
        Part::Own { number, damaged } => {
            let (_, binary) = given.iter().find(|(of, _)| *of == number).expect("it was made before");
            let mut bytes = binary.bytes();
            bytes[100] ^= u8::from(damaged);
            vec![compute(Code::Binary(Binary::of(&bytes)))]
        }
    }
}

fn shaders(input: &Value) -> Value {
    let program: Program = serde_json::from_value(input.clone()).unwrap();
    let instance = Instance::new(&InstanceOptions::default()).unwrap();
    let device = Device::new(&instance, &shader_objects::device_options()).unwrap();
    let driver = TestDriver::open();
    let callbacks = allocator::of_malloc();
    let allocator = program.allocator.then_some(&callbacks);
    let (mut answers, mut live, mut given) = (Vec::new(), Vec::new(), Vec::new());
    for call in &program.calls {
        let wanted: Vec<Shader> = call.iter().flat_map(|part| shaders_of(part, &given)).collect();
        // SAFETY: a live device with the extension; only shaders that were made are asked.
        let (result, made) = unsafe { shader_objects::create_with(&device, &[], &wanted, allocator) };
        // SAFETY: a live shader of this device.
        let binary = |shader: vk::ShaderEXT| unsafe { shader_objects::try_binary(&device, shader) };
        let digest = |binary: &Binary| {
            let bytes = binary.bytes();
            // What stands behind is zeros.
            format!("{}: {:x?}", bytes.len(), Sha256::digest(&bytes[..bytes.len().min(4096)]))
        };
        let binaries: Vec<_> =
            made.iter().map(|s| (*s != vk::ShaderEXT::null()).then(|| binary(*s))).collect();
        if let ([Part::Compute(number)], [Some(Ok(binary))]) = (&call[..], &binaries[..]) {
            given.push((*number, binary.clone()));
        }
        let of = |given: &Option<Result<Binary, vk::Result>>| {
            given.as_ref().map(|given| given.as_ref().map(digest).map_err(|error| error.as_raw()))
        };
        answers.push(Answer { result: result.as_raw(), shaders: binaries.iter().map(of).collect() });
        live.extend(made.into_iter().filter(|shader| *shader != vk::ShaderEXT::null()));
    }
    assert_eq!(live.iter().collect::<HashSet<_>>().len(), live.len(), "each shader has a handle of its own");
    // SAFETY: live shaders of this device, each destroyed once, with the allocator of its creation.
    unsafe { shader_objects::destroy_with(&device, &live, allocator) };
    drop(device);
    let record = driver.take_record();
    drop(instance);
    assert_eq!(record["violations"], json!([]), "{record}");
    let calls = record["calls"].as_array().unwrap().iter();
    let creations: Vec<_> = calls.filter(|call| call["command"] == "vkCreateShadersEXT").collect();
    let hits = |call: &&Value| serde_json::from_value(call["hit"].clone()).unwrap_or_default();
    let results = creations.iter().map(|call| call["result"].as_i64().unwrap() as i32).collect();
    let of_binaries = creations.iter().map(hits).collect();
    serde_json::to_value(Seen { answers, of_binaries, results }).unwrap()
}

/// A driver with the extension, which follows this script.
fn driver(script: &Value) -> Driver {
    let mut script = script.clone();
    script["shader_object"] = json!(true);
    Driver::Test(script)
}

/// A test of which every run has its driver.
fn on_drivers(test: impl FnOnce(&dyn Fn(&Value) -> Env, &Scenario)) {
    scenario(STEPS, |scenario| {
        if scenario.on(driver(&json!({}))).is_some() {
            test(&|script| scenario.on(driver(script)).unwrap(), scenario);
        }
    });
}

/// A run with the layer, whose program must have got what it gets without.
fn run(scenario: &Scenario, env: &Env, program: &Program) -> Run<Seen> {
    let without: Run<Seen> = scenario.run_ok("shaders", &env.clone().without_layer(), program);
    let with: Run<Seen> = scenario.run_ok("shaders", env, program);
    assert_eq!(with.value.answers, without.value.answers, "{:?} {}", with.reports, with.stderr);
    with
}

/// Served, compiled, recorded, not taken, passed on.
fn numbers(run: &Run<Seen>) -> [u64; 5] {
    ["shaders_served", "shaders_compiled", "shaders_recorded", "shaders_not_taken", "shaders_passed_on"]
        .map(|name| run.reports.sum(name))
}

#[track_caller]
fn expect(scenario: &Scenario, env: &Env, program: &Program, expected: [u64; 5]) -> Run<Seen> {
    let run = run(scenario, env, program);
    assert_eq!(numbers(&run), expected, "{:?} {}", run.reports.counters(), run.stderr);
    run
}

/// Eight shaders: four that are alone, and two pairs.
fn program() -> Program {
    use Part::{Compute, Linked};
    let calls =
        vec![vec![Compute(1)], vec![Compute(2), Compute(3)], vec![Linked(4)], vec![Linked(5), Compute(6)]];
    Program { calls, allocator: false }
}

fn fault(more: Value) -> Value {
    let mut fault = more;
    fault["command"] = json!("vkCreateShadersEXT");
    json!({ "faults": [fault] })
}

/// The payload with these binaries.
fn with_binaries(payload: &[u8], binaries: &[&[u8]]) -> Vec<u8> {
    let stored = StoredShaders::parse(payload).unwrap();
    shaders_payload(stored.cost, Refusals::of(payload), &stored.made_by, binaries).unwrap()
}

fn is_linked(payload: &[u8]) -> bool {
    StoredShaders::parse(payload).unwrap().binaries.len() == 2
}

#[test]
fn the_second_run_gets_other_handles_and_the_same_shaders() {
    on_drivers(|on, scenario| {
        let env = on(&json!({}));
        let first = expect(scenario, &env, &program(), [0, 8, 8, 0, 0]);
        assert_eq!(first.value.of_binaries.concat(), [false; 8]);
        let second = expect(scenario, &env, &program(), [8, 0, 0, 0, 0]);
        assert_eq!(second.value.of_binaries.concat(), [true; 8]);
    });
}

/// A call of which the stash has one part, and not the other.
#[test]
fn a_call_is_made_of_binaries_where_there_are_some_and_of_code_for_the_rest() {
    on_drivers(|on, scenario| {
        let env = on(&json!({}));
        let of = |calls| Program { calls, allocator: false };
        expect(scenario, &env, &of(vec![vec![Part::Compute(1)], vec![Part::Linked(5)]]), [0, 3, 3, 0, 0]);
        let mixed = of(vec![vec![Part::Compute(2), Part::Linked(5), Part::Compute(1), Part::Compute(3)]]);
        expect(scenario, &env, &mixed, [3, 2, 2, 0, 0]);
        expect(scenario, &env, &mixed, [5, 0, 0, 0, 0]);
    });
}

#[test]
fn the_allocator_of_a_program_reaches_the_driver_with_every_shader() {
    on_drivers(|on, scenario| {
        let env = on(&json!({}));
        let with = Program { allocator: true, ..program() };
        for expected in [[0, 8, 8, 0, 0], [8, 0, 0, 0, 0]] {
            expect(scenario, &env, &with, expected);
        }
        // What is destroyed by the layer, too: of a pair one is made.
        let half = on(&fault(json!({ "code": "binary", "shader": 1, "result": INCOMPATIBLE })));
        expect(scenario, &half, &with, [4, 4, 4, 4, 0]);
    });
}

#[test]
fn binaries_of_a_higher_version_or_another_driver_are_not_offered() {
    on_drivers(|on, scenario| {
        let of = |script: Value, stash: &str| on(&script).stash(scenario.folder().join(stash));
        let (new, old) = (json!({ "shader_binary_version": 7 }), json!({ "shader_binary_version": 6 }));
        let other = json!({ "shader_binary_uuid": "0123456789abcdef0123456789abcdef" });
        let first = [0, 8, 8, 0, 0];
        expect(scenario, &of(new.clone(), "version"), &program(), first);
        let back = expect(scenario, &of(old.clone(), "version"), &program(), first);
        assert_eq!(back.value.results, [0; 4], "four calls, as the program made them");
        // What the older one has made is good for both.
        for script in [old, new] {
            expect(scenario, &of(script, "version"), &program(), [8, 0, 0, 0, 0]);
        }
        expect(scenario, &of(json!({}), "uuid"), &program(), first);
        for expected in [first, [8, 0, 0, 0, 0]] {
            let run = expect(scenario, &of(other.clone(), "uuid"), &program(), expected);
            assert!(run.value.results.iter().all(|result| *result == 0), "{:?}", run.value);
        }
    });
}

/// The specification has binaries outlive an update of the driver that keeps their UUID and does not lower the version.
#[test]
fn binaries_outlive_an_update_of_the_driver() {
    on_drivers(|on, scenario| {
        let with = |mut script: Value, driver_version: u32, stash: &str| {
            script["driver_version"] = json!(driver_version);
            on(&script).stash(scenario.folder().join(stash))
        };
        let old = json!({ "shader_binary_version": 6 });
        let (first, served) = ([0, 8, 8, 0, 0], [8, 0, 0, 0, 0]);
        let taken = |env: &Env| run(scenario, env, &program()).reports.sum("shaders_other_version");
        let cases = [
            ("same", json!({ "shader_binary_version": 6 }), served),
            ("higher", json!({ "shader_binary_version": 7 }), served),
            ("lower", json!({ "shader_binary_version": 5 }), first),
            ("other", json!({ "shader_binary_uuid": "0123456789abcdef0123456789abcdef" }), first),
        ];
        for (name, script, expected) in cases {
            expect(scenario, &with(old.clone(), 1, name), &program(), first);
            let new = with(script, 2, name);
            let other = expect(scenario, &new, &program(), expected).reports.sum("shaders_other_version");
            assert_eq!(other, expected[0], "{name}");
            // They are the new driver's own from then on.
            expect(scenario, &new, &program(), served);
            assert_eq!(taken(&new), 0, "{name}");
        }
        // A driver that does not keep its promise.
        expect(scenario, &with(old.clone(), 1, "refused"), &program(), first);
        let mut refuses = fault(json!({ "code": "binary", "result": INCOMPATIBLE }));
        refuses["shader_binary_version"] = json!(6);
        expect(scenario, &with(refuses, 2, "refused"), &program(), [0, 8, 8, 8, 0]);
        expect(scenario, &with(old, 2, "refused"), &program(), served);
    });
}

/// Whatever a stash has under a key, with a right checksum.
#[test]
fn payloads_that_are_none_are_not_offered_and_damaged_binaries_are_refused() {
    on_drivers(|on, scenario| {
        type Change = fn(&[u8]) -> Vec<u8>;
        let cut_off = |payload: &[u8]| payload[..payload.len() - 1].to_vec();
        let one_missing = |payload: &[u8]| {
            let binaries = StoredShaders::parse(payload).unwrap().binaries;
            with_binaries(payload, &binaries[1..])
        };
        let one_more = |payload: &[u8]| {
            let binaries = StoredShaders::parse(payload).unwrap().binaries;
            with_binaries(payload, &[&binaries[..], &binaries[..1]].concat())
        };
        let empty = |payload: &[u8]| {
            let count = StoredShaders::parse(payload).unwrap().binaries.len();
            with_binaries(payload, &vec![&[][..]; count])
        };
        let nothing = |payload: &[u8]| payload[..payload::PREFIX].to_vec();
        let too_short = |payload: &[u8]| payload[..3].to_vec();
        let another_form = |payload: &[u8]| [&payload[..4], &[2], &payload[5..]].concat();
        let flipped = |payload: &[u8]| {
            let mut payload = payload.to_vec();
            *payload.last_mut().unwrap() ^= 1;
            payload
        };
        let shorter_binary = |payload: &[u8]| {
            let binaries = StoredShaders::parse(payload).unwrap().binaries;
            let cut: Vec<&[u8]> = binaries.iter().map(|binary| &binary[..binary.len() / 2]).collect();
            with_binaries(payload, &cut)
        };
        let cases: [(&str, Change, bool); 9] = [
            ("cut off", cut_off, false),
            ("one missing", one_missing, false),
            ("one more", one_more, false),
            ("empty", empty, false),
            ("nothing", nothing, false),
            ("too short", too_short, false),
            ("another form", another_form, false),
            ("flipped", flipped, true),
            ("shorter binary", shorter_binary, true),
        ];
        for (name, change, is_offered) in cases {
            let env = on(&json!({})).stash(scenario.folder().join(name));
            expect(scenario, &env, &program(), [0, 8, 8, 0, 0]);
            rewrite_artifacts(&env, |found| {
                found.iter_mut().for_each(|(_, payload)| *payload = change(payload))
            });
            let again = run(scenario, &env, &program());
            let not_taken = if is_offered { 8 } else { 0 };
            assert_eq!(numbers(&again), [0, 8, 8, not_taken, 0], "{name}: {:?}", again.reports.counters());
            let refused = again.value.results.iter().filter(|result| **result == INCOMPATIBLE).count();
            assert_eq!(refused, if is_offered { 6 } else { 0 }, "{name}: {:?}", again.value);
            expect(scenario, &env, &program(), [8, 0, 0, 0, 0]);
        }
    });
}

#[test]
fn a_flipped_bit_in_the_file_costs_one_record() {
    on_drivers(|on, scenario| {
        let env = on(&json!({}));
        expect(scenario, &env, &program(), [0, 8, 8, 0, 0]);
        let [path] = &device_segments(&env.stash_folder())[..] else { panic!("one segment") };
        let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let (at, mut byte) = (128 + 64 + 100, [0]);
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
        // The first record is of the first shader.
        let again = expect(scenario, &env, &program(), [7, 1, 1, 0, 0]);
        assert_eq!(again.reports.store().damaged_records, 1);
        expect(scenario, &env, &program(), [8, 0, 0, 0, 0]);
    });
}

/// The vertex shader of one pair, and the fragment shader of another one; a pair's binary for a shader that is alone.
#[test]
fn binaries_that_were_not_linked_together_are_refused_together() {
    on_drivers(|on, scenario| {
        let env = on(&json!({}));
        expect(scenario, &env, &program(), [0, 8, 8, 0, 0]);
        rewrite_artifacts(&env, |found| {
            let pairs: Vec<usize> = (0..found.len()).filter(|&at| is_linked(&found[at].1)).collect();
            let [one, other] = pairs[..] else { panic!("two pairs") };
            let (first, second) = (found[one].1.clone(), found[other].1.clone());
            let of =
                |payload: &'_ [u8], at: usize| StoredShaders::parse(payload).unwrap().binaries[at].to_vec();
            found[one].1 = with_binaries(&first, &[&of(&first, 0), &of(&second, 1)]);
            found[other].1 = with_binaries(&second, &[&of(&second, 0), &of(&first, 1)]);
        });
        expect(scenario, &env, &program(), [4, 4, 4, 4, 0]);
        expect(scenario, &env, &program(), [8, 0, 0, 0, 0]);
        // Under the key of a shader that is alone stands one of a pair.
        rewrite_artifacts(&env, |found| {
            let pair = found.iter().find(|(_, payload)| is_linked(payload)).unwrap().1.clone();
            let vertex = StoredShaders::parse(&pair).unwrap().binaries[0].to_vec();
            for (_, payload) in found.iter_mut().filter(|(_, payload)| !is_linked(payload)) {
                *payload = with_binaries(payload, &[&vertex]);
            }
        });
        expect(scenario, &env, &program(), [4, 4, 4, 4, 0]);
        expect(scenario, &env, &program(), [8, 0, 0, 0, 0]);
    });
}

/// As with pipelines: three times, and then neither offered nor recorded.
#[test]
fn binaries_that_a_driver_never_takes_are_offered_three_times() {
    on_drivers(|on, scenario| {
        for result in [INCOMPATIBLE, UNKNOWN] {
            let stash = scenario.folder().join(format!("stash {result}"));
            let env = on(&fault(json!({ "code": "binary", "result": result }))).stash(&stash);
            expect(scenario, &env, &program(), [0, 8, 8, 0, 0]);
            for time in 1..=u64::from(Refusals::LIMIT.0) {
                let recorded = run(scenario, &env, &program());
                assert_eq!(numbers(&recorded), [0, 8, 8, 8, 0], "{time}: {:?}", recorded.reports);
            }
            for _ in 0..2 {
                let left = expect(scenario, &env, &program(), [0, 8, 0, 0, 0]);
                assert_eq!(left.value.results, [0; 4], "four calls, as the program made them");
            }
            // What another driver has refused is no reason to leave this one's alone.
            let other = json!({ "shader_binary_uuid": "0123456789abcdef0123456789abcdef" });
            for expected in [[0, 8, 8, 0, 0], [8, 0, 0, 0, 0]] {
                expect(scenario, &on(&other).stash(&stash), &program(), expected);
            }
        }
    });
}

/// The others of the call are served.
#[test]
fn a_pair_of_which_one_binary_is_refused_is_compiled() {
    on_drivers(|on, scenario| {
        let fault = fault(json!({ "code": "binary", "shader": 1, "result": INCOMPATIBLE }));
        let (sound, refusing) = (on(&json!({})), on(&fault));
        expect(scenario, &sound, &program(), [0, 8, 8, 0, 0]);
        expect(scenario, &refusing, &program(), [4, 4, 4, 4, 0]);
        // One refusal is no reason to give up.
        expect(scenario, &sound, &program(), [8, 0, 0, 0, 0]);
    });
}

#[test]
fn a_lack_of_memory_for_a_binary_is_none_of_the_programs_errors_and_no_refusal() {
    on_drivers(|on, scenario| {
        let (sound, short) = (on(&json!({})), on(&fault(json!({ "code": "binary", "result": NO_MEMORY }))));
        expect(scenario, &sound, &program(), [0, 8, 8, 0, 0]);
        for _ in 0..=Refusals::LIMIT.0 {
            expect(scenario, &short, &program(), [0, 8, 0, 0, 0]);
        }
        expect(scenario, &sound, &program(), [8, 0, 0, 0, 0]);
    });
}

/// The whole call fails, or a part of it of which the stash has nothing.
#[test]
fn an_error_for_code_is_the_programs_and_leaves_no_record() {
    on_drivers(|on, scenario| {
        for result in [NO_MEMORY, UNKNOWN] {
            let stash = scenario.folder().join(format!("stash {result}"));
            let sound = on(&json!({})).stash(&stash);
            let failing = on(&fault(json!({ "code": "spirv", "result": result }))).stash(&stash);
            expect(scenario, &failing, &program(), [0, 0, 0, 0, 0]);
            let other = Program { calls: vec![vec![Part::Compute(50)]], allocator: false };
            expect(scenario, &sound, &other, [0, 1, 1, 0, 0]);
            expect(scenario, &sound, &program(), [0, 8, 8, 0, 0]);
            // Its code is not looked at any more.
            let served: Run<Seen> = scenario.run_ok("shaders", &failing, &program());
            assert_eq!(numbers(&served), [8, 0, 0, 0, 0], "{:?}", served.reports.counters());
            // The shader that is at fault is the first without a handle, in both.
            let mixed = vec![vec![Part::Compute(1), Part::Compute(60), Part::Compute(2)]];
            let mixed = Program { calls: mixed, allocator: false };
            let run: Run<Seen> = scenario.run_ok("shaders", &failing, &mixed);
            let [answer] = &run.value.answers[..] else { panic!("one call") };
            let made: Vec<bool> = answer.shaders.iter().map(Option::is_some).collect();
            assert_eq!((answer.result, &made[..]), (result, &[true, false, true][..]));
            assert_eq!(numbers(&run)[1..3], [0, 0], "{:?}", run.reports.counters());
        }
    });
}

/// No marks are made before the first death, as with pipelines.
#[test]
fn a_binary_of_which_the_driver_dies_is_quarantined() {
    on_drivers(|on, scenario| {
        let one_pair = Program {
            calls: vec![vec![Part::Compute(1)], vec![Part::Linked(4), Part::Compute(6)]],
            allocator: false,
        };
        for death in ["segv", "abort"] {
            let stash = scenario.folder().join(death);
            let sound = on(&json!({})).stash(&stash);
            let dying = on(&fault(json!({ "code": "binary", "shader": 1, "die": death }))).stash(&stash);
            expect(scenario, &sound, &one_pair, [0, 4, 4, 0, 0]);
            for time in 0..3 {
                let dead = scenario.run("shaders", &dying, &one_pair);
                assert!(dead.signal().is_some(), "{time}: {}", dead.ending());
            }
            for _ in 0..2 {
                let alive = expect(scenario, &dying, &one_pair, [2, 2, 0, 0, 0]);
                assert_eq!(alive.reports.sum("quarantined"), 1, "{:?}", alive.reports.counters());
            }
        }
    });
}

#[test]
fn a_driver_that_dies_of_nothing_of_ours_quarantines_no_binary() {
    on_drivers(|on, scenario| {
        let (sound, dying) = (on(&json!({})), on(&fault(json!({ "code": "spirv", "die": "segv" }))));
        expect(scenario, &sound, &program(), [0, 8, 8, 0, 0]);
        let more = Program {
            calls: program().calls.into_iter().chain([vec![Part::Compute(70)]]).collect(),
            allocator: false,
        };
        for _ in 0..3 {
            let dead = scenario.run("shaders", &dying, &more);
            assert_eq!(dead.signal(), Some(libc::SIGSEGV), "{}", dead.ending());
        }
        let after = expect(scenario, &sound, &program(), [8, 0, 0, 0, 0]);
        assert_eq!(after.reports.sum("quarantined"), 0);
    });
}

/// Whatever vkGetShaderBinaryDataEXT gives, it is recorded whole or not at all.
#[test]
fn binaries_that_a_driver_gives_in_strange_ways_are_recorded_whole_or_not_at_all() {
    on_drivers(|on, scenario| {
        let fails = json!({ "faults": [{ "command": "vkGetShaderBinaryDataEXT", "result": NO_MEMORY }] });
        let cases = [
            ("fails", fails, 0),
            ("empty", json!({ "shader_data": "empty" }), 0),
            ("shrinks", json!({ "shader_data": "shrinks" }), 8),
            ("grows", json!({ "shader_data": "grows" }), 0),
            ("grows unsaid", json!({ "shader_data": "grows_unsaid" }), 0),
            ("claims much", json!({ "claims_bytes": u64::MAX / 2 }), 0),
        ];
        for (name, script, recorded) in cases {
            let env = on(&script).stash(scenario.folder().join(name));
            let first = run(scenario, &env, &program());
            assert_eq!(numbers(&first), [0, 8, recorded, 0, 0], "{name}: {:?}", first.reports);
            let second = run(scenario, &env, &program());
            assert_eq!(numbers(&second), [recorded, 8 - recorded, 0, 0, 0], "{name}: {:?}", second.reports);
        }
    });
}

/// Binaries that are never the same: those of one call are recorded, and the driver takes them.
#[test]
fn a_driver_whose_binaries_differ_each_time_is_served() {
    on_drivers(|on, scenario| {
        let env = on(&json!({ "shader_data": "changes" }));
        for expected in [[0, 8, 8, 0, 0], [8, 0, 0, 0, 0]] {
            let run: Run<Seen> = scenario.run_ok("shaders", &env, &program());
            assert_eq!(numbers(&run), expected, "{:?}", run.reports.counters());
            assert!(run.value.answers.iter().all(|answer| answer.result == 0), "{:?}", run.value);
        }
    });
}

/// Binaries that are in use are kept, up to a bound; the stash has what does not fit, and gets no second record of it.
#[test]
fn what_there_is_no_room_for_is_compiled_and_not_recorded_again() {
    on_drivers(|on, scenario| {
        // Two fit, and three do not.
        let env = on(&json!({ "code_bytes": SHADER_BINARIES / 8 * 3 }));
        let of = |numbers: &[u32]| Program {
            calls: numbers.iter().map(|number| vec![Part::Compute(*number)]).collect(),
            allocator: false,
        };
        for number in 1..=3 {
            expect(scenario, &env, &of(&[number]), [0, 1, 1, 0, 0]);
        }
        for _ in 0..2 {
            expect(scenario, &env, &of(&[1, 2, 3]), [2, 1, 0, 0, 0]);
        }
        expect(scenario, &env, &of(&[3, 1]), [2, 0, 0, 0, 0]);
    });
}

/// Also where a call has code, too, or where the driver refuses them.
#[test]
fn a_programs_own_binaries_are_passed_on() {
    on_drivers(|on, scenario| {
        let own = |damaged| Part::Own { number: 1, damaged };
        let sound = Program {
            calls: vec![vec![Part::Compute(1)], vec![own(false)], vec![own(false), Part::Compute(2)]],
            allocator: false,
        };
        // The program frees its binaries, as it may.
        let env = on(&json!({ "keeps_shader_code": false }));
        expect(scenario, &env, &sound, [0, 2, 2, 0, 2]);
        expect(scenario, &env, &sound, [2, 0, 0, 0, 2]);
        let damaged = Program {
            calls: vec![vec![Part::Compute(1)], vec![own(true)], vec![Part::Compute(3), own(true)]],
            allocator: false,
        };
        // The program's binary is refused, and the shader of code beside it is made.
        let first = expect(scenario, &env, &damaged, [1, 1, 1, 0, 0]);
        assert_eq!(first.value.answers[2].result, INCOMPATIBLE);
        expect(scenario, &env, &damaged, [2, 0, 0, 0, 0]);
    });
}
