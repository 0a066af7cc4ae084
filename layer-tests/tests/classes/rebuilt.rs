//! Recipes of real calls, rebuilt: validation has nothing to say about the create infos, drivers take them, and the
//! layer finds the artifacts that it recorded of the originals.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::ptr;

use ash::{khr, vk};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use vkstash_layer_tests::child::{Step, scenario};
use vkstash_layer_tests::env::{self, Driver};
use vkstash_layer_tests::paths;
use vkstash_layer_tests::report::Reports;
use vkstash_layer_tests::vulkan::{Instance, InstanceOptions};
use vkstash_layer_tests::work::{self, Shader, Work};
use vkstash_model::app_name::AppName;
use vkstash_model::recipe::{Code, PipelineLayout, Recipe, RenderPass, Sampler, SetLayout};
use vkstash_model::record::{Key, Kind};
use vkstash_model::{key, payload};
use vkstash_recipe::capture::render_pass::uses;
use vkstash_recipe::capture::{LibraryTraits, SubpassUse};
use vkstash_recipe::rebuild::pipeline::{Info, pipeline};
use vkstash_recipe::rebuild::render_pass::{Form, render_pass};
use vkstash_recipe::rebuild::{Device, Limits, StageCode, objects};
use vkstash_store::stash::inspect::list_applications;
use vkstash_store::stash::open::Stash;

use super::rig::Rig;
use super::{conversions, libraries, ray_tracing, state};

/// The records of the portable part.
struct Records(BTreeMap<(u16, Key), Vec<u8>>);

impl Records {
    fn of(stash: &Path) -> Records {
        let [application] = list_applications(stash).unwrap().try_into().unwrap();
        let name = AppName { display: application.display, folder: application.folder };
        let stash = Stash::open_patiently(stash, &name).unwrap();
        let mut records = BTreeMap::new();
        for kind in [Kind::Module, Kind::Layout, Kind::RenderPass, Kind::Recipe] {
            stash.portable().for_each(kind, &mut |key, payload| {
                records.insert((kind as u16, *key), payload.to_vec());
            });
        }
        Records(records)
    }

    fn get(&self, kind: Kind, key: &Key) -> Option<&[u8]> {
        self.0.get(&(kind as u16, *key)).map(Vec::as_slice)
    }

    fn recipes(&self) -> Vec<Key> {
        self.0.keys().filter(|(kind, _)| *kind == Kind::Recipe as u16).map(|(_, key)| *key).collect()
    }
}

/// The pipelines that were made again so far.
struct Replay<'a> {
    rig: &'a Rig,
    records: &'a Records,
    modules: BTreeMap<Key, vk::ShaderModule>,
    layouts: BTreeMap<Key, vk::PipelineLayout>,
    passes: BTreeMap<Key, (vk::RenderPass, Vec<SubpassUse>)>,
    pipelines: BTreeMap<Key, Result<(vk::Pipeline, LibraryTraits), String>>,
}

impl Device for Replay<'_> {
    fn module(&self, identity: &Key) -> Option<StageCode<'_>> {
        self.modules.get(identity).copied().map(StageCode::Module)
    }

    fn has_identifiers_of(&self, _: &[u8; 16]) -> bool {
        false
    }

    fn layout(&self, digest: &Key) -> Option<vk::PipelineLayout> {
        self.layouts.get(digest).copied()
    }

    fn render_pass(&self, digest: &Key, subpass: u32) -> Option<(vk::RenderPass, SubpassUse)> {
        let (pass, uses) = self.passes.get(digest)?;
        Some((*pass, *uses.get(subpass as usize)?))
    }

    fn library(&self, key: &Key) -> Option<(vk::Pipeline, LibraryTraits)> {
        self.pipelines.get(key)?.as_ref().ok().copied()
    }

    fn advanced_blend(&self) -> bool {
        false
    }

    fn limits(&self) -> Limits {
        let device = &self.rig.device;
        Limits::of(&device.instance.properties(device.physical).limits)
    }
}

