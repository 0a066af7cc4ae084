//! Model of power cuts, for tests: a file keeps its synced content, and a folder has either its present names or the
//! synced ones. What was removed is gone at once, as POSIX allows. There is one model for the process, like the plan of
//! faults.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use vkstash_host::sync::Mutex;

use super::faults;

/// The folders, as `None`, and the files below the root.
pub(crate) type Image = BTreeMap<PathBuf, Option<Arc<[u8]>>>;

struct Model {
    root: PathBuf,
    /// What the disk has of a file, by its number. The open file keeps the number from being given to another one.
    files: HashMap<u64, (Arc<[u8]>, File)>,
    /// The numbers of the files of a folder.
    names: HashMap<u64, BTreeMap<PathBuf, u64>>,
    images: HashSet<Image>,
}

static ACTIVE: AtomicBool = AtomicBool::new(false);
static MODEL: Mutex<Option<Model>> = Mutex::new(None);

/// All that is below `root` counts as synced.
pub(crate) fn begin(root: &Path) {
    let (files, names, images) = Default::default();
    let mut model = Model { root: root.to_owned(), files, names, images };
    model.take_all(root);
    faults::watch();
    *MODEL.lock() = Some(model);
    ACTIVE.store(true, Ordering::SeqCst);
}

/// What power cuts before each operation since then would have left.
pub(crate) fn end() -> HashSet<Image> {
    ACTIVE.store(false, Ordering::SeqCst);
    MODEL.lock().take().map(|model| model.images).unwrap_or_default()
}

/// Before each operation.
pub(crate) fn may_be_cut() {
    if !ACTIVE.load(Ordering::Relaxed) {
        return;
    }
    let mut locked = MODEL.lock();
    let Some(model) = locked.as_mut() else { return };
    for all_names in [true, false] {
        let mut image = Image::new();
        model.image(&model.root, all_names, &mut image);
        model.images.insert(image);
    }
}

/// After a file or a folder was synced.
pub(crate) fn was_synced(fd: BorrowedFd<'_>) {
    if !ACTIVE.load(Ordering::Relaxed) {
        return;
    }
    if let Some(model) = MODEL.lock().as_mut() {
        model.take(&PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd())).read_link().unwrap());
    }
}

impl Model {
    fn take_all(&mut self, path: &Path) {
        self.take(path);
        for entry in fs::read_dir(path).into_iter().flatten() {
            self.take_all(&entry.unwrap().path());
        }
    }

    fn take(&mut self, path: &Path) {
        let mut file = File::open(path).unwrap();
        let about = file.metadata().unwrap();
        if about.is_dir() {
            self.names.insert(about.ino(), numbers(path));
        } else {
            let mut content = Vec::new();
            file.read_to_end(&mut content).unwrap();
            self.files.insert(about.ino(), (content.into(), file));
        }
    }

    fn image(&self, folder: &Path, all_names: bool, image: &mut Image) {
        let relative = |path: &Path| path.strip_prefix(&self.root).unwrap().to_owned();
        image.insert(relative(folder), None);
        let now = numbers(folder);
        let synced = fs::metadata(folder).ok().and_then(|about| self.names.get(&about.ino()));
        for (path, number) in &now {
            let number = match synced.and_then(|synced| synced.get(path)) {
                Some(synced) if !all_names => synced,
                None if !all_names => continue,
                _ => number,
            };
            if path.is_dir() {
                self.image(path, all_names, image);
            } else {
                let content = self.files.get(number).map(|(content, _)| content.clone());
                image.insert(relative(path), Some(content.unwrap_or_default()));
            }
        }
    }
}

fn numbers(folder: &Path) -> BTreeMap<PathBuf, u64> {
    let entries = fs::read_dir(folder).into_iter().flatten().map_while(Result::ok);
    // One that another thread has removed meanwhile is gone.
    entries.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?.ino()))).collect()
}
