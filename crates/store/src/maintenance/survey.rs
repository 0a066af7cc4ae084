//! The applications, parts and files below a root. Reads names and sizes; opens folders and settings only. No folder
//! stays open: a process of ours or of others has few descriptors, and a stash may have thousands of applications.

use std::io::ErrorKind;
use std::sync::Arc;

use rustix::fs::FileType;

use crate::bounds::{Limits, ModulePolicy};
use crate::format::device::DeviceHeader;
use crate::format::file::PartIdentity;
use crate::segment::load;
use crate::segment::name;
use crate::settings::Settings;
use crate::settings::places::{self, Configuration};
use vkstash_host::disk::errors::FileError;
use vkstash_host::disk::folder::Folder;
use vkstash_host::disk::{locks, ops as disk};
use vkstash_host::sort;
use vkstash_host::util::{latest, unix_ms};

/// A part with fewer files and bytes needs no merging.
const FEW_FILES: usize = 4;
const FEW_BYTES: u64 = 1 << 20;

/// Everything below a root.
pub(crate) struct Survey {
    settings: Configuration,
    /// All applications are here.
    is_whole: bool,
    /// Size and free space of the file system, in bytes.
    size: u64,
    pub(crate) free: u64,
    pub(crate) applications: Vec<ApplicationFolder>,
}

/// The folder of one application.
pub(crate) struct ApplicationFolder {
    root: Arc<Folder>,
    pub(crate) name: String,
    pub(crate) settings: Settings,
    pub(crate) parts: Vec<PartFolder>,
}

/// The folder of one part.
pub(crate) struct PartFolder {
    root: Arc<Folder>,
    application: String,
    pub(crate) name: String,
    /// Names and sizes of the segments, oldest first.
    pub(crate) files: Vec<(String, u64)>,
    /// The sum of the sizes.
    pub(crate) bytes: u64,
    /// The [`latest`] write or use, in Unix milliseconds.
    pub(crate) last_use: u64,
}

/// Whether some part of an application has at least this many files.
pub(crate) fn has_many_segments(root: &Folder, application: &str, files: usize) -> bool {
    let Ok(folder) = root.sub(application, false) else { return false };
    part_names(&folder).iter().any(|name| {
        let names = folder.sub(name, false).ok().and_then(|part| part.names(".vks").ok());
        names.is_some_and(|names| names.len() >= files)
    })
}

/// The names of its parts, the portable one first.
pub(crate) fn part_names(folder: &Folder) -> Vec<String> {
    let mut names = folder.names("").unwrap_or_default();
    names.retain(|name| name == "portable" || name.starts_with("device-"));
    sort::by(&mut names, |one, other| (one != "portable", one).cmp(&(other != "portable", other)));
    names
}

impl Survey {
    /// If `interrupted` says true it ends early, and the result must not be used.
    pub(crate) fn of(root: &Arc<Folder>, interrupted: &dyn Fn() -> bool) -> Survey {
        let mut survey = Survey::without_applications(root);
        let names = root.names("").unwrap_or_default();
        let names = names.into_iter().take_while(|_| !interrupted());
        let settings = &survey.settings;
        survey.applications = names.filter_map(|name| ApplicationFolder::of(root, name, settings)).collect();
        survey
    }

    /// One application alone: nothing is evicted.
    pub(crate) fn of_one(root: &Arc<Folder>, application: &str) -> Survey {
        let survey = Survey::without_applications(root);
        let own = ApplicationFolder::of(root, application.to_owned(), &survey.settings);
        Survey { applications: own.into_iter().collect(), is_whole: false, ..survey }
    }

    fn without_applications(root: &Folder) -> Survey {
        let settings = places::read_in(root);
        let space = disk::fstatvfs(root);
        // Nothing is evicted because of an unknown free space.
        let (size, free) = space.map_or((0, u64::MAX), |space| {
            (space.f_blocks.saturating_mul(space.f_frsize), space.f_bavail.saturating_mul(space.f_frsize))
        });
        Survey { settings, is_whole: true, size, free, applications: Vec::new() }
    }

    /// None: nothing must be evicted.
    pub(crate) fn limits_to_enforce(&self) -> Option<Limits> {
        self.settings.limits_to_enforce(self.size).filter(|_| self.is_whole)
    }

    /// The space that stays free on the file system.
    pub(crate) fn free_space_floor(&self) -> u64 {
        self.settings.all().limits(self.size).free_space_floor
    }

    /// The size of everything.
    pub(crate) fn bytes(&self) -> u64 {
        self.applications.iter().map(ApplicationFolder::bytes).sum()
    }

    /// Whether something may have to be evicted. False is certain.
    pub(crate) fn needs_plan(&self, limits: &Limits, now_ms: u64) -> bool {
        let has_policy =
            |policy: Option<ModulePolicy>| policy.is_some_and(|policy| policy != ModulePolicy::All);
        self.bytes() > limits.total_bytes
            || self.applications.iter().any(|application| {
                let limit = application.settings.limit.or(limits.per_app);
                limit.is_some_and(|limit| application.bytes() > limit)
                    || has_policy(application.settings.modules.or(Some(limits.module_policy)))
                    || application.parts.iter().any(|part| {
                        part.is_of_a_device() && now_ms.saturating_sub(part.last_use) > limits.device_age
                    })
            })
    }
}

