//! The folders of an application and of the root, opened on first use: by a thread of the program if that is quick,
//! otherwise by a thread of the layer.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use vkstash_host::disk::errors::OpenError;
use vkstash_host::disk::folder::Folder;
use vkstash_host::once::OnceLock;
use vkstash_host::sync::Mutex;
use vkstash_host::timer::never;
use vkstash_model::app_name::AppName;

/// How often a folder is opened again if another process removes it because it is empty.
const ATTEMPTS: usize = 16;
/// The time between two attempts.
const ATTEMPT_AFTER: Duration = Duration::from_millis(1);
/// Bases after these are ignored.
pub const MOST_BASES: usize = 16;

/// Where an application's stash is.
pub struct Home {
    path: PathBuf,
    application: String,
    /// The bases that the process was told of: stashes that are looked into after this one, and never written.
    bases: Vec<PathBuf>,
    /// `bases` and the bases of the settings, once the settings are read.
    all_bases: OnceLock<Vec<PathBuf>>,
    opened: OnceLock<Opened>,
    /// Locked while the folders are opened.
    opening: Mutex<()>,
}

/// The open folders.
pub struct Opened {
    /// The folder of all applications.
    pub root: Arc<Folder>,
    /// The application's folder, with a shared lock, so that no process removes it while it is empty.
    pub folder: Folder,
}

impl Home {
    /// Opens nothing.
    pub fn new(root: &Path, application: &str) -> Home {
        Home::with_bases(root, application, Vec::new()).without_bases_of_settings()
    }

    /// Opens nothing. `bases` are stashes that are only read; `add_bases` adds those of the settings.
    pub fn with_bases(root: &Path, application: &str, bases: Vec<PathBuf>) -> Home {
        let (path, application) = (root.to_owned(), application.to_owned());
        let (all_bases, opened, opening) = Default::default();
        Home { path, application, bases, all_bases, opened, opening }
    }

    /// The settings are not asked.
    pub(crate) fn without_bases_of_settings(self) -> Home {
        self.add_bases(&[]);
        self
    }

    /// The stashes that are only read, in the order in which they are looked into. Those that the settings name are
    /// added at the end, once.
    pub(crate) fn bases(&self) -> &[PathBuf] {
        self.all_bases.get().unwrap_or(&self.bases)
    }

    /// Whether [`Home::bases`] has those of the settings.
    pub(crate) fn knows_bases(&self) -> bool {
        self.all_bases.get().is_some()
    }

    /// Adds those of the settings. Only the first call counts.
    pub(crate) fn add_bases(&self, of_settings: &[PathBuf]) {
        let mut all = self.bases.clone();
        for base in of_settings {
            if all.len() < MOST_BASES && !all.contains(base) {
                all.push(base.clone());
            }
        }
        let _ = self.all_bases.set(all);
    }

    /// The application's folder in a stash that is only read, or else the first one there that is of another
    /// installation of it ([`AppName::are_kin`]). None: it has none, as a base may.
    pub(crate) fn open_base(
        &self,
        base: &Path,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Option<Folder>, OpenError> {
        let root = match Folder::base_until(base, interrupted) {
            Err(error) if error.is_missing() && base.is_dir() => return Ok(None),
            root => root?,
        };
        match root.sub_until(&self.application, false, interrupted) {
            Err(error) if error.is_missing() => {}
            opened => return opened.map(Some),
        }
        let unreadable = |source| OpenError::Unreadable { path: base.to_owned(), source };
        let (names, complete) = root.names_until("", interrupted).map_err(unreadable)?;
        match names.iter().find(|name| AppName::are_kin(name, &self.application)) {
            Some(kin) => root.sub_until(kin, false, interrupted).map(Some),
            None if complete => Ok(None),
            None => Err(OpenError::PutOff { path: base.to_owned() }),
        }
    }

    /// The name of the application's folder.
    pub(crate) fn application(&self) -> &str {
        &self.application
    }

    /// The folders, opened or created now if they are not open. May wait for the disk.
    pub fn open(&self) -> Result<&Opened, OpenError> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let _opening = self.opening.lock();
        self.open_locked(&never)
    }

    /// [`Home::open`] that gives [`OpenError::PutOff`] when `interrupted` says true, or another thread opens the
    /// folders.
    pub(crate) fn open_until(&self, interrupted: &dyn Fn() -> bool) -> Result<&Opened, OpenError> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let _opening =
            self.opening.try_lock().ok_or_else(|| OpenError::PutOff { path: self.path.clone() })?;
        self.open_locked(interrupted)
    }

    fn open_locked(&self, interrupted: &dyn Fn() -> bool) -> Result<&Opened, OpenError> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let root = Arc::new(Folder::root_until(&self.path, true, interrupted)?);
        let folder = self.held(&root, interrupted)?;
        Ok(self.opened.get_or_init(|| Opened { root, folder }))
    }

    /// Whether the folders are open.
    pub(crate) fn is_open(&self) -> bool {
        self.opened.get().is_some()
    }

    fn held(&self, root: &Folder, interrupted: &dyn Fn() -> bool) -> Result<Folder, OpenError> {
        for _ in 0..ATTEMPTS {
            let folder = root.sub_until(&self.application, true, interrupted)?;
            if interrupted() {
                return Err(OpenError::PutOff { path: folder.path().to_owned() });
            }
            if folder.hold(root, &self.application) {
                return Ok(folder);
            }
            // A process that removes the folder holds its lock.
            std::thread::sleep(ATTEMPT_AFTER);
        }
        // The process that removes the folder is slow, or stopped. The folder is used without the lock: only an empty
        // folder can be removed, nothing can be created in a removed one, and then this run records nothing.
        root.sub_until(&self.application, true, interrupted)
    }
}
