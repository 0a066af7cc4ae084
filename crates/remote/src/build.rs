//! `build`: takes what machines without a key have offered.
//!
//! What is in the inbox comes from strangers. Only portable records are taken, each is what its key says, and they go
//! into a stash through the code that imports archives. Artifacts are made of them on the builder's own machine, by
//! `vkstash prewarm`.

use std::fs;
use std::io::{self, BufReader, BufWriter};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object_store::path::Path as Place;

use vkstash_exchange::{export, import};

use crate::bucket::{Bucket, BucketError, Listed};
use crate::fetch::{self, FetchError};
use crate::home::{Home, Working};
use crate::manifest::{Content, LARGEST_SEGMENT, SMALLEST_SEGMENT, Segment};
use crate::names::{self, Digest};
use crate::progress::{Progress, Rate};
use crate::segment::{self, MOST_RAW, Unknown};

/// The most objects that are taken at once, the most bytes of them, and the most bytes of their records when
/// decompressed. Each application gets its share.
const MOST: usize = 10_000;
const MOST_BYTES: u64 = 4 << 30;
const MOST_RAW_BYTES: u64 = 16 << 30;
/// An ordinary object has at most 48 MiB of payloads.
const LEAST_BYTES: u64 = 64 << 20;
/// So many objects in a row that the store does not deliver are an end.
const MOST_IN_VAIN: u32 = 3;

/// What is taken.
pub struct Request {
    /// The stash that gets it.
    pub root: PathBuf,
    /// The folders of the applications; none: of all.
    pub applications: Vec<String>,
    /// The most applications that the stash does not have and that are not named: strangers can invent any number.
    pub new_applications: usize,
    /// The time, in seconds since 1970.
    pub now: u64,
}

/// What was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Objects, which are to be removed once the records are published.
    pub objects: Vec<Place>,
    /// The folders of their applications.
    pub applications: Vec<String>,
    /// Records that are new in the stash.
    pub records: u64,
    /// Objects that were refused, and removed.
    pub refused: u64,
}

