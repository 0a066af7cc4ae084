//! Descriptors in a program that may close them. Daemons close every descriptor that they did not open, and the
//! program's own files then get the numbers.
#![allow(unsafe_code, reason = "calls of the C library that its crates do not wrap")]

use std::ffi::CStr;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, IntoRawFd as _, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, StatxTimestamp, fstat, makedev, open, statx};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

/// The first descriptor that is not standard input, output or error, even if a program has closed those.
const FIRST: i32 = 3;

/// What identifies a file. A new file may have the inode number of a removed one, but was created later.
#[derive(Clone, Copy, Debug)]
struct Identity {
    device: u64,
    inode: u64,
    /// If the file system has a birth time.
    made: Option<(i64, u32)>,
}

impl Identity {
    fn of(fd: BorrowedFd<'_>) -> Result<Identity, Errno> {
        // These fields never change, so a network file system need not ask its server.
        Self::with_length(fd, AtFlags::STATX_DONT_SYNC).map(|(identity, _)| identity)
    }

    /// The length of the file, too.
    fn with_length(fd: BorrowedFd<'_>, flags: AtFlags) -> Result<(Identity, u64), Errno> {
        let made = |time: StatxTimestamp| (time.tv_sec, time.tv_nsec);
        let fields = StatxFlags::INO | StatxFlags::BTIME | StatxFlags::SIZE;
        match statx(fd, c"", AtFlags::EMPTY_PATH | flags, fields) {
            Ok(found) => {
                let identity = Identity {
                    device: makedev(found.stx_dev_major, found.stx_dev_minor),
                    inode: found.stx_ino,
                    made: (found.stx_mask & StatxFlags::BTIME.bits() != 0).then(|| made(found.stx_btime)),
                };
                Ok((identity, found.stx_size))
            }
            Err(Errno::BADF) => Err(Errno::BADF),
            // Old kernels do not have statx, and sandboxes refuse it.
            Err(_) => fstat(fd).map(|stat| {
                let identity = Identity { device: stat.st_dev, inode: stat.st_ino, made: None };
                (identity, u64::try_from(stat.st_size).unwrap_or(0))
            }),
        }
    }

    fn is(&self, other: &Identity) -> bool {
        let at_other_times = self.made.zip(other.made).is_some_and(|(one, other)| one != other);
        (self.device, self.inode) == (other.device, other.inode) && !at_other_times
    }
}

/// Closes a descriptor. The standard library ends a process with debug assertions in which it was closed already, which
/// is the program's right here.
fn close(fd: OwnedFd) {
    // SAFETY: `fd` owns its descriptor and gives it up here. If the program has closed the number, the call fails.
    unsafe { libc::close(fd.into_raw_fd()) };
}

/// Moves a descriptor above those of the standard streams: what a program prints would land in the file.
fn moved_up(fd: OwnedFd) -> Result<OwnedFd, Errno> {
    if fd.as_raw_fd() >= FIRST {
        return Ok(fd);
    }
    let moved = fcntl_dupfd_cloexec(&fd, FIRST);
    close(fd);
    moved
}

/// A descriptor, for one read or for the whole run. Before anything is changed through it, and before it is closed, it
/// is compared with the file that was opened. Reads do not compare, because what is read is verified. If a program
/// closes and opens a file between the comparison and the call, this does not help.
#[derive(Debug)]
pub struct Descriptor {
    fd: ManuallyDrop<OwnedFd>,
    file: Identity,
}

impl Descriptor {
    /// Takes over a descriptor that was just opened.
    pub fn new(fd: OwnedFd) -> Result<Descriptor, Errno> {
        let fd = moved_up(fd)?;
        match Identity::of(fd.as_fd()) {
            Ok(file) => Ok(Descriptor { fd: ManuallyDrop::new(fd), file }),
            Err(Errno::BADF) => {
                // The program has closed it, and may get the number for a file of its own.
                std::mem::forget(fd);
                Err(Errno::BADF)
            }
            Err(error) => {
                close(fd);
                Err(error)
            }
        }
    }

    /// Asked before a call that changes something. `BADF`: the descriptor is another file now.
    pub fn still(&self) -> Result<BorrowedFd<'_>, Errno> {
        let fd = self.fd.as_fd();
        if Identity::of(fd)?.is(&self.file) { Ok(fd) } else { Err(Errno::BADF) }
    }
}

