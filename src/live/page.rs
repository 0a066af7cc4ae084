//! The shared memory of the live page: a file without a name, which other processes can only read.

use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use vkstash_host::descriptor::Descriptor;
use vkstash_host::forks as fork;
use vkstash_host::signals;
use vkstash_host::util::unix_ms;
use vkstash_model::live::{MAGIC, NAME, SIZE, VERSION, header};

const NUMBERS: usize = SIZE / size_of::<AtomicU64>();

/// Why there is no page.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(super) enum PageError {
    #[error("cannot create its file: {0}")]
    Create(Errno),
    #[error("cannot write it: {0}")]
    Write(Errno),
    #[error("there is no memory for it")]
    Short,
    #[error("cannot seal it: {0}")]
    Seal(Errno),
    #[error("cannot map it: {0}")]
    Map(Errno),
}

/// The page, mapped into this process.
pub(super) struct Page {
    numbers: NonNull<[AtomicU64; NUMBERS]>,
    /// The process, as [`fork::now`] numbers it, whose page it is.
    pub(super) process: u32,
    /// A moment, and what CLOCK_MONOTONIC said then.
    moment: (Instant, u64),
    /// Open for other processes to find. The program may close it, or have another file there: it is not used again,
    /// and closed only if it still is this file.
    file: Descriptor,
}

// SAFETY: the memory is shared, changed by atomic operations alone, and unmapped only when the page is dropped.
unsafe impl Send for Page {}
// SAFETY: the same memory; no operation on it needs a certain thread.
unsafe impl Sync for Page {}

impl Page {
    pub(super) fn make(application: &str, folder: Option<&Path>) -> Result<Page, PageError> {
        let file = create().map_err(PageError::Create)?;
        // Writing allocates the memory: where it is lacking this is an error, and a store later would be a signal.
        let mut written = 0;
        while written < SIZE {
            match signals::pwrite(&file, &[0; SIZE][written..], written as u64) {
                Ok(0) => return Err(PageError::Short),
                Ok(count) => written += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(PageError::Write(error)),
            }
        }
        let page = Page { numbers: map(&file)?, process: fork::here(), moment: moment(), file };
        // Nobody can take the memory away from below the mapping: a store raises no signal.
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&page.file, seals | SealFlags::FUTURE_WRITE)
            // Linux before 5.1: who may write may also make holes, which the kernel fills again.
            .or_else(|_| fcntl_add_seals(&page.file, seals))
            .map_err(PageError::Seal)?;
        page.describe(application, folder);
        Ok(page)
    }

    fn describe(&self, application: &str, folder: Option<&Path>) {
        let numbers = [
            (header::VERSION, VERSION),
            (header::SIZE, SIZE as u64),
            (header::PID, std::process::id().into()),
            (header::UNIX_MS, unix_ms()),
            (header::MONOTONIC_NS, self.moment.1),
        ];
        for (at, value) in numbers {
            self.number(at).store(value, Ordering::Relaxed);
        }
        let folder = folder.map(|folder| folder.as_os_str().as_bytes()).unwrap_or_default();
        self.put_text(header::APPLICATION, header::APPLICATION_BYTES, application.as_bytes());
        self.put_text(header::FOLDER, header::FOLDER_BYTES, folder);
        // Last: a reader that finds it finds the rest.
        self.number(header::MAGIC).store(MAGIC, Ordering::Release);
    }

    fn put_text(&self, at: usize, most: usize, text: &[u8]) {
        let text = &text[..text.len().min(most)];
        self.number(at).store(text.len() as u64, Ordering::Relaxed);
        for (place, bytes) in text.chunks(size_of::<u64>()).enumerate() {
            let mut number = [0; size_of::<u64>()];
            number[..bytes.len()].copy_from_slice(bytes);
            self.number(at + 1 + place).store(u64::from_ne_bytes(number), Ordering::Relaxed);
        }
    }

    /// One number of the page.
    #[inline]
    pub(super) fn number(&self, at: usize) -> &AtomicU64 {
        // SAFETY: `map` has mapped as many numbers, aligned to a page, and they stay mapped until the page is dropped.
        let numbers = unsafe { self.numbers.as_ref() };
        &numbers[at]
    }

    /// Whether this process has made it. A forked child has it mapped, and must not write it.
    #[inline]
    pub(super) fn is_own(&self) -> bool {
        self.process == fork::now()
    }

    /// What CLOCK_MONOTONIC said at that moment: without asking it again.
    #[inline]
    pub(super) fn monotonic(&self, at: Instant) -> u64 {
        let (moment, said) = self.moment;
        said.saturating_add(at.saturating_duration_since(moment).as_nanos() as u64)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and nothing refers to it after this.
        unsafe { libc::munmap(self.numbers.as_ptr().cast(), SIZE) };
    }
}