/// Why nothing could be taken.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The store.
    #[error(transparent)]
    Store(#[from] BucketError),
    /// A disk of this machine.
    #[error("{0}")]
    Disk(#[from] io::Error),
    /// The stash.
    #[error(transparent)]
    Import(#[from] import::ImportError),
}

/// What may still be taken.
#[derive(Clone, Copy)]
struct Budget {
    objects: usize,
    bytes: u64,
    raw_bytes: u64,
}

impl Budget {
    /// The share of one of so many: at least what one ordinary object needs, while there is as much.
    fn share(self, of: usize) -> Budget {
        let of = of.max(1);
        Budget {
            objects: (self.objects / of).max(1),
            bytes: (self.bytes / of as u64).max(LEAST_BYTES).min(self.bytes),
            raw_bytes: (self.raw_bytes / of as u64).max(MOST_RAW).min(self.raw_bytes),
        }
    }
}

struct Build<'a> {
    bucket: &'a Bucket,
    working: &'a Working,
    request: &'a Request,
    progress: Arc<dyn Progress>,
    rate: Rate,
    /// Objects in a row that the store did not deliver.
    in_vain: u32,
    has_more: bool,
}

/// Takes what is in the inbox into a stash. Nothing that is good is removed from the inbox.
pub async fn take(
    bucket: &Bucket,
    home: &Home,
    request: &Request,
    progress: Arc<dyn Progress>,
) -> Result<Taken, BuildError> {
    let mut taken = Taken::default();
    let working = home.working("inbox-")?;
    let mut build = Build {
        bucket,
        working: &working,
        request,
        progress: progress.clone(),
        rate: Rate::new(None),
        in_vain: 0,
        has_more: false,
    };
    let applications = build.applications().await?;
    let mut budget = Budget { objects: MOST, bytes: MOST_BYTES, raw_bytes: MOST_RAW_BYTES };
    for (at, application) in applications.iter().enumerate() {
        let share = budget.share(applications.len() - at);
        let rest = build.application(application, share, &mut taken).await?;
        budget.objects = budget.objects.saturating_sub(share.objects - rest.objects);
        budget.bytes -= share.bytes - rest.bytes;
        budget.raw_bytes -= share.raw_bytes - rest.raw_bytes;
    }
    if build.has_more {
        progress.line("there is more in the inbox than is taken at once; build again");
    }
    if !taken.objects.is_empty() {
        let parts: Vec<(String, String)> =
            taken.applications.iter().map(|folder| (folder.clone(), "portable".to_owned())).collect();
        let (from, to) = (working.path().to_owned(), request.root.clone());
        // Elsewhere, so that a signal or the end of the time are noticed.
        let imported = tokio::task::spawn_blocking(move || bring(&from, &parts, &to));
        let imported = imported.await.map_err(io::Error::other)??;
        taken.records = imported.applications.values().flat_map(|taken| taken.records.values()).sum();
    }
    Ok(taken)
}

impl Build<'_> {
    /// The applications to look at: those of the stash, and some that are new, other ones each time.
    async fn applications(&mut self) -> Result<Vec<String>, BuildError> {
        let mut folders = self.bucket.folders(&names::inbox()).await?;
        folders.retain(|folder| names::application(folder).is_some());
        folders.sort_unstable();
        folders.dedup();
        if !self.request.applications.is_empty() {
            folders.retain(|folder| self.request.applications.contains(folder));
            return Ok(folders);
        }
        let (mut known, mut new): (Vec<String>, Vec<String>) =
            folders.into_iter().partition(|folder| self.request.root.join(folder).is_dir());
        // In an order that nobody can choose names for, and that lets each be the first one some time.
        for folders in [&mut known, &mut new] {
            folders
                .sort_by_cached_key(|folder| Digest::of(format!("{} {folder}", self.request.now).as_bytes()));
        }
        if new.len() > self.request.new_applications {
            let (most, all) = (self.request.new_applications, new.len());
            self.progress.line(&format!("{most} of {all} applications are taken that are new here"));
            new.truncate(most);
        }
        known.append(&mut new);
        Ok(known)
    }

    /// Takes what is there of one application. Returns what is left of its share.
    async fn application(
        &mut self,
        application: &str,
        share: Budget,
        taken: &mut Taken,
    ) -> Result<Budget, BuildError> {
        let (mut left, mut after) = (share, None);
        let folder = names::inbox().join(application);
        loop {
            if left.objects == 0 {
                self.has_more = true;
                return Ok(left);
            }
            let is_wanted =
                |listed: &Listed| matches!(&listed.name[..], [name] if Digest::parse(name).is_some());
            let listed = self.bucket.list_after(&folder, after.as_deref(), left.objects, is_wanted).await?;
            // Taken one by one, so that what is refused leaves room for others.
            let is_all = listed.len() < left.objects;
            after = listed.last().map(|last| last.name.concat());
            for listed in &listed {
                let Some(sha256) = Digest::parse(&listed.name.concat()) else { continue };
                if (SMALLEST_SEGMENT..=LARGEST_SEGMENT).contains(&listed.bytes) && listed.bytes > left.bytes {
                    self.has_more = true;
                    continue;
                }
                self.object(application, &sha256, listed.bytes, &mut left, taken).await?;
            }
            if is_all {
                return Ok(left);
            }
        }
    }

    /// Takes or removes one object.
    async fn object(
        &mut self,
        application: &str,
        sha256: &Digest,
        bytes: u64,
        left: &mut Budget,
        taken: &mut Taken,
    ) -> Result<(), BuildError> {
        let place = names::in_inbox(application, sha256);
        let segment =
            Segment { sha256: *sha256, bytes, content: Content::Portable, age: self.request.now * 1000 };
        let verdict = match self.fetch(&place, &segment).await {
            Ok(file) => {
                self.in_vain = 0;
                self.verify(application, &segment, file, left).await?
            }
            // Another builder was faster.
            Err(FetchError::Store(BucketError::Missing(_))) => Verdict::Left,
            Err(FetchError::Store(error)) => {
                self.in_vain += 1;
                if self.in_vain >= MOST_IN_VAIN {
                    return Err(error.into());
                }
                self.progress.line(&format!("{application}: {sha256} in the inbox cannot be had: {error}"));
                Verdict::Left
            }
            Err(FetchError::Disk { source, .. }) => return Err(source.into()),
            Err(error @ FetchError::Wrong(_)) => Verdict::Refused(error.to_string()),
        };
        match verdict {
            Verdict::Left => {}
            Verdict::Taken => {
                taken.objects.push(place);
                if taken.applications.last().is_none_or(|last| last != application) {
                    taken.applications.push(application.to_owned());
                }
            }
            Verdict::Refused(reason) => {
                self.progress.line(&format!("{application}: {sha256} in the inbox is removed: {reason}"));
                self.bucket.delete(&place).await?;
                taken.refused += 1;
            }
        }
        Ok(())
    }

    /// Fetches an object whose length is possible. Returns the name of the file.
    async fn fetch(&self, place: &Place, segment: &Segment) -> Result<String, FetchError> {
        if !(SMALLEST_SEGMENT..=LARGEST_SEGMENT).contains(&segment.bytes) {
            return Err(FetchError::Wrong(segment.sha256));
        }
        let (folder, progress) = (self.working.path(), self.progress.as_ref());
        fetch::fetch(self.bucket, place, segment, folder, &self.rate, progress).await
    }

    /// Verifies a fetched file, and puts it where it is imported from if it is good and its share has room for it.
    async fn verify(
        &mut self,
        application: &str,
        segment: &Segment,
        file: String,
        left: &mut Budget,
    ) -> Result<Verdict, BuildError> {
        let folder = self.working.path().to_owned();
        let (at, name) = (folder.clone(), file.clone());
        // Elsewhere, so that a signal or the end of the time are noticed.
        let verified = tokio::task::spawn_blocking(move || {
            segment::verify(&at, &name, None, segment::MOST_RAW, Unknown::Refused)
        });
        match verified.await.map_err(io::Error::other)? {
            Ok(verified) if verified.raw_bytes > left.raw_bytes => {
                self.has_more = true;
                fs::remove_file(folder.join(file))?;
                Ok(Verdict::Left)
            }
            Ok(verified) => {
                let part = folder.join(application).join("portable");
                fs::create_dir_all(&part)?;
                let name = names::file(segment.age, &segment.sha256);
                fs::rename(folder.join(file), part.join(name))?;
                left.objects -= 1;
                left.bytes -= segment.bytes;
                left.raw_bytes -= verified.raw_bytes;
                Ok(Verdict::Taken)
            }
            Err(error) => {
                fs::remove_file(folder.join(file))?;
                // What this machine cannot read may be good.
                Ok(Verdict::Refused(error.unread().map_or_else(Ok, Err)?.to_string()))
            }
        }
    }
}