impl Descriptor {
    /// [`Descriptor::still`], and the length of the file, with one call.
    pub fn still_with_length(&self) -> Result<(BorrowedFd<'_>, u64), Errno> {
        let fd = self.fd.as_fd();
        let (found, length) = Identity::with_length(fd, AtFlags::empty())?;
        if found.is(&self.file) { Ok((fd, length)) } else { Err(Errno::BADF) }
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRef<Descriptor> for Descriptor {
    fn as_ref(&self) -> &Descriptor {
        self
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        if self.still().is_ok() {
            // SAFETY: this is the destructor, so `self.fd` is not used after it.
            close(unsafe { ManuallyDrop::take(&mut self.fd) });
        }
    }
}

/// Bytes. The files that [`read_system_file`] reads are shorter.
const LONGEST_SYSTEM_FILE: usize = 1 << 16;

/// The content of a small file that the system makes. What stands in its place, in a container, is not waited for.
pub fn read_system_file(path: &CStr) -> Result<String, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = Descriptor::new(open(path, flags, Mode::empty())?)?;
    let (mut bytes, mut block) = (Vec::new(), [0; 1024]);
    while bytes.len() < LONGEST_SYSTEM_FILE {
        match rustix::io::read(&file, &mut block)? {
            0 => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
            read => bytes.extend_from_slice(&block[..read]),
        }
    }
    Err(Errno::FBIG)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs::File;
    use std::path::Path;

    fn descriptor(path: &Path) -> Descriptor {
        let file = File::options().create(true).read(true).write(true).truncate(false).open(path).unwrap();
        Descriptor::new(file.into()).unwrap()
    }

    /// Puts another file in its place, as in a program that closes unknown descriptors.
    fn replace(descriptor: &Descriptor, by: &File) {
        // SAFETY: both descriptors belong to this test; dup2 changes only what the second number refers to.
        assert!(unsafe { libc::dup2(by.as_raw_fd(), descriptor.as_fd().as_raw_fd()) } >= 0);
    }

    #[test]
    fn what_is_another_file_by_now_is_neither_given_out_nor_closed() {
        let folder = tempfile::tempdir().unwrap();
        let kept = descriptor(&folder.path().join("kept"));
        kept.still().unwrap();
        let other = File::create_new(folder.path().join("other")).unwrap();
        other.set_len(4).unwrap();
        replace(&kept, &other);
        assert_eq!(kept.still().unwrap_err(), Errno::BADF);
        let number = kept.as_fd().as_raw_fd();
        drop(kept);
        // SAFETY: the descriptor belongs to this test, and dropping `kept` has not closed it.
        let left: File = unsafe { std::os::fd::FromRawFd::from_raw_fd(number) };
        assert_eq!(left.metadata().unwrap().len(), 4);
    }

    #[test]
    fn small_files_of_the_system_are_read_and_endless_ones_are_not() {
        assert_eq!(read_system_file(c"/proc/self/comm").unwrap().lines().count(), 1);
        assert_eq!(read_system_file(c"/dev/zero"), Err(Errno::FBIG));
    }

    #[test]
    fn what_is_closed_by_now_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let kept = descriptor(&folder.path().join("kept"));
        // Nothing else in this program uses so high a number.
        let high = fcntl_dupfd_cloexec(&kept, 900).unwrap();
        let number = high.as_raw_fd();
        let high = Descriptor::new(high).unwrap();
        // SAFETY: the number is a descriptor that this test opened and that nothing else closes.
        assert_eq!(unsafe { libc::close(number) }, 0);
        assert_eq!(high.still().unwrap_err(), Errno::BADF);
        drop(high);
        kept.still().unwrap();
    }

    #[test]
    fn a_file_that_was_made_later_is_another_one_whatever_its_number() {
        let one = Identity { device: 1, inode: 2, made: Some((3, 4)) };
        assert!(one.is(&one) && one.is(&Identity { made: None, ..one }));
        for other in [
            Identity { device: 2, ..one },
            Identity { inode: 3, ..one },
            Identity { made: Some((3, 5)), ..one },
        ] {
            assert!(!one.is(&other), "{other:?}");
        }
    }

    #[test]
    fn the_ways_of_asking_agree() {
        let folder = tempfile::tempdir().unwrap();
        let kept = descriptor(&folder.path().join("kept"));
        let stat = fstat(&kept).unwrap();
        assert_eq!((kept.file.device, kept.file.inode), (stat.st_dev, stat.st_ino));
        assert_eq!(kept.still_with_length().unwrap().1, 0);
        crate::signals::write(&kept, b"three").unwrap();
        assert_eq!(kept.still_with_length().unwrap().1, 5);
    }
}