/// An empty file in memory. Linux from 6.3 on wants to know that it is no program, and may refuse it otherwise.
fn create() -> Result<Descriptor, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let created = match memfd_create(NAME, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => memfd_create(NAME, flags),
        created => created,
    };
    Descriptor::new(created?)
}

fn map(file: &Descriptor) -> Result<NonNull<[AtomicU64; NUMBERS]>, PageError> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // Populated here, so that no call of the program's pays for it.
    let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
    let file = file.still().map_err(PageError::Map)?.as_raw_fd();
    // SAFETY: a new mapping of a file that has these bytes, at an address of the kernel's choice.
    let mapped = unsafe { libc::mmap(null_mut(), SIZE, access, flags, file, 0) };
    if mapped == libc::MAP_FAILED {
        let error = std::io::Error::last_os_error();
        return Err(PageError::Map(Errno::from_io_error(&error).unwrap_or(Errno::NOMEM)));
    }
    NonNull::new(mapped.cast()).ok_or(PageError::Map(Errno::NOMEM))
}

fn moment() -> (Instant, u64) {
    let said = clock_gettime(ClockId::Monotonic);
    let now = Instant::now();
    let seconds = Duration::from_secs(u64::try_from(said.tv_sec).unwrap_or_default());
    (now, (seconds + Duration::from_nanos(said.tv_nsec as u64)).as_nanos() as u64)
}

#[cfg(test)]
impl Page {
    /// What a reader gets.
    pub(super) fn read(&self) -> Vec<u8> {
        use std::os::unix::fs::FileExt as _;

        use std::os::fd::AsFd as _;

        let file = std::fs::File::from(self.file.as_fd().try_clone_to_owned().unwrap());
        let mut bytes = vec![0; SIZE];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::FileExt as _;

    use vkstash_model::live::Live;

    use super::*;

    #[test]
    fn a_page_says_whose_it_is() {
        let folder = format!("/{}", "d/".repeat(2000));
        let page = Page::make("gåme", Some(Path::new(&folder))).unwrap();
        let read = page.read();
        let live = Live::of(&read, &read, &read).unwrap();
        assert_eq!((live.pid, live.application.as_str()), (u64::from(std::process::id()), "gåme"));
        assert!(folder.starts_with(&live.folder) && live.folder.len() == header::FOLDER_BYTES);
        assert!(live.calls.is_empty() && live.counters.iter().all(|&count| count == 0));
    }

    #[test]
    fn nobody_else_can_change_it_or_take_its_memory_away() {
        let page = Page::make("sealed", None).unwrap();
        let path = format!("/proc/self/fd/{}", page.file.as_fd().as_raw_fd());
        let other = File::options().read(true).write(true).open(path).unwrap();
        assert!(other.set_len(0).is_err() && other.set_len(1 << 20).is_err());
        assert!(other.write_at(b"x", 0).is_err());
        page.number(header::PAUSED).store(1, Ordering::Relaxed);
        let read = page.read();
        assert!(Live::of(&read, &read, &read).unwrap().is_paused);
    }

    #[test]
    fn moments_are_those_of_the_clock() {
        let page = Page::make("moments", None).unwrap();
        let (before, now, after) = (moment().1, Instant::now(), moment().1);
        let said = page.monotonic(now);
        // The two clocks are read one after the other.
        const SLACK: u64 = 10_000_000_000;
        assert!(before.saturating_sub(SLACK) <= said && said <= after + SLACK, "{before} {said} {after}");
    }
}
