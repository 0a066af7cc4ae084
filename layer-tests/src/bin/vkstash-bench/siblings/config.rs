//! Features and extensions of a device, and the cases that differ from it in one thing.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::Arc;

use ash::vk;
use vkstash_layer_tests::vulkan::{CoreFeatures, Device, DeviceOptions, Instance};

use super::model::{Class, Toggled};

/// Listed from the registry.
const FEATURES: &str = include_str!("features.txt");

/// What a device enables.
#[derive(Clone, Default)]
pub(crate) struct Config {
    core: Vec<usize>,
    extensions: Vec<&'static CStr>,
    /// Members by the type of their structure.
    switches: BTreeMap<i32, Vec<bool>>,
}

/// A row of the list.
struct Extension {
    name: &'static CStr,
    needs: Vec<&'static CStr>,
    structures: Vec<(i32, Vec<&'static str>)>,
}

fn name(text: &str) -> &'static CStr {
    Box::leak(std::ffi::CString::new(text).expect("a name of the registry").into_boxed_c_str())
}

fn rows() -> impl Iterator<Item = &'static str> {
    FEATURES.lines().filter(|line| !line.starts_with('#'))
}

/// The names of the features of Vulkan 1.0 to 1.3, by their numbers.
fn core_names() -> Vec<&'static str> {
    rows().next().expect("the first row").split(' ').skip(1).collect()
}

fn core(wanted: &str) -> usize {
    core_names().iter().position(|name| *name == wanted).expect("a feature of Vulkan 1.3")
}

fn extensions() -> Vec<Extension> {
    let row = |line: &'static str| {
        let mut words = line.split(' ');
        let own = name(words.next()?);
        let needs = words.next()?.split(',').filter(|need| *need != "-").map(name).collect();
        let structures = words.map(|word| {
            let (s_type, members) = word.split_once(':').expect("a type and members");
            (s_type.parse().expect("a number"), members.split(',').collect())
        });
        Some(Extension { name: own, needs, structures: structures.collect() })
    };
    rows().skip(1).filter_map(row).collect()
}

impl Config {
    /// What pipelines of this class need. None: the device does not have it.
    fn least(have: &Have, class: Class) -> Option<Config> {
        let mut config = Config { core: vec![core("pipelineCreationCacheControl")], ..Config::default() };
        match class {
            Class::Compute | Class::RenderPass => {}
            Class::DynamicRendering => config.core.push(core("dynamicRendering")),
            Class::RayTracing => {
                config.core.push(core("bufferDeviceAddress"));
                for (wanted, feature) in [
                    (c"VK_KHR_acceleration_structure", "accelerationStructure"),
                    (c"VK_KHR_ray_tracing_pipeline", "rayTracingPipeline"),
                ] {
                    let row = have.extensions.iter().find(|row| row.name == wanted)?;
                    config.extend(have, row);
                    config.switch(row, feature);
                }
            }
        }
        config.core.iter().all(|number| have.core.contains(number)).then_some(config)
    }

    /// Enables an extension and those that it needs.
    fn extend(&mut self, have: &Have, row: &Extension) {
        for &wanted in row.needs.iter().chain([&row.name]) {
            let is_there = have.extensions.iter().any(|row| row.name == wanted);
            if is_there && !self.extensions.contains(&wanted) {
                self.extensions.push(wanted);
            }
        }
    }

    /// Enables a feature of an extension.
    fn switch(&mut self, row: &Extension, feature: &str) {
        for (s_type, members) in &row.structures {
            if let Some(index) = members.iter().position(|member| *member == feature) {
                self.switches.entry(*s_type).or_insert_with(|| vec![false; members.len()])[index] = true;
            }
        }
    }

    pub(crate) fn device(&self, instance: &Arc<Instance>) -> Result<Device, vk::Result> {
        let switches = self.switches.iter();
        let options = DeviceOptions {
            features: self.core.clone(),
            extensions: self.extensions.clone(),
            switches: switches
                .map(|(s_type, on)| (vk::StructureType::from_raw(*s_type), on.clone()))
                .collect(),
            ..DeviceOptions::default()
        };
        Device::new(instance, &options)
    }

    pub(crate) fn has_ray_tracing(&self) -> bool {
        self.extensions.contains(&c"VK_KHR_ray_tracing_pipeline")
    }
}

/// What the device has.
struct Have {
    core: Vec<usize>,
    extensions: Vec<Extension>,
}

/// The cases of a comparison: what was toggled, and the device. In the first one nothing is: that is where pipelines
/// are compiled. None: the device lacks what this class needs.
pub(crate) fn cases(
    instance: &Arc<Instance>,
    class: Class,
    toggled: Toggled,
) -> Option<Vec<(String, Config)>> {
    let physical = instance.physical_device();
    let offered = instance.device_extensions(physical);
    let is_offered = |row: &Extension| offered.iter().any(|name| name.as_c_str() == row.name);
    let have = Have {
        core: CoreFeatures::of(instance, physical).enabled(),
        extensions: extensions().into_iter().filter(is_offered).collect(),
    };
    let least = Config::least(&have, class)?;
    let names = core_names();
    let others: Vec<usize> =
        have.core.iter().copied().filter(|number| !least.core.contains(number)).collect();
    let mut cases = vec![(String::new(), least.clone())];
    match toggled {
        Toggled::Core => cases.extend(others.iter().map(|&number| {
            let mut config = least.clone();
            config.core.push(number);
            (names[number].to_owned(), config)
        })),
        Toggled::CoreOff => {
            let with = |core| Config { core, ..least.clone() };
            cases[0].1 = with(have.core.clone());
            cases.extend(others.iter().map(|&off| {
                let rest = have.core.iter().copied().filter(|&number| number != off);
                (names[off].to_owned(), with(rest.collect()))
            }));
        }
        Toggled::Extensions => {
            for row in have.extensions.iter().filter(|row| !least.extensions.contains(&row.name)) {
                let mut config = least.clone();
                config.extend(&have, row);
                cases.push((row.name.to_string_lossy().into_owned(), config));
            }
        }
        Toggled::ExtensionFeatures => {
            for row in &have.extensions {
                for (s_type, members) in &row.structures {
                    let on = supported(instance, *s_type, members.len());
                    let base = least.switches.get(s_type);
                    for (index, feature) in members.iter().enumerate() {
                        if !on[index] || base.is_some_and(|base| base[index]) {
                            continue;
                        }
                        let mut config = least.clone();
                        config.extend(&have, row);
                        config.switch(row, feature);
                        cases.push((format!("{}.{feature}", row.name.to_string_lossy()), config));
                    }
                }
            }
        }
    }
    Some(cases)
}

/// Which members of a feature structure the device supports.
fn supported(instance: &Instance, s_type: i32, members: usize) -> Vec<bool> {
    let mut words = vec![0u64; 2 + members.div_ceil(2)];
    let start: *mut u64 = words.as_mut_ptr();
    let mut all = vk::PhysicalDeviceFeatures2::default();
    // SAFETY: the structure is its head and so many VkBool32 (the registry says so), the buffer has room for that and
    // its alignment, and the physical device is live.
    unsafe {
        start.cast::<i32>().write(s_type);
        all.p_next = start.cast();
        instance.raw.get_physical_device_features2(instance.physical_device(), &mut all);
        let switches = std::slice::from_raw_parts(start.add(2).cast::<vk::Bool32>(), members);
        switches.iter().map(|&on| on != 0).collect()
    }
}
