//! The records in programs' stashes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use vkstash_model::app_name::AppName;
use vkstash_model::key;
use vkstash_model::recipe::{Code, Recipe};
use vkstash_model::record::{Key, Kind};
use vkstash_store::stash::open::Stash;

use crate::failure::Failure;

/// The kinds that are stored with the dictionary.
pub(super) const KINDS: [Kind; 4] = [Kind::Recipe, Kind::Layout, Kind::RenderPass, Kind::DeviceConfiguration];

/// Largest number of folders between the named one and a program's own.
const DEPTH: u32 = 4;

/// The records of one program, from all its stashes, without duplicates.
pub(super) struct Program {
    /// The name of its folder, without the digest.
    pub(super) name: String,
    payloads: BTreeMap<(u8, Key), Vec<u8>>,
}

impl Program {
    /// The payloads of a kind, sorted by key.
    pub(super) fn of(&self, kind: Kind) -> impl Iterator<Item = &[u8]> {
        self.payloads
            .iter()
            .filter(move |((number, _), _)| *number == kind as u8)
            .map(|(_, payload)| payload.as_slice())
    }
}

/// The programs whose stashes are in these folders, sorted by name.
pub(super) fn programs(folders: &[PathBuf]) -> Result<Vec<Program>, Failure> {
    let mut programs = BTreeMap::new();
    for folder in folders {
        collect(folder, DEPTH, &mut programs)?;
    }
    let named = programs.into_iter().map(|(name, payloads)| Program { name, payloads });
    Ok(named.filter(|program| !program.payloads.is_empty()).collect())
}

type Payloads = BTreeMap<(u8, Key), Vec<u8>>;

fn collect(folder: &Path, depth: u32, programs: &mut BTreeMap<String, Payloads>) -> Result<(), Failure> {
    let place = |error| format!("{}: {error}", folder.display());
    if folder.join("portable").is_dir() {
        let (Some(root), Some(name)) = (folder.parent(), folder.file_name().and_then(|name| name.to_str()))
        else {
            return Ok(());
        };
        let display = name.rsplit_once('-').map_or(name, |(display, _)| display).to_owned();
        let stash =
            Stash::open_patiently(root, &AppName { display: display.clone(), folder: name.to_owned() })
                .map_err(|error| format!("{}: {error}", folder.display()))?;
        let payloads = programs.entry(display).or_default();
        for kind in KINDS {
            stash.portable().for_each(kind, &mut |key, payload| {
                payloads.entry((kind as u8, *key)).or_insert_with(|| payload.to_vec());
            });
        }
        return Ok(());
    }
    if depth > 0 {
        for entry in fs::read_dir(folder).map_err(place)? {
            let path = entry.map_err(place)?.path();
            if path.is_dir() {
                collect(&path, depth - 1, programs)?;
            }
        }
    }
    Ok(())
}

/// The digests in an encoded recipe: of modules, layout, render pass and libraries. None if it cannot be decoded.
pub(super) fn digests(payload: &[u8]) -> Vec<Key> {
    let Ok(recipe) = key::decode::<Recipe<'_>>(payload) else { return Vec::new() };
    let pipeline = &recipe.pipeline;
    let parts = pipeline.parts();
    let modules = pipeline.stages().iter().filter_map(|stage| match stage.code {
        Code::Module(identity) => Some(identity),
        Code::Native { identifier, .. } => identifier.0.try_into().ok(),
    });
    modules.chain(pipeline.libraries().iter().copied()).chain(parts.layout).chain(parts.render_pass).collect()
}