impl ApplicationFolder {
    pub(crate) fn of(
        root: &Arc<Folder>,
        name: String,
        settings: &Configuration,
    ) -> Option<ApplicationFolder> {
        let folder = root.sub(&name, false).ok()?;
        let now = unix_ms();
        let mut parts = Vec::new();
        for part in part_names(&folder) {
            // What is no folder of the user's alone is left out.
            let Ok(folder) = folder.sub(&part, false) else { continue };
            // Where one of them cannot be listed now, it is not known what the others are needed for.
            parts.push(PartFolder::of(root, &name, &folder, part, now)?);
        }
        let settings = settings.of(&name);
        // An entry without parts is not a stash.
        (!parts.is_empty()).then(|| ApplicationFolder { root: root.clone(), name, settings, parts })
    }

    /// None: it is gone, or cannot be opened now.
    pub(crate) fn open(&self) -> Option<Folder> {
        self.root.sub(&self.name, false).ok()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    /// The [`latest`] write or use, in Unix milliseconds; 0 without parts.
    pub(crate) fn last_use(&self, now: u64) -> u64 {
        latest(self.parts.iter().map(|part| part.last_use), now)
    }

    pub(crate) fn portable(&self) -> Option<&PartFolder> {
        self.parts.first().filter(|part| !part.is_of_a_device())
    }
}

impl PartFolder {
    fn of(
        root: &Arc<Folder>,
        application: &str,
        folder: &Folder,
        name: String,
        now: u64,
    ) -> Option<PartFolder> {
        let files = files(folder)?;
        let bytes = files.iter().map(|(_, bytes)| bytes).sum();
        let newest = files.last().map_or(0, |(name, _)| name::age_of(name));
        let stamp = disk::fstat(folder).map_or(0, |stat| stat.st_mtime.saturating_mul(1000));
        Some(PartFolder {
            root: root.clone(),
            application: application.to_owned(),
            name,
            files,
            bytes,
            last_use: latest([newest, u64::try_from(stamp).unwrap_or(0)], now),
        })
    }

    /// None: it is gone, or cannot be opened now.
    pub(crate) fn open(&self) -> Option<Arc<Folder>> {
        self.root.sub(&self.application, false).ok()?.sub(&self.name, false).ok().map(Arc::new)
    }

    pub(crate) fn is_of_a_device(&self) -> bool {
        self.name != "portable"
    }

    /// Whether merging may be due. False is certain.
    pub(crate) fn may_need_merging(&self) -> bool {
        self.files.len() >= FEW_FILES || self.bytes >= FEW_BYTES
    }

    /// The number of records in its sealed segments.
    pub(crate) fn records(&self) -> u64 {
        let Some(folder) = self.open() else { return 0 };
        let loaded = self.files.iter().filter_map(|(name, _)| load::load(&folder, name, None).ok());
        loaded
            .map(|loaded| loaded.segment.tally().counts.iter().map(|&count| u64::from(count)).sum::<u64>())
            .sum()
    }

    /// The identity that its segments' headers give, if it fits the folder's name.
    pub(crate) fn identity(&self, interrupted: &dyn Fn() -> bool) -> Option<PartIdentity> {
        if !self.is_of_a_device() {
            return Some(PartIdentity::Portable);
        }
        let folder = self.open()?;
        let mut headers = self
            .files
            .iter()
            .rev()
            .filter_map(|(name, _)| load::load_until(&folder, name, None, interrupted).ok()?.header)
            .map(|header| header.identity);
        headers.find(|identity| identity.has_folder(&self.name))
    }

    pub(crate) fn header(&self, interrupted: &dyn Fn() -> bool) -> Option<DeviceHeader> {
        match self.identity(interrupted)? {
            PartIdentity::Device(header) => Some(header),
            PartIdentity::Portable => None,
        }
    }

    /// Whether a running process writes to it. Where that cannot be told now, it does.
    pub(crate) fn is_open(&self) -> bool {
        let Some(folder) = self.open() else { return true };
        let open = |name: &String| match folder.open_file(name) {
            Ok((fd, _)) => locks::is_locked(&fd),
            // A file that cannot be read may be open.
            Err(refusal) => matches!(refusal, FileError::Unreadable(_)),
        };
        let Ok(guards) = folder.names(".vkg") else { return true };
        self.files.iter().rev().map(|(name, _)| name).chain(&guards).any(open)
    }
}

/// Names and sizes of the segments in a folder, oldest first. None: they cannot be read now, which does not mean that
/// there are none.
pub(crate) fn files(folder: &Folder) -> Option<Vec<(String, u64)>> {
    let mut files = Vec::new();
    for name in folder.names(".vks").ok()? {
        match disk::statat(folder, &name) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
                files.push((name, u64::try_from(stat.st_size).unwrap_or(0)));
            }
            Ok(_) => {}
            // Another process has merged it.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(_) => return None,
        }
    }
    Some(files)
}