impl Replay<'_> {
    fn raw(&self) -> &ash::Device {
        &self.rig.device.raw
    }

    fn sampler(&self, sampler: &Sampler) -> vk::Sampler {
        // SAFETY: a live device, and create infos rebuilt of what a program passed to this driver.
        unsafe {
            let conversion =
                sampler.conversion.as_ref().map_or(vk::SamplerYcbcrConversion::null(), |given| {
                    let rebuilt = objects::conversion(given).unwrap();
                    self.raw().create_sampler_ycbcr_conversion(rebuilt.info(), None).unwrap()
                });
            let rebuilt = objects::sampler(sampler, conversion).unwrap();
            self.raw().create_sampler(rebuilt.info(), None).unwrap()
        }
    }

    fn set_layout(&self, set: &SetLayout) -> vk::DescriptorSetLayout {
        let rebuilt = objects::set_layout(set, |sampler| Some(self.sampler(sampler))).unwrap();
        // SAFETY: a live device; its create info is rebuilt of a program's, with samplers of this device.
        unsafe { self.raw().create_descriptor_set_layout(rebuilt.info(), None) }.unwrap()
    }

    fn make_layout(&mut self, digest: &Key) {
        let Some(record) = self.records.get(Kind::Layout, digest) else { return };
        let layout: PipelineLayout = key::decode(record).unwrap();
        let sets = |set: &SetLayout| Some(self.set_layout(set));
        let rebuilt = objects::pipeline_layout(&layout, self.limits(), sets).unwrap();
        // SAFETY: a live device; its create info is rebuilt of a program's, with set layouts of this device.
        let made = unsafe { self.raw().create_pipeline_layout(rebuilt.info(), None) }.unwrap();
        self.layouts.insert(*digest, made);
    }

    fn make_pass(&mut self, digest: &Key) {
        let Some(record) = self.records.get(Kind::RenderPass, digest) else { return };
        let pass: RenderPass = key::decode(record).unwrap();
        // SAFETY: a live device; its create info is rebuilt of a program's.
        let made = unsafe {
            match render_pass(&pass, self.limits()).unwrap() {
                Form::First(rebuilt) => self.raw().create_render_pass(rebuilt.info(), None),
                Form::Second(rebuilt) => self.raw().create_render_pass2(rebuilt.info(), None),
            }
        };
        self.passes.insert(*digest, (made.unwrap(), uses(&pass)));
    }

    /// Makes a pipeline, after everything that it names.
    fn make(&mut self, key: &Key) {
        if self.pipelines.contains_key(key) {
            return;
        }
        let Some(record) = self.records.get(Kind::Recipe, key) else { return };
        let recipe: Recipe<'_> = key::decode(record).unwrap();
        for stage in recipe.pipeline.stages() {
            let Code::Module(identity) = &stage.code else { continue };
            let Some(record) = self.records.get(Kind::Module, identity) else { continue };
            let (_, code) = payload::module(record).unwrap();
            let module = self.rig.device.module(&code);
            self.modules.insert(*identity, module);
        }
        let parts = recipe.pipeline.parts();
        parts.layout.iter().for_each(|digest| self.make_layout(digest));
        parts.render_pass.iter().for_each(|digest| self.make_pass(digest));
        recipe.pipeline.libraries().iter().for_each(|library| self.make(library));
        let made = pipeline(&recipe, self).map_err(|error| error.to_string());
        let made = made.and_then(|info| self.create(&info));
        self.pipelines.insert(*key, made);
    }

    fn create(&self, info: &Info<'_>) -> Result<(vk::Pipeline, LibraryTraits), String> {
        let (cache, device) = (vk::PipelineCache::null(), self.raw().handle());
        let mut made = vk::Pipeline::null();
        // SAFETY: a live device; the create info is rebuilt of a program's, with objects of this device.
        let (result, traits) = unsafe {
            let first = self.raw().fp_v1_0();
            match info {
                Info::Compute(rebuilt) => {
                    let create = first.create_compute_pipelines;
                    let result = create(device, cache, 1, rebuilt.info(), ptr::null(), &mut made);
                    (result, LibraryTraits::default())
                }
                Info::Graphics(rebuilt, traits) => {
                    let create = first.create_graphics_pipelines;
                    (create(device, cache, 1, rebuilt.info(), ptr::null(), &mut made), *traits)
                }
                Info::RayTracing(rebuilt) => {
                    let instance = &self.rig.device.instance.raw;
                    let commands = khr::ray_tracing_pipeline::Device::new(instance, self.raw());
                    let create = commands.fp().create_ray_tracing_pipelines_khr;
                    let deferred = vk::DeferredOperationKHR::null();
                    let result = create(device, deferred, cache, 1, rebuilt.info(), ptr::null(), &mut made);
                    (result, LibraryTraits::default())
                }
            }
        };
        match result {
            vk::Result::SUCCESS => Ok((made, traits)),
            other => Err(format!("{other:?}")),
        }
    }
}

