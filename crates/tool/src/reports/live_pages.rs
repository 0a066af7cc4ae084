//! The live pages of processes: memory files that they have open (docs/format.md).

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use vkstash_model::live::{self, LINK, Live, LiveError, SIZE};

/// The pages that are known, and open.
#[derive(Default)]
pub(crate) struct Finder {
    pages: Vec<Page>,
}

/// The page of this process.
pub(crate) fn page_of(pid: u32) -> Option<Page> {
    let mut finder = Finder::default();
    finder.look_into(pid, Path::new(&format!("/proc/{pid}/fd")));
    finder.pages.pop()
}

/// The page of a running process.
pub(crate) struct Page {
    pid: u32,
    /// The link in the process's folder of descriptors: as long as it is there, the process lives.
    link: PathBuf,
    inode: u64,
    file: File,
}

impl Finder {
    /// Looks for processes that have begun.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        for entry in fs::read_dir("/proc")? {
            // Processes may end meanwhile, and those of others may not be looked into.
            let Ok(entry) = entry else { continue };
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if let Some(pid) = pid {
                self.look_into(pid, &entry.path().join("fd"));
            }
        }
        Ok(())
    }

    fn look_into(&mut self, pid: u32, descriptors: &Path) {
        for entry in fs::read_dir(descriptors).into_iter().flatten().flatten() {
            let link = entry.path();
            if !is_live(&link) {
                continue;
            }
            let Some(page) = Page::open(pid, link) else { continue };
            if !self.pages.iter().any(|known| (known.pid, known.inode) == (pid, page.inode)) {
                self.pages.push(page);
            }
        }
    }

    /// What the processes that still run say now.
    pub(crate) fn read(&mut self) -> Vec<(u32, Result<Live, LiveError>)> {
        self.pages.retain(|page| is_live(&page.link));
        self.pages.iter().map(|page| (page.pid, page.read())).collect()
    }
}

/// Whether a descriptor is a live page.
fn is_live(link: &Path) -> bool {
    fs::read_link(link).is_ok_and(|target| target.as_os_str() == LINK)
}

impl Page {
    /// None: it is gone, or that of a parent, which forked children have open, too.
    fn open(pid: u32, link: PathBuf) -> Option<Page> {
        // What stands there by now may be something else, which would be waited for.
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(&link).ok()?;
        let metadata = file.metadata().ok().filter(|metadata| metadata.is_file())?;
        let page = Page { pid, link, inode: metadata.ino(), file };
        let is_of_another = live::pid(&page.bytes()).is_some_and(|own| Some(own) != innermost(pid));
        (!is_of_another).then_some(page)
    }

    /// What the process says now.
    pub(crate) fn read(&self) -> Result<Live, LiveError> {
        let [before, between, after] = [(); 3].map(|()| self.bytes());
        Live::of(&before, &between, &after)
    }

    /// The bytes of the page, fewer where it is shorter.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; SIZE];
        let read = self.file.read_at(&mut bytes, 0).unwrap_or(0);
        bytes.truncate(read);
        bytes
    }
}

/// The number that the process has in its own container.
fn innermost(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    // Kernels without namespaces do not have the line.
    numbers.map_or(Some(u64::from(pid)), |numbers| numbers.split_whitespace().last()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_outside_of_containers_has_one_number() {
        let own = std::process::id();
        let innermost = innermost(own);
        assert!(innermost.is_some_and(|number| number > 0), "{innermost:?}");
    }

    #[test]
    fn other_descriptors_are_no_pages() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "vkstlive").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(!is_live(&link) && !is_live(&file));
        let page = Page::open(1, file).map(|page| page.read());
        assert!(page.is_none(), "it is not that of process 1");
    }
}
