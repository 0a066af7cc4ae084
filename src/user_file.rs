//! Files that the user names and the layer appends to: the log and the trace.

use std::io;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, unlinkat};
use rustix::io::Errno;

use vkstash_host::descriptor::Descriptor;
use vkstash_host::owner;

/// A regular file of the user's own, made where missing; or why not. Anybody may have put something else at a path in
/// a folder that all may write to, and opening a pipe would wait for its reader.
pub fn open(path: &Path, access: OFlags) -> Result<Descriptor, String> {
    let failed = |error: Errno| match error {
        Errno::LOOP => "a symbolic link".to_owned(),
        Errno::NXIO => "not a regular file".to_owned(),
        error => io::Error::from(error).to_string(),
    };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = rustix::fs::open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let folder = folder.map_err(failed)?;
    let name = path.file_name().ok_or("not a regular file")?;
    let flags = access | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = flags | OFlags::CLOEXEC;
    let made = openat(&folder, name, flags | OFlags::CREATE | OFlags::EXCL, Mode::RUSR | Mode::WUSR);
    let file = match made {
        Ok(file) => {
            let file = Descriptor::new(file).map_err(failed)?;
            let handed_over = owner::hand_over(&file, &folder);
            if handed_over.is_err() {
                let _ = unlinkat(&folder, name, AtFlags::empty());
            }
            return handed_over.map(|()| file).map_err(|error| error.to_string());
        }
        Err(Errno::EXIST) => openat(&folder, name, flags, Mode::empty()),
        Err(error) => Err(error),
    };
    let file = file.and_then(Descriptor::new).map_err(failed)?;
    let stat = fstat(&file).map_err(failed)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err("not a regular file".to_owned());
    }
    if !owner::is_ours(stat.st_uid, &folder) {
        return Err(format!("belongs to user {}", stat.st_uid));
    }
    if stat.st_nlink > 1 {
        return Err("has another name as well".to_owned());
    }
    Ok(file)
}
