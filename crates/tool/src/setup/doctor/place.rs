//! The folder of the stash: whether programs of this user can use it.

use std::path::Path;

use rustix::fs::{Access, access};
use vkstash_model::app_name::AppName;
use vkstash_store::settings::{self, CacheKinds, Settings};
use vkstash_store::stash::inspect::{ApplicationInfo, list_applications};

use super::finding::Finding;
use super::{bases, died, workers};
use crate::config::in_force;
use crate::config::problems::problems;
use crate::drivers;
use crate::stash::root;
use crate::term::time;
use crate::term::units::{counted, size};

pub(super) fn examine(dir: Option<&Path>, findings: &mut Vec<Finding>) {
    let Some(root) = root::root(dir) else {
        findings.push(Finding::wrong(
            "there is no place for the stash: neither HOME nor XDG_CACHE_HOME is set",
            "set VKSTASH_DIR to a folder of yours",
        ));
        return;
    };
    let applications = match list_applications(&root) {
        Ok(applications) => applications,
        // The text says what to do.
        Err(error) => return findings.push(Finding::wrong(error.to_string(), "make the folder usable")),
    };
    examine_rights(&root, findings);
    let settings = examine_settings(&root, &applications, findings);
    examine_space(&root, &settings, findings);
    bases::examine(&settings.bases, findings);
    if root.exists() {
        examine_content(&root, &applications, findings);
        findings.extend(of_old_names(&applications));
        died::examine(&root, &applications, findings);
        workers::examine(&applications, findings);
        examine_updates(&root, &applications, findings);
    } else {
        findings.push(Finding::good(format!("{}: nothing is stashed yet", root.display())));
    }
}

/// Whether something new can be stashed.
fn examine_rights(root: &Path, findings: &mut Vec<Finding>) {
    let there = root.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    if access(there, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        findings.push(Finding::wrong(
            format!("nothing new can be stashed: {} cannot be written", there.display()),
            "change its rights, or set VKSTASH_DIR to a folder of yours",
        ));
    }
}

/// What the settings disable, and lines that are no settings. Returns the settings for all applications.
fn examine_settings(root: &Path, applications: &[ApplicationInfo], findings: &mut Vec<Finding>) -> Settings {
    let read = settings::read(root);
    findings.extend(problems(&read).iter().map(|line| {
        Finding::note(format!("ignored: {line}"), "correct the line; `vkstash config` shows what is in force")
    }));
    let all = read.all();
    disabled("all programs", &all, "", findings);
    for application in applications {
        let own = read.of(&application.folder);
        let argument = format!(" --application {}", application.folder);
        disabled(&application.display, &own, &argument, findings);
    }
    all
}

/// Whether the disk has as much free as these settings ask for.
fn examine_space(root: &Path, settings: &Settings, findings: &mut Vec<Finding>) {
    let Some((_, free)) = in_force::file_system(root) else { return };
    let floor = in_force::limits(root, settings).free_space_floor;
    if free < floor {
        findings.push(Finding::wrong(
            format!(
                "only {} are free where the stash is; below {} nothing is stashed",
                size(free),
                size(floor)
            ),
            "make room, or set another limit with `vkstash keep`",
        ));
    }
}

/// What is stashed, and what of it cannot be used.
fn examine_content(root: &Path, applications: &[ApplicationInfo], findings: &mut Vec<Finding>) {
    let bytes = in_force::sum(applications.iter().map(in_force::bytes));
    let count = counted(applications.len() as u64, "application");
    findings.push(Finding::good(format!("{}: {count}, {}", root.display(), size(bytes))));
    for (application, bad) in applications.iter().flat_map(|application| {
        application.unusable.iter().map(move |(name, reason)| (application, format!("{name}: {reason}")))
    }) {
        findings.push(Finding::wrong(
            format!("{} has no stash: {bad}", application.display),
            "change the rights of that folder, or remove it",
        ));
    }
    let parts = || applications.iter().flat_map(|application| &application.parts);
    let refused: usize = parts().map(|part| part.refused.len()).sum();
    let damaged: u64 = parts().map(|part| part.damaged).sum();
    if refused > 0 {
        findings.push(Finding::note(
            format!("{} in the stash cannot be used", counted(refused as u64, "file")),
            "`vkstash verify` names them, with the reasons",
        ));
    }
    if damaged > 0 {
        findings.push(Finding::note(
            format!("{} in the stash, which cost only what they hit", counted(damaged, "damaged place")),
            "`vkstash verify --repair` writes those files again; is the disk well?",
        ));
    }
}

/// Folders that are named as before the first release. Nothing was published, so nothing is taken over from them.
fn of_old_names(applications: &[ApplicationInfo]) -> Option<Finding> {
    let folders = applications.iter().map(|application| application.folder.as_str());
    let old: Vec<_> = folders.filter(|folder| AppName::is_old_folder(folder)).collect();
    let first = old.first()?;
    let count = counted(old.len() as u64, "folder");
    Some(Finding::note(
        format!("no program uses {count} of the stash, named as before version 0.1.0, such as {first}"),
        format!("`vkstash clear {first}` deletes it; programs are recorded anew under their new names"),
    ))
}

/// Whether the drivers that are here have compiled what other versions of them had.
fn examine_updates(root: &Path, applications: &[ApplicationInfo], findings: &mut Vec<Finding>) {
    let updates = drivers::look(root, applications);
    if let Some(cut_off) = updates.given_up {
        findings.push(Finding::note(
            format!(
                "the service compiles nothing for these drivers any more: it was cut off {cut_off} times, as if the \
                 machine went down"
            ),
            "`vkstash prewarm --all` tries again, and `vkstash quarantine` names what a driver died of",
        ));
    }
    let Some(told) = updates.told(time::now()) else { return };
    findings.push(match updates.not_ready {
        Some(_) => Finding::note(told, "or let it be done by itself: `vkstash background` says how"),
        None => Finding::good(told),
    });
}

/// The kinds of caches that these settings disable.
fn disabled(of: &str, settings: &Settings, argument: &str, findings: &mut Vec<Finding>) {
    let kinds = settings.disabled_caches.unwrap_or_default();
    for (kind, _) in CacheKinds::NAMES.into_iter().filter(|&(_, bit)| kinds.has(bit)) {
        findings.push(Finding::note(
            format!("caches of the kind {kind} are disabled for {of}"),
            format!("`vkstash cache enable {kind}{argument}` enables them, if that is not meant"),
        ));
    }
}
