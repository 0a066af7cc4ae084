//! Guest library: a function that C programs call, and that harms none of them. It counts its calls in a file.
//!
//! A panic ends in `guard`, a forked child counts for itself, a full disk or a closed descriptor is an error and no
//! signal, and another user's folder is refused.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use vkstash_host::disk::folder::{Folder, write_all_at};
use vkstash_host::forks::PerProcess;
use vkstash_host::guard;

/// A forked child begins at 0.
static CALLS: PerProcess<AtomicU32> = PerProcess::empty();

/// Counts a call. 0: it was written down.
extern "C" fn guest_call() -> i32 {
    // The log of this library is the one of the program.
    guard::prepare(|| ());
    guard::guard("guest_call", || count().map_or(1, |()| 0), || 1)
}

fn count() -> Result<(), Box<dyn std::error::Error>> {
    let calls = CALLS.get().fetch_add(1, Ordering::Relaxed) + 1;
    let place = std::env::temp_dir().join(format!("guest-{}", std::process::id()));
    let folder = Folder::root(Path::new(&place), true)?;
    let file = folder.create_file(&format!("call-{calls}"))?;
    write_all_at(&file, calls.to_string().as_bytes(), 0).map_err(|(_, error)| error)?;
    folder.remove_file(&format!("call-{calls}"))?;
    Ok(std::fs::remove_dir(place)?)
}

fn main() {
    println!("the call was {}", if guest_call() == 0 { "counted" } else { "not counted" });
}