/// A link names a library that is not in the stash.
const NO_LIBRARY: &str = "there is no library of this digest";

/// What became of the recipes of a stash.
#[derive(Debug, Serialize, Deserialize)]
struct Rebuilt {
    recipes: usize,
    made: usize,
    /// Why the others were not made, and how many.
    refused: BTreeMap<String, usize>,
    messages: Vec<String>,
}

/// The step: makes every pipeline of this stash again.
fn rebuild(input: &Value) -> Value {
    let records = Records::of(Path::new(input["stash"].as_str().unwrap()));
    let messages = input["messages"] == true;
    let instance = Instance::new(&InstanceOptions { messages, ..InstanceOptions::default() }).unwrap();
    let rig = Rig::on(&instance, Default::default());
    // What validation says of the device itself.
    let before = instance.messages();
    let mut again = Replay {
        rig: &rig,
        records: &records,
        modules: BTreeMap::new(),
        layouts: BTreeMap::new(),
        passes: BTreeMap::new(),
        pipelines: BTreeMap::new(),
    };
    let recipes = records.recipes();
    recipes.iter().for_each(|key| again.make(key));
    let mut refused = BTreeMap::new();
    for reason in again.pipelines.values().filter_map(|made| made.as_ref().err()) {
        *refused.entry(reason.clone()).or_default() += 1;
    }
    let made = again.pipelines.values().filter(|made| made.is_ok()).count();
    let mut messages = instance.messages();
    messages.retain(|id| !before.contains(id));
    let rebuilt = Rebuilt { recipes: recipes.len(), made, refused, messages };
    // The process ends with everything that was made.
    std::mem::forget((rig, instance));
    serde_json::to_value(rebuilt).unwrap()
}

pub const STEPS: &[(&str, Step)] = &[
    ("work", work::step),
    ("state", state::make),
    ("convert", conversions::convert),
    ("link", libraries::make),
    ("trace", ray_tracing::trace),
    ("rebuild", rebuild),
];

fn simple() -> Vec<(&'static str, Value)> {
    let shaders = [Shader::Compute, Shader::Specialized, Shader::RenderPass, Shader::DynamicRendering];
    let mut works = shaders.map(|shader| Work { shader, ..Work::default() }).to_vec();
    works.push(Work { shader: Shader::RenderPass, discard: true, ..Work::default() });
    works.into_iter().map(|work| ("work", serde_json::to_value(work).unwrap())).collect()
}

pub fn everything() -> Vec<(&'static str, Value)> {
    let mut all = simple();
    all.push(("state", Value::Null));
    all.extend((0..4).map(|number| ("convert", json!(number))));
    let programs = ["subsets alone", "optimized link", "optimized library", "combinations", "nested"];
    all.extend(programs.map(|program| ("link", json!({ "program": program }))));
    all.push(("link", json!({ "program": "own state" })));
    all.push(("link", json!({ "program": "independent sets" })));
    all.push(("trace", json!({})));
    all
}

/// A library of every subset is no library any more (06608): one of the programs makes one all the same.
pub const OWN_MISTAKES: [&str; 1] = ["VUID-VkGraphicsPipelineCreateInfo-flags-06608"];

fn without_complaints(rebuilt: &Rebuilt) {
    let new: Vec<_> = rebuilt.messages.iter().filter(|id| !OWN_MISTAKES.contains(&id.as_str())).collect();
    assert!(new.is_empty(), "{rebuilt:?}");
}

