//! Local state of a store: the base that programs look into, the accepted manifests, and parts of downloads
//! (docs/remote.md).
//!
//! ```text
//! base/<application>/...                what VKSTASH_BASE names
//! state/<application>/<target>          the accepted manifest, as it was signed
//! state/<application>/<target>.etag     what the store called it
//! state/<application>/revocations       the accepted list
//! tmp/                                  parts of downloads
//! old/<application>/                    what was replaced or put aside last, for programs that have it open
//! pushed/<application>/<target>/<sha256> keys that this machine has published
//! signers                               the path of the file that the last pull read instead of signers.toml
//! lock                                  of a pull, alone; its time of modification is that of the last pull
//! working                               of everything that has a folder in tmp/, shared
//! ```

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use rustix::fs::{CWD, FlockOperation, RenameFlags};
use rustix::io::Errno;

use tempfile::TempDir;

use vkstash_model::app_name::AppName;
use vkstash_model::record::{CRASH_LIMIT, Kind};
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::stash::open::Stash;

use crate::names::{self, Digest, Target};
use crate::room::Room;

/// Where what is known of a store is.
pub struct Home {
    dir: PathBuf,
    /// What the limit of the stash leaves for bases. None: it does not count here.
    room: Option<Room>,
}

/// Nobody else changes the folder while this lives.
pub struct Locked(File);

impl Locked {
    /// When the last pull was, in seconds since 1970.
    pub(crate) fn last_pull(&self) -> Option<u64> {
        let modified = self.0.metadata().and_then(|found| found.modified()).ok()?;
        modified.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
    }

    pub(crate) fn note_pull(&self, now: u64) -> io::Result<()> {
        self.0.set_modified(UNIX_EPOCH + Duration::from_secs(now))
    }
}

/// A folder in `tmp/` that no pull removes while this lives.
pub(crate) struct Working {
    folder: TempDir,
    _locked: File,
}

impl Working {
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// What an application's folder in the base is to have.
#[derive(Default)]
pub(crate) struct Wanted {
    /// The files of each part, by their names, with where they are now.
    pub(crate) parts: BTreeMap<String, BTreeMap<String, PathBuf>>,
    /// What must not be served.
    pub(crate) revoked: Vec<(DeviceHeader, Vec<Digest>)>,
}

impl Home {
    /// The folder with that path; created if it is missing.
    pub fn open(dir: &Path) -> io::Result<Home> {
        let dir = std::path::absolute(dir)?;
        fs::create_dir_all(dir.parent().unwrap_or(&dir))?;
        // Others may read the base, but not what is beside it.
        for (folder, mode) in [("", 0o755), ("base", 0o755), ("state", 0o700), ("tmp", 0o700), ("old", 0o700)]
        {
            let folder = if folder.is_empty() { dir.clone() } else { dir.join(folder) };
            match DirBuilder::new().mode(mode).create(&folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Ok(()) => fs::set_permissions(&folder, Permissions::from_mode(mode))?,
                Err(_) => {}
            }
        }
        Ok(Home { dir, room: None })
    }

    /// The folder, in which a limit counts.
    pub fn limited(&self, room: Option<Room>) -> Home {
        Home { dir: self.dir.clone(), room }
    }

    /// How many bytes more the limit allows.
    pub(crate) fn room(&self) -> u64 {
        self.room.as_ref().map_or(u64::MAX, Room::left)
    }

    /// The folder that has this base. None: the base is of something else.
    pub fn of_base(base: &Path) -> Option<Home> {
        let dir = base.parent().filter(|dir| base.ends_with("base") && dir.join("state").is_dir())?;
        Some(Home { dir: dir.to_owned(), room: None })
    }

    /// The base.
    pub fn base(&self) -> PathBuf {
        self.dir.join("base")
    }

    pub(crate) fn temporary(&self) -> PathBuf {
        self.dir.join("tmp")
    }

    /// A new folder for a push or a build, which need no lock of their own.
    pub(crate) fn working(&self, prefix: &str) -> io::Result<Working> {
        let locked = self.open_lock("working")?;
        // Pulls hold the other lock for as long as they take to remove what is there.
        rustix::fs::flock(&locked, FlockOperation::LockShared)?;
        let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(self.temporary())?;
        Ok(Working { folder, _locked: locked })
    }

    fn open_lock(&self, name: &str) -> io::Result<File> {
        // NFS gives shared locks only to descriptors that can read, and exclusive ones only to those that can write.
        File::options().create(true).read(true).append(true).mode(0o600).open(self.dir.join(name))
    }

