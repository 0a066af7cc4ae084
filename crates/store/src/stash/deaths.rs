//! Pipelines at which processes ended, for commands that only read them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::part::crash_guard;
use crate::stash::browse::Browser;
use vkstash_host::disk::folder::Folder;
use vkstash_host::sort;
use vkstash_model::crash_count::{CompileDeaths, CrashCount};
use vkstash_model::record::{Key, Kind, WORKERS};

/// A pipeline at which processes ended: a driver was compiling it then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    /// The pipeline's key.
    pub key: Key,
    /// Its VkShaderStageFlags.
    pub stages: u32,
    /// How many processes, since it was last compiled.
    pub deaths: u8,
    /// When the last one ended, in Unix milliseconds.
    pub unix_ms: u64,
    /// The name of the device part.
    pub part: String,
}

/// The deaths of the application in this folder, the latest first: those that the device parts record, and those in
/// guard files that no process has counted yet. Files that cannot be read are left out.
pub fn of(root: &Path, application: &str) -> Vec<Death> {
    let parts = || -> Option<Vec<(String, Arc<Folder>)>> {
        let folder = Arc::new(Folder::root(root, false).ok()?.sub(application, false).ok()?);
        let names = folder.names("").ok()?.into_iter().filter(|name| name.starts_with("device-"));
        Some(
            names.filter_map(|name| Some((name.clone(), Arc::new(folder.sub(&name, false).ok()?)))).collect(),
        )
    };
    let mut all = Vec::new();
    for (name, folder) in parts().unwrap_or_default() {
        let part = name.strip_prefix("device-").unwrap_or(&name).to_owned();
        let deaths = of_part(root, application, &name, &folder);
        all.extend(deaths.into_iter().map(|(key, CompileDeaths { deaths, stages, unix_ms })| Death {
            key,
            stages,
            deaths,
            unix_ms,
            part: part.clone(),
        }));
    }
    sort::by_key(&mut all, |death| (Reverse(death.unix_ms), death.key));
    all
}

/// The deaths that no process has counted yet, with the folders of their applications: of processes that died at this
/// time or later, also of those that have written no report.
pub fn uncounted_since(root: &Path, unix_ms: u64) -> Vec<(String, Death)> {
    let Ok(root) = Folder::root(root, false) else { return Vec::new() };
    let mut all = Vec::new();
    for application in root.names("").unwrap_or_default() {
        let Ok(folder) = root.sub(&application, false) else { continue };
        let folder = Arc::new(folder);
        for name in folder.names("").unwrap_or_default() {
            let Some(part) = name.strip_prefix("device-") else { continue };
            let marks =
                folder.sub(&name, false).map(|part| crash_guard::uncounted(&part)).unwrap_or_default();
            // The time of a file's change is told in whole seconds.
            for marks in marks.iter().filter(|marks| marks.unix_ms.saturating_add(999) >= unix_ms) {
                all.extend(marks.compiles.iter().map(|&(key, stages)| {
                    let (part, unix_ms) = (part.to_owned(), marks.unix_ms);
                    (application.clone(), Death { key, stages, deaths: 1, unix_ms, part })
                }));
            }
        }
    }
    all
}

fn of_part(root: &Path, application: &str, name: &str, folder: &Folder) -> BTreeMap<Key, CompileDeaths> {
    // Read before the crash counts: a death that another process counts in the meantime is then found twice. In the
    // other order it would be missed.
    let uncounted = crash_guard::uncounted(folder);
    let mut found = BTreeMap::new();
    if let Ok(browser) = Browser::open(root, application, name) {
        browser.for_each(&|kind| kind == Kind::CrashCount, &mut |_, key, record| {
            let compile = CrashCount::of(record).compile.filter(|_| *key != WORKERS);
            found.extend(compile.map(|compile| (*key, compile)));
        });
    }
    for marks in uncounted {
        for (key, stages) in marks.compiles {
            let before = found.get(&key).map_or(0, |compile| compile.deaths);
            let deaths = before.saturating_add(1);
            found.insert(key, CompileDeaths { deaths, stages, unix_ms: marks.unix_ms });
        }
    }
    found
}