/// What becomes of an object in the inbox.
enum Verdict {
    Taken,
    /// The object stays there, or is gone already.
    Left,
    /// The object is removed, for this reason.
    Refused(String),
}

/// Imports these parts of a stash into another one.
fn bring(from: &Path, parts: &[(String, String)], to: &Path) -> Result<import::Imported, BuildError> {
    let (reader, writer) = UnixStream::pair()?;
    std::thread::scope(|scope| {
        let exported = scope.spawn(|| export::export(from, parts, BufWriter::new(writer)));
        let imported = import::import(to, BufReader::with_capacity(1 << 18, reader), false);
        let exported = exported.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let imported = imported?;
        exported.map_err(io::Error::other)?;
        Ok(imported)
    })
}

/// Removes what was taken, but for what is of these applications.
pub async fn remove(bucket: &Bucket, taken: &Taken, but: &[String]) -> Result<(), BucketError> {
    let folders: Vec<Place> =
        but.iter().map(|application| names::inbox().join(application.as_str())).collect();
    for place in &taken.objects {
        if !folders.iter().any(|folder| place.prefix_matches(folder)) {
            bucket.delete(place).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_room_for_an_ordinary_object_while_there_is_any() {
        let all = Budget { objects: MOST, bytes: MOST_BYTES, raw_bytes: MOST_RAW_BYTES };
        let share = all.share(1_000);
        assert!(share.bytes >= LEAST_BYTES && share.raw_bytes >= MOST_RAW);
        let little = Budget { bytes: 1, raw_bytes: 1, ..all }.share(1_000);
        assert_eq!((little.bytes, little.raw_bytes), (1, 1));
    }
}