    /// Waits until nobody else changes the folder. None: that takes longer than `limit`.
    pub async fn lock(&self, limit: Duration) -> io::Result<Option<Locked>> {
        let file = self.open_lock("lock")?;
        let began = Instant::now();
        loop {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Some(Locked(file))),
                Err(Errno::WOULDBLOCK) if began.elapsed() < limit => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The applications of which something was accepted, with their targets.
    pub(crate) fn known(&self) -> Vec<(String, Vec<Target>)> {
        let folders = names_in(&self.dir.join("state"));
        let known =
            folders.into_iter().filter(|name| names::application(name).is_some()).map(|application| {
                let files = names_in(&self.dir.join("state").join(&application));
                let targets = files.iter().filter_map(|name| Target::parse(name)).collect();
                (application, targets)
            });
        known.collect()
    }

    /// An accepted text, and what the store called it.
    pub(crate) fn saved(
        &self,
        application: &str,
        name: &str,
        longest: u64,
    ) -> Option<(Vec<u8>, Option<String>)> {
        let path = self.state(application, name);
        let found = path.metadata().ok().filter(|found| found.len() <= longest)?;
        let bytes = fs::read(&path).ok().filter(|bytes| bytes.len() as u64 == found.len())?;
        Some((bytes, fs::read_to_string(self.state(application, &format!("{name}.etag"))).ok()))
    }

    /// Keeps an accepted text.
    pub(crate) fn save(
        &self,
        application: &str,
        name: &str,
        bytes: &[u8],
        tag: Option<&str>,
    ) -> io::Result<()> {
        fs::create_dir_all(self.dir.join("state").join(application))?;
        let etag = self.state(application, &format!("{name}.etag"));
        // A tag must never stand beside an older text.
        remove(&etag)?;
        self.replace(&self.state(application, name), bytes)?;
        tag.map_or(Ok(()), |tag| self.replace(&etag, tag.as_bytes()))
    }

    fn state(&self, application: &str, name: &str) -> PathBuf {
        self.dir.join("state").join(application).join(name)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = tempfile::Builder::new().prefix("text-").tempfile_in(self.temporary())?;
        file.write_all(bytes)?;
        file.as_file().sync_data()?;
        file.persist(path).map(drop).map_err(|error| error.error)
    }

    /// Where a segment is in the base.
    pub(crate) fn in_base(&self, application: &str, target: &Target, file: &str) -> PathBuf {
        self.base().join(application).join(target.folder()).join(file)
    }

    /// The folder of an application's part in the base.
    pub(crate) fn part(&self, application: &str, target: &Target) -> PathBuf {
        self.base().join(application).join(target.folder())
    }

    /// Where a segment is: in the base, or in what was replaced or put aside last.
    pub(crate) fn find(&self, application: &str, target: &Target, file: &str) -> PathBuf {
        let in_base = self.in_base(application, target, file);
        let old = self.old(application).join(target.folder()).join(file);
        if !in_base.exists() && old.exists() { old } else { in_base }
    }

    fn old(&self, application: &str) -> PathBuf {
        self.dir.join("old").join(application)
    }

    /// The names of the folders in the base.
    pub(crate) fn applications(&self) -> Vec<String> {
        names_in(&self.base())
    }

    /// What the base has of an application, with those segments alone that `keeps` says.
    pub(crate) fn rest(&self, application: &str, keeps: &dyn Fn(&Path) -> bool) -> Wanted {
        let mut wanted = Wanted::default();
        let folder = self.base().join(application);
        for part in names_in(&folder) {
            let there = folder.join(&part);
            let is_segment = |name: &String| names::of_file(name).is_some();
            let stays = |name: &String| !is_segment(name) || keeps(&there.join(name));
            let names: Vec<String> = names_in(&there).into_iter().filter(stays).collect();
            // What says what is revoked is of no use alone.
            if names.iter().any(is_segment) {
                let files = names.into_iter().map(|name| (name.clone(), there.join(&name)));
                wanted.parts.insert(part, files.collect());
            }
        }
        wanted
    }

    /// Moves all of an application out of the base.
    pub(crate) fn put_away(&self, application: &str) -> io::Result<()> {
        let old = self.old(application);
        let _ = fs::remove_dir_all(&old);
        fs::rename(self.base().join(application), &old)?;
        File::open(self.base())?.sync_all()
    }

    pub(crate) fn is_put_away(&self, application: &str) -> bool {
        self.old(application).exists() && !self.base().join(application).exists()
    }

    /// The file with the signers that the last pull was told to read, instead of the user's and the machine's.
    pub(crate) fn signers(&self) -> Option<PathBuf> {
        fs::read(self.dir.join("signers")).ok().map(|path| OsString::from_vec(path).into())
    }

    pub(crate) fn note_signers(&self, file: Option<&Path>) -> io::Result<()> {
        let note = self.dir.join("signers");
        match file.map(std::path::absolute).transpose()? {
            Some(file) if self.signers().as_ref() == Some(&file) => Ok(()),
            Some(file) => self.replace(&note, file.as_os_str().as_bytes()),
            None => remove(&note),
        }
    }

    /// The list of the keys of a segment that this machine has published.
    pub(crate) fn pushed(&self, application: &str, target: &Target) -> PathBuf {
        self.dir.join("pushed").join(application).join(target.name())
    }

    /// Whether the application's folder in the base has these files.
    pub(crate) fn has(&self, application: &str, wanted: &Wanted) -> bool {
        let folder = self.base().join(application);
        let parts = names_in(&folder);
        let has = |part: &String| {
            let files = names_in(&folder.join(part));
            // Files without a digest in their names say what is revoked.
            let files = files.iter().filter(|name| names::of_file(name).is_some());
            let wanted = wanted.parts.get(part);
            wanted.is_some_and(|wanted| wanted.keys().filter(|name| names::of_file(name).is_some()).eq(files))
        };
        parts.iter().eq(wanted.parts.keys()) && parts.iter().all(has)
    }

    /// Adds everything that the base has now, but for what says what is revoked where that is written anew.
    pub(crate) fn carry_over(&self, application: &str, wanted: &mut Wanted) {
        let folder = self.base().join(application);
        let of_device = |header: &DeviceHeader| Target::Device(header.short_digest()).folder();
        let anew: Vec<String> = wanted.revoked.iter().map(|(header, _)| of_device(header)).collect();
        for part in names_in(&folder) {
            let there = folder.join(&part);
            let keeps = |name: &String| names::of_file(name).is_some() || !anew.contains(&part);
            let names = names_in(&there).into_iter().filter(keeps).collect::<Vec<_>>();
            let files = wanted.parts.entry(part).or_default();
            for name in names {
                files.entry(name.clone()).or_insert_with(|| there.join(&name));
            }
        }
    }

    /// Puts an application's folder into the base, in place of the one that is there: programs see one or the other.
    pub(crate) fn install(&self, app: &AppName, wanted: &Wanted) -> io::Result<()> {
        let new = tempfile::Builder::new().prefix("application-").tempdir_in(self.temporary())?;
        let folder = new.path().join(&app.folder);
        make_folder(&folder)?;
        for (part, files) in &wanted.parts {
            let part = folder.join(part);
            make_folder(&part)?;
            for (name, at) in files {
                let to = part.join(name);
                // File systems without links get a copy.
                fs::hard_link(at, &to).or_else(|_| fs::copy(at, &to).map(drop))?;
                fs::set_permissions(&to, Permissions::from_mode(0o644))?;
            }
        }
        self.add_revoked(new.path(), app, wanted)?;
        let live = self.base().join(&app.folder);
        let exchanged = match rustix::fs::renameat_with(CWD, &folder, CWD, &live, RenameFlags::EXCHANGE) {
            Ok(()) => true,
            Err(Errno::NOENT) => {
                fs::rename(&folder, &live)?;
                false
            }
            // A file system or a kernel that cannot do it at once.
            Err(Errno::INVAL | Errno::NOSYS) => {
                let replaced = new.path().join("replaced");
                if let Err(error) = exchange(&folder, &live, &replaced) {
                    if replaced.exists() {
                        // The old base could not be put back: it must not be removed with the temporary folder.
                        let kept = new.keep();
                        let text = format!("{error}; the base is in {} now", kept.display());
                        return Err(io::Error::new(error.kind(), text));
                    }
                    return Err(error);
                }
                true
            }
            Err(error) => return Err(error.into()),
        };
        File::open(self.base())?.sync_all()?;
        if exchanged {
            let old = self.old(&app.folder);
            let _ = fs::remove_dir_all(&old);
            let _ = fs::rename(&folder, &old);
        }
        Ok(())
    }

    /// Writes segments that say of the revoked artifacts what a stash says of those that programs died of.
    fn add_revoked(&self, new: &Path, app: &AppName, wanted: &Wanted) -> io::Result<()> {
        let wanted_parts = wanted
            .revoked
            .iter()
            .filter(|(header, _)| wanted.parts.contains_key(&Target::Device(header.short_digest()).folder()));
        for (header, keys) in wanted_parts {
            let folder = Target::Device(header.short_digest()).folder();
            let root = tempfile::Builder::new().prefix("revoked-").tempdir_in(self.temporary())?;
            let stash = Stash::open_patiently(root.path(), app).map_err(io::Error::other)?;
            let part = stash.device(header).map_err(io::Error::other)?;
            let all = keys.iter().all(|key| part.put(Kind::CrashCount, &key.0, Box::new([CRASH_LIMIT])));
            drop(part);
            let report = {
                let stash = stash;
                stash.flush(Duration::from_secs(60));
                stash.report()
            };
            if !all || !report.write_errors.is_empty() || report.dropped > 0 {
                return Err(io::Error::other("the list of revoked artifacts cannot be written"));
            }
            let made = root.path().join(&app.folder).join(&folder);
            for name in names_in(&made).into_iter().filter(|name| name.ends_with(".vks")) {
                let to = new.join(&app.folder).join(&folder).join(&name);
                fs::rename(made.join(&name), &to)?;
                fs::set_permissions(&to, Permissions::from_mode(0o644))?;
            }
        }
        Ok(())
    }

    /// Removes what interrupted pulls, pushes and builds have left, but for parts of these downloads and those of the
    /// last days. While a push or a build is at work, nothing but old parts is removed.
    pub(crate) fn clean(&self, needed: &dyn Fn(&Digest) -> bool) {
        const DAYS: Duration = Duration::from_secs(3 * 24 * 3600);
        let alone = self
            .open_lock("working")
            .ok()
            .filter(|file| rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_ok());
        for name in names_in(&self.temporary()) {
            let path = self.temporary().join(&name);
            let digest = name.strip_suffix(".part").and_then(Digest::parse);
            let age = path.symlink_metadata().and_then(|found| found.modified()).ok();
            let is_old = age.and_then(|age| age.elapsed().ok()).is_some_and(|age| age > DAYS);
            match digest {
                Some(digest) if needed(&digest) || !is_old => {}
                Some(_) => drop(fs::remove_file(&path)),
                None if alone.is_none() => {}
                None if path.is_dir() => drop(fs::remove_dir_all(&path)),
                None => drop(fs::remove_file(&path)),
            }
        }
    }

    /// Free bytes where the folder is. None: nobody knows.
    pub(crate) fn free(&self) -> Option<u64> {
        let found = rustix::fs::statvfs(&self.dir).ok()?;
        Some(found.f_bavail.saturating_mul(found.f_frsize))
    }
}

/// Exchanges two folders by renames: nothing is lost if one of them fails.
fn exchange(new: &Path, live: &Path, replaced: &Path) -> io::Result<()> {
    fs::rename(live, replaced)?;
    if let Err(error) = fs::rename(new, live) {
        fs::rename(replaced, live)?;
        return Err(error);
    }
    // What was replaced may stay replaced.
    let _ = fs::rename(replaced, new);
    Ok(())
}

fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o755).create(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o755))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The names in a folder, sorted; none if it cannot be read.
pub(crate) fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

    use super::*;

    #[test]
    fn an_exchange_by_renames_that_fails_changes_nothing() {
        let root = tempfile::tempdir().unwrap();
        let [new, live, replaced] = ["new", "live", "replaced"].map(|name| root.path().join(name));
        fs::create_dir(&live).unwrap();
        fs::write(live.join("base"), "1").unwrap();
        assert!(exchange(&new, &live, &replaced).is_err());
        assert_eq!((names_in(&live), replaced.exists()), (vec!["base".to_owned()], false));
        fs::create_dir(&new).unwrap();
        exchange(&new, &live, &replaced).unwrap();
        assert_eq!((names_in(&live), names_in(&new)), (vec![], vec!["base".to_owned()]));
    }

    #[test]
    fn folders_of_a_push_stay_while_it_works_and_are_removed_afterwards() {
        let root = tempfile::tempdir().unwrap();
        let home = Home::open(&root.path().join("home")).unwrap();
        let working = home.working("push-").unwrap();
        fs::write(working.path().join("segment"), "1").unwrap();
        fs::create_dir(home.temporary().join("push-of-a-dead-one")).unwrap();
        home.clean(&|_| false);
        assert_eq!(names_in(working.path()), ["segment"]);
        drop(working);
        home.clean(&|_| false);
        assert!(names_in(&home.temporary()).is_empty());
    }
}
