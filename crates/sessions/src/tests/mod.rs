//! The behaviour of sessions, and their faults.
mod control;
mod crash;
mod damage;
mod golden;
mod hostile;
mod model;
mod places;
mod processes;
mod semantics;
mod threads;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use vkstash_host::disk::folder::Folder;
use vkstash_model::app_name::AppName;

use crate::description::{Adapter, Description, Guid, Mode, Place};
use crate::disk::files::{Files, Location, Versions};
use crate::disk::names::Names;
use crate::error::Error;
use crate::format::{self, Identity};
use crate::session::Session;

thread_local! {
    /// The number of the next value files of this thread, in place of a random one.
    pub(crate) static NUMBER: Cell<Option<u64>> = const { Cell::new(None) };
}

const VARIABLE: &str = "VKSTASH_TEST_CHILD";
const FOLDER: &str = "VKSTASH_TEST_FOLDER";

/// A stash of its own for each test, in memory if there is such a folder: a file system on a disk may flush each of the
/// thousands of files that the tests replace.
fn root() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn place(root: &Path) -> Place {
    Place::new(root, &AppName::new(Some(b"test"), b"/bin/test"))
}

/// The folder of the session files.
fn folder(root: &Path) -> PathBuf {
    root.join(place(root).application()).join("sessions")
}

/// The identifier of most tests.
const GUID: Guid = Guid([7; 16]);

fn disk() -> Description {
    Description {
        identifier: GUID,
        mode: Mode::Disk,
        driver_versioned: false,
        working_directory: false,
        maximum_in_memory_bytes: 0,
        maximum_in_memory_entries: 0,
        maximum_value_file_bytes: 0,
        version: 1,
    }
}

fn adapter(adapter: &str, driver: &str) -> Adapter {
    Adapter { adapter: adapter.into(), driver: driver.into() }
}

fn create(root: &Path, description: &Description) -> Result<Session, Error> {
    Session::create(description, Some(&place(root)), None)
}

fn open(root: &Path) -> Session {
    patiently(|| create(root, &disk()))
}

/// Tries again what another process keeps waiting for too long, because the machine is busy.
fn patiently<T>(mut call: impl FnMut() -> Result<T, Error>) -> T {
    for _ in 0..10_000 {
        match call() {
            Err(Error::NotCurrentlyAvailable(_)) => std::thread::sleep(std::time::Duration::from_millis(1)),
            other => return other.unwrap(),
        }
    }
    panic!("not available for a long time");
}

/// The files of the usual cache, apart from all sessions: like another process, as far as locks and files go.
fn files(root: &Path) -> Result<Files, Error> {
    let folder = Folder::root(&folder(root), true).unwrap();
    let identity = Identity { identifier: GUID.0, version: 1, driver: [0; 32], number: 0 };
    Files::open(Location::Working(folder), Names::of(&GUID.text()), identity, Versions::Own)
}

fn path(root: &Path, end: &str) -> PathBuf {
    folder(root).join(format!("{}.{end}", GUID.text()))
}

/// The value of a key.
fn get(session: &Session, key: &[u8]) -> Result<Vec<u8>, Error> {
    let length = session.find(key, None)?;
    let mut value = vec![0; length];
    assert_eq!(session.find(key, Some(&mut value))?, length);
    Ok(value)
}

fn get_from(files: &Files, key: &[u8]) -> Result<Vec<u8>, Error> {
    files.find(
        format::hash(key),
        key,
        |_| true,
        |_, found| match found {
            crate::disk::files::Answer::Value(value) => value.to_vec(),
            crate::disk::files::Answer::Length(_) => panic!("the value was asked for"),
        },
    )
}

fn store_in(files: &Files, key: &[u8], value: &[u8]) -> Result<(), Error> {
    files.store(format::hash(key), key, value, 1 << 30).map(|_| ())
}

/// A key for a number.
fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
    key[8..].copy_from_slice(&number.to_le_bytes());
    key
}

/// The value of this number's entry, of 1 to 300 bytes.
fn value(number: u64) -> Vec<u8> {
    let length = 1 + format::hash(&number.to_le_bytes()) as usize % 300;
    (0..length).map(|at| format::hash(&[number as u8, at as u8]) as u8).collect()
}

/// This test again, as a process of its own.
fn child(test: &str, root: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--nocapture"]).env(VARIABLE, test).env(FOLDER, root).stdout(Stdio::null());
    command
}

/// The folder, if this process is a child for that test.
fn folder_of_child(test: &str) -> Option<PathBuf> {
    std::env::var_os(VARIABLE).filter(|child| child == test)?;
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// Waits until it says true.
fn await_that(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !is_so() {
        assert!(began.elapsed().as_secs() < 600, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// A child that has the usual cache open until its standard input ends.
struct Other(std::process::Child);

impl Other {
    fn start(test: &str, root: &Path) -> Other {
        let mut child = child(test, root).stdin(Stdio::piped()).spawn().unwrap();
        let ready = root.join("ready");
        await_that("the child opens the cache", || {
            assert_eq!(child.try_wait().unwrap(), None, "the child has ended");
            ready.exists()
        });
        std::fs::remove_file(ready).unwrap();
        Other(child)
    }

    /// In the child: says that the cache is open, and waits for the end.
    fn wait(root: &Path) {
        std::fs::write(root.join("ready"), []).unwrap();
        let _ = std::io::Read::read(&mut std::io::stdin(), &mut [0]);
    }

    fn end(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Runs `body` in a forked child. Returns its exit status.
fn forked(body: impl FnOnce() -> i32) -> i32 {
    let mut status = 0;
    // SAFETY: the child allocates, which the C library allows, and exits at once; the status is on this stack.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(body()),
            child => assert_eq!(libc::waitpid(child, &mut status, 0), child),
        }
    }
    assert!(libc::WIFEXITED(status), "{status}");
    libc::WEXITSTATUS(status)
}
