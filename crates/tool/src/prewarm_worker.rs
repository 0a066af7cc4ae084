//! The hidden command `vkstash prewarm-worker LIBRARY`: loads the layer library and lets it serve the parent. All
//! Vulkan code of a worker is in that library, so that a worker makes of a recipe what this version of the layer asks
//! for.

use std::ffi::{CString, OsStr, c_int, c_void};
use std::io;
use std::os::fd::IntoRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;

use crate::start;

/// `vkstash_prewarm_worker` of the layer library.
type Worker = unsafe extern "C" fn(c_int, c_int) -> c_int;

pub(crate) fn main(library: &OsStr) -> ExitCode {
    match run(library) {
        Ok(status) => ExitCode::from(u8::try_from(status).unwrap_or(1)),
        Err(error) => {
            crate::output::eprint_line(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(library: &OsStr) -> io::Result<c_int> {
    let input = start::private(rustix::stdio::stdin())?;
    let output = start::output_for_answers()?;
    // A driver must not read the requests.
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    let worker = load(library)?;
    // SAFETY: the exported function takes two descriptors, which belong to it from now on.
    Ok(unsafe { worker(input.into_raw_fd(), output.into_raw_fd()) })
}

fn load(library: &OsStr) -> io::Result<Worker> {
    let path = CString::new(library.as_bytes())?;
    // SAFETY: both names end with a zero; the library is this project's, whose initialisers have no preconditions, and
    // the function has this type.
    unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        let missing =
            || io::Error::other(format!("{} is no layer library of this version", library.to_string_lossy()));
        if handle.is_null() {
            return Err(missing());
        }
        let symbol = libc::dlsym(handle, c"vkstash_prewarm_worker".as_ptr());
        if symbol.is_null() {
            return Err(missing());
        }
        Ok(std::mem::transmute::<*mut c_void, Worker>(symbol))
    }
}
