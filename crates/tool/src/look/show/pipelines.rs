//! All pipelines of an application, and what each device has of them.

use std::collections::HashMap;
use std::path::Path;

use serde::Serialize;
use vkstash_model::recipe::{Pipeline, Recipe};
use vkstash_model::record::{Key, Kind};
use vkstash_model::{key, payload};
use vkstash_store::stash::browse::Browser;
use vkstash_store::stash::inspect::{self, ApplicationInfo};

use super::words;
use crate::reports::names;
use crate::term::units::counted;

/// A pipeline that is stored.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Listed {
    /// The key of its recipe, 64 hexadecimal digits.
    pub(crate) key: String,
    /// The pipeline's class and stages, in words.
    pub(crate) what: String,
    /// The newest noted use, in Unix milliseconds. Null: none is noted.
    pub(crate) last_use_unix_ms: Option<u64>,
    /// One object for each device part that has something of it.
    pub(crate) devices: Vec<OnDevice>,
}

impl Listed {
    /// What the compile took, where it is known. Devices differ little: the largest is taken.
    pub(super) fn compile_ns(&self) -> Option<u64> {
        self.devices.iter().filter_map(|device| device.compile_ns).max()
    }
}

/// What a device has of a pipeline.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct OnDevice {
    /// The device's name, or its numbers where no run has told the name.
    pub(crate) device: String,
    /// The name of the device part.
    pub(crate) part: String,
    /// The size of the artifact before compression. Null: it has none of its own, because another artifact has the same
    /// data, the driver had it, or its caches keep nothing.
    pub(crate) bytes: Option<u64>,
    /// The time that the compile took. Null: not known.
    pub(crate) compile_ns: Option<u64>,
    /// It has an artifact, its own or one with equal data.
    #[serde(skip)]
    pub(crate) is_stored: bool,
}

/// The one that was used last comes first.
pub(crate) fn of(root: &Path, application: &ApplicationInfo, portable: &Browser) -> Vec<Listed> {
    let uses = inspect::last_uses(root, &application.folder);
    let mut on_devices = on_devices(root, application);
    let mut listed: Vec<(_, Listed)> = Vec::new();
    portable.for_each(&|kind| kind == Kind::Recipe, &mut |_, key, recipe| {
        let used = uses.get(key).copied().unwrap_or_default();
        let pipeline = Listed {
            key: hex::encode(key),
            what: key::decode(recipe).map_or_else(
                |_| "a recipe of another version of vkstash".to_owned(),
                |recipe: Recipe<'_>| what(&recipe),
            ),
            last_use_unix_ms: Some(used.unix_ms).filter(|&moment| moment > 0),
            devices: on_devices.remove(key).unwrap_or_default(),
        };
        listed.push(((used.run, used.order), pipeline));
    });
    listed.sort_by(|(one, this), (other, that)| other.cmp(one).then_with(|| this.key.cmp(&that.key)));
    listed.into_iter().map(|(_, pipeline)| pipeline).collect()
}

fn on_devices(root: &Path, application: &ApplicationInfo) -> HashMap<Key, Vec<OnDevice>> {
    let mut found: HashMap<Key, Vec<OnDevice>> = HashMap::new();
    for part in &application.parts {
        let Some(header) = &part.device else { continue };
        let Ok(browser) = Browser::open(root, &application.folder, &format!("device-{}", part.name)) else {
            continue;
        };
        let named = application.runs.devices.iter().find(|device| device.part == part.name);
        let device = named.map_or_else(
            || format!("device {:#06x} of vendor {:#06x}", header.device_id, header.vendor_id),
            |device| device.name.clone(),
        );
        let wanted = |kind| matches!(kind, Kind::Artifact | Kind::Same | Kind::Cost | Kind::Found);
        browser.for_each(&wanted, &mut |kind, key, bytes| {
            let on_device = OnDevice {
                device: device.clone(),
                part: part.name.clone(),
                bytes: (kind == Kind::Artifact).then_some(bytes.len() as u64),
                // The others begin with it (docs/format.md); what was found was not compiled.
                compile_ns: bytes
                    .get(..4)
                    .filter(|_| kind != Kind::Found)
                    .and_then(payload::cost)
                    .and_then(|cost| u64::try_from(cost.as_nanos()).ok()),
                is_stored: matches!(kind, Kind::Artifact | Kind::Same),
            };
            let known = found.entry(*key).or_default();
            match known.iter_mut().find(|known| known.part == part.name) {
                // An artifact says more than a reference or a cost, and these more than that the driver had it.
                Some(known) if on_device.bytes.is_some() || known.bytes.or(known.compile_ns).is_none() => {
                    *known = on_device;
                }
                Some(_) => {}
                None => known.push(on_device),
            }
        });
    }
    found
}

/// Class and stages of a pipeline.
pub(super) fn what(recipe: &Recipe<'_>) -> String {
    let stages = recipe.pipeline.stages().iter().map(|stage| names::stage_name(stage.stage));
    let stages = stages.collect::<Vec<_>>().join(", ");
    let libraries = recipe.pipeline.libraries().len() as u64;
    let class = match &recipe.pipeline {
        Pipeline::Compute(_) => "compute".to_owned(),
        Pipeline::RayTracing(tracing) => {
            format!("ray tracing, {}", counted(tracing.groups.len() as u64, "group"))
        }
        Pipeline::Graphics(graphics) if words::is_library(graphics.flags) => "graphics library".to_owned(),
        Pipeline::Graphics(_) => "graphics".to_owned(),
        Pipeline::Shaders(shaders) if shaders.stages.len() > 1 => "linked shader objects".to_owned(),
        Pipeline::Shaders(_) => "shader object".to_owned(),
    };
    let links =
        if libraries > 0 { format!(", links {}", counted_libraries(libraries)) } else { String::new() };
    match stages.as_str() {
        "" | "compute" => format!("{class}{links}"),
        stages => format!("{class}: {stages}{links}"),
    }
}

fn counted_libraries(count: u64) -> String {
    if count == 1 { "1 library".to_owned() } else { format!("{count} libraries") }
}
