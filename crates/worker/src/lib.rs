//! A worker process of `vkstash prewarm` (docs/prewarm.md): it loads the layer library and lets it serve the parent.
//! All Vulkan code of a worker is in that library, so that a worker makes of a recipe what this version of the layer
//! asks for.
//!
//! A process loads libraries of its own pointer width only. The tool is the worker for that width; for the other one
//! there is the program `vkstash-worker`, which is small because packages ship it beside the library.

use std::ffi::{CString, OsStr, c_int, c_void};
use std::io;
use std::os::fd::{AsFd, IntoRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;

/// `vkstash_prewarm_worker` of the layer library.
type Worker = unsafe extern "C" fn(c_int, c_int) -> c_int;

/// Serves the parent with this library, until the input ends. The library says with which status.
pub fn serve(library: &OsStr) -> io::Result<ExitCode> {
    let input = private(rustix::stdio::stdin())?;
    let output = output_for_answers()?;
    // A driver must not read the requests.
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    let worker = load(library)?;
    // SAFETY: the exported function takes two descriptors, which belong to it from now on.
    let status = unsafe { worker(input.into_raw_fd(), output.into_raw_fd()) };
    Ok(ExitCode::from(u8::try_from(status).unwrap_or(1)))
}

/// Standard output for the answers of this process alone: whatever a driver prints goes to standard error from now on.
pub fn output_for_answers() -> io::Result<OwnedFd> {
    let output = private(rustix::stdio::stdout())?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok(output)
}

/// A descriptor of the same file that no standard stream has.
fn private(stream: impl AsFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(stream, 3)?)
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