#[test]
fn validation_and_driver_take_what_was_rebuilt_and_its_keys_are_the_same() {
    scenario(STEPS, |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        for (name, input) in everything() {
            scenario.run_ok::<Value>(name, &env, &input);
        }
        let stash = env.stash_folder();
        let input = |messages| json!({ "stash": stash, "messages": messages });
        let recipes = Records::of(&stash).recipes();
        assert!(recipes.len() > 50, "{}", recipes.len());

        let run = scenario.run_ok::<Rebuilt>("rebuild", &env, &input(false));
        let (rebuilt, counters) = (&run.value, run.reports.counters());
        // Libraries of libraries that links optimize again are not recorded. One optimized link names one.
        let refused = rebuilt.refused.get(NO_LIBRARY).copied().unwrap_or(0);
        assert_eq!(refused, 1, "{rebuilt:?}");
        assert_eq!(rebuilt.made + refused, recipes.len(), "{rebuilt:?}");
        assert!(rebuilt.made > 50 && rebuilt.refused.len() <= 1, "{rebuilt:?}");
        assert_eq!(Records::of(&stash).recipes(), recipes, "a key that is new: {counters:?}");
        // The other pipelines were recorded on devices with other features, or RADV does not take them back.
        assert!(run.reports.sum("served") > 40, "{counters:?}");
        assert!(run.reports.bypassed().is_empty(), "{:?}", run.reports.bypassed());

        if env::validation_manifest().is_none() {
            return scenario.skip("the Khronos validation layer is not installed");
        }
        let judge = env.without_layer().validation();
        let judged = scenario.run_ok::<Rebuilt>("rebuild", &judge, &input(true)).value;
        assert_eq!(judged.made, rebuilt.made);
        without_complaints(&judged);
    });
}

/// Recipes are portable: another driver makes the same pipelines of them.
#[test]
fn another_driver_takes_what_was_rebuilt() {
    scenario(STEPS, |scenario| {
        let (Some(env), Some(other)) = (scenario.on(Driver::Radv), scenario.on(Driver::Lavapipe)) else {
            return;
        };
        for (name, input) in simple() {
            scenario.run_ok::<Value>(name, &env, &input);
        }
        if env::validation_manifest().is_none() {
            return scenario.skip("the Khronos validation layer is not installed");
        }
        let input = json!({ "stash": env.stash_folder(), "messages": true });
        let judged = scenario.run_ok::<Rebuilt>("rebuild", &other.without_layer().validation(), &input).value;
        assert!(judged.made >= 4 && judged.made == judged.recipes, "{judged:?}");
        without_complaints(&judged);
    });
}

/// `vkstash prewarm` makes of an import what the programs ask for, whatever kind of pipeline it is.
#[test]
fn every_kind_of_pipeline_is_served_that_was_prewarmed() {
    scenario(STEPS, |scenario| {
        let Some(env) = scenario.on(Driver::Radv) else { return };
        for (name, input) in everything() {
            scenario.run_ok::<Value>(name, &env, &input);
        }
        let archive = scenario.folder().join("archive.tar");
        let imported = env.clone().stash(scenario.folder().join("imported"));
        let tool = |env: &env::Env, arguments: &[&str]| {
            let mut command = Command::new(paths::profile_folder().join("vkstash"));
            env.apply(&mut command);
            command.env("VKSTASH_LIBRARY", paths::layer_library()).args(arguments);
            command.output().unwrap()
        };
        let path = archive.to_str().unwrap();
        assert!(tool(&env, &["export", "--portable", path]).status.success());
        assert!(tool(&imported, &["import", path]).status.success());
        let output = tool(&imported, &["prewarm", "--all", "--every-device", "--json"]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(report["made"].as_u64().unwrap() > 100, "{report:#}");
        // Libraries of libraries that retain what a link optimizes are not recorded, and the devices without ray
        // tracing cannot make what needs it.
        let reasons = report["applications"].as_array().unwrap().iter();
        for reason in reasons.flat_map(|line| line["not_made"].as_object().unwrap().keys()) {
            assert!(reason.contains("no recipe") || reason.contains("NOT_PRESENT"), "{report:#}");
        }
        for (name, input) in everything() {
            let warm = scenario.run_ok::<Value>(name, &imported, &input).reports;
            let again = scenario.run_ok::<Value>(name, &env, &input).reports;
            // A link with independent sets is made without the layout that the program passes beside its libraries:
            // RADV takes that for another pipeline.
            if name == "link" {
                assert!(warm.sum("served") >= 2, "{input}: {:?}", warm.counters());
            } else {
                // Whether the stash or the driver has a pipeline first depends on what was asked for before.
                let had = |reports: &Reports| reports.sum("served") + reports.sum("driver_had");
                let counters = [warm.counters(), again.counters()];
                assert_eq!(had(&warm), had(&again), "{name} {input}: {counters:?}");
                // Whether the driver has compiled what it has refused when it was asked, the time of the call says.
                let rest = |reports: &Reports| reports.sum("compiled") + reports.sum("offered");
                assert_eq!(rest(&warm), rest(&again), "{name} {input}: {counters:?}");
            }
        }
    });
}
