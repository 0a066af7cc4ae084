//! An application's folder and the root above it, opened by whoever needs them first: in a program that is a thread of
//! ours, because nobody knows how long a disk takes.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::base::util::lock;
use crate::disk::folder::Folder;
use crate::format::refusal::OpenError;

/// How often a folder is opened again that another process removes because it is empty.
const ATTEMPTS: usize = 16;
/// How long each of them waits.
const ATTEMPT_AFTER: Duration = Duration::from_millis(1);

/// Where an application's stash is.
pub(crate) struct Home {
    path: PathBuf,
    application: String,
    opened: OnceLock<Opened>,
    /// Held while the folders are opened.
    opening: Mutex<()>,
}

/// The two folders, open.
pub(crate) struct Opened {
    /// The folder of all applications.
    pub(crate) root: Arc<Folder>,
    /// The application's own, whose lock is held: nobody removes it while it is empty.
    pub(crate) folder: Folder,
}

impl Home {
    /// Nothing is opened yet.
    pub(crate) fn new(root: &Path, application: &str) -> Home {
        let (opened, opening) = (OnceLock::new(), Mutex::default());
        Home { path: root.to_owned(), application: application.to_owned(), opened, opening }
    }

    /// The application's folder below the root.
    pub(crate) fn application(&self) -> &str {
        &self.application
    }

    /// The folders, opened and made now where that has not been done. Waits for the disk.
    pub(crate) fn open(&self) -> Result<&Opened, OpenError> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let _opening = lock(&self.opening);
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let root = Arc::new(Folder::root(&self.path, true)?);
        let folder = self.held(&root)?;
        Ok(self.opened.get_or_init(|| Opened { root, folder }))
    }

    /// Whether they are open.
    pub(crate) fn is_open(&self) -> bool {
        self.opened.get().is_some()
    }

    fn held(&self, root: &Folder) -> Result<Folder, OpenError> {
        for _ in 0..ATTEMPTS {
            let folder = root.sub(&self.application, true)?;
            if folder.hold(root, &self.application) {
                return Ok(folder);
            }
            // Whoever removes it has its lock for that long.
            std::thread::sleep(ATTEMPT_AFTER);
        }
        root.sub(&self.application, true)
    }
}
