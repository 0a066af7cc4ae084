//! Pushes and removals of segments at the same time.
//!
//! A push relies on segments that no manifest names yet. It announces their digests, and then looks whether a removal
//! is under way; a removal announces itself first, and then looks for announcements of pushes. So one of the two sees
//! the other: the push waits, or its segments stay. That needs a store whose lists are up to date. Announcements of
//! processes that were killed expire by the store's clock.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::{Duration, Instant};

use object_store::path::Path;
use vkstash_store::base::util::random;

use crate::bucket::{Bucket, BucketError, Found, Listed};
use crate::names::{self, Digest};
use crate::progress::Progress;

/// How long the announcement of a push counts. The push must have ended before half of it.
const PUSH: Duration = Duration::from_secs(7 * 24 * 3600);
/// How long the announcement of a removal counts. The removal renews it.
const REMOVAL: Duration = Duration::from_secs(120);
/// The longest announcement that is read: one for more segments than a manifest names.
const LONGEST: u64 = 1 << 20;
/// A publisher that waits longer than this reports that it waits.
const QUIET: Duration = Duration::from_secs(2);
/// The longest break before the announcements are listed again.
const BREAK_MS: u64 = 500;

fn new_name() -> String {
    format!("{:016x}{:016x}", random(), random())
}

fn place_of(folder: &Path, listed: &Listed) -> Path {
    listed.name.iter().fold(folder.clone(), |place, part| place.join(part.as_str()))
}

/// When the store has written an object that was written just now.
async fn written(bucket: &Bucket, folder: &Path, name: &str) -> Result<i64, BucketError> {
    let listed = bucket.children(folder).await?;
    let own = listed.iter().find(|listed| listed.name == [name]);
    own.map(|own| own.modified)
        .ok_or_else(|| BucketError::Unable("its lists lack what was just written".to_owned()))
}

/// Segments that a push relies on. Left where it is if the push fails: a manifest may be on its way.
pub(crate) struct Announcement<'a> {
    bucket: &'a Bucket,
    place: Path,
    began: Instant,
}

impl<'a> Announcement<'a> {
    /// Waits until nobody removes segments who does not know of these. From then on what the store has of them stays.
    pub(crate) async fn make(
        bucket: &'a Bucket,
        digests: &[Digest],
        progress: &dyn Progress,
    ) -> Result<Announcement<'a>, BucketError> {
        let (folder, name) = (names::pushing(), new_name());
        let place = folder.clone().join(name.as_str());
        let text: String = digests.iter().map(|digest| format!("{digest}\n")).collect();
        let (began, mut is_told) = (Instant::now(), false);
        loop {
            bucket.put(&place, text.clone().into_bytes()).await?;
            let removals = bucket.children(&names::removing()).await?;
            if removals.is_empty() {
                break;
            }
            let now = written(bucket, &folder, &name).await?;
            let is_dead = |removal: &Listed| now.saturating_sub(removal.modified) > REMOVAL.as_secs() as i64;
            if removals.iter().all(is_dead) {
                break;
            }
            if began.elapsed() > QUIET && !std::mem::replace(&mut is_told, true) {
                let most = REMOVAL.as_secs();
                progress.line(&format!(
                    "waiting: somebody removes segments, or was killed while doing so (then for up to {most} s)"
                ));
            }
            tokio::time::sleep(Duration::from_millis(random() % BREAK_MS)).await;
        }
        Ok(Announcement { bucket, place, began })
    }

    /// An error if there is too little time left for a manifest to arrive.
    pub(crate) fn check(&self) -> Result<(), BucketError> {
        let late = || BucketError::Unreachable("sending took longer than an announcement counts".to_owned());
        (self.began.elapsed() < PUSH / 2).then_some(()).ok_or_else(late)
    }

    /// A manifest names the segments now.
    pub(crate) async fn end(self) -> Result<(), BucketError> {
        self.bucket.delete(&self.place).await
    }
}

/// The right to remove segments that nobody has announced, for as long as it is renewed.
pub(crate) struct Removal<'a> {
    bucket: &'a Bucket,
    name: String,
    renewed: Instant,
}

/// What pushes rely on.
pub(crate) struct Announced {
    /// The time, by the store's clock, in seconds since the Unix epoch.
    pub(crate) now: i64,
    pub(crate) digests: BTreeSet<Digest>,
    /// Announcements that do not count any more.
    pub(crate) expired: Vec<Path>,
}

impl<'a> Removal<'a> {
    pub(crate) async fn begin(bucket: &'a Bucket) -> Result<Removal<'a>, BucketError> {
        let mut removal = Removal { bucket, name: new_name(), renewed: Instant::now() };
        removal.renew().await?;
        Ok(removal)
    }

    fn place(&self) -> Path {
        names::removing().join(self.name.as_str())
    }

    async fn renew(&mut self) -> Result<(), BucketError> {
        let began = Instant::now();
        self.in_time(self.bucket.put(&self.place(), Vec::new())).await?;
        self.renewed = began;
        Ok(())
    }

    /// Gives up in time for what was asked of the store to arrive before pushes go on.
    async fn in_time<T>(&self, work: impl Future<Output = Result<T, BucketError>>) -> Result<T, BucketError> {
        let left = (REMOVAL / 2).saturating_sub(self.renewed.elapsed());
        let late = || Err(BucketError::Unreachable("no answer in time".to_owned()));
        tokio::time::timeout(left, work).await.unwrap_or_else(|_| late())
    }

    /// Renews while something is read.
    pub(crate) async fn during<T, E: From<BucketError>>(
        &mut self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let mut work = pin!(work);
        loop {
            match tokio::time::timeout(REMOVAL / 8, &mut work).await {
                Ok(done) => return done,
                Err(_) => self.renew().await?,
            }
        }
    }

    /// Removes an object.
    pub(crate) async fn remove(&mut self, place: &Path) -> Result<(), BucketError> {
        if self.renewed.elapsed() > REMOVAL / 8 {
            self.renew().await?;
        }
        self.in_time(self.bucket.delete(place)).await
    }

    /// What is announced. Whatever is announced later waits for the end of this removal.
    pub(crate) async fn announced(&mut self) -> Result<Announced, BucketError> {
        let (bucket, name) = (self.bucket, self.name.clone());
        let read = async {
            let now = written(bucket, &names::removing(), &name).await?;
            announced(bucket, now).await
        };
        self.during(read).await
    }

    pub(crate) async fn end(self) -> Result<(), BucketError> {
        self.bucket.delete(&self.place()).await
    }
}

/// What is announced at that time.
pub(crate) async fn announced(bucket: &Bucket, now: i64) -> Result<Announced, BucketError> {
    let folder = names::pushing();
    let (mut digests, mut expired) = (BTreeSet::new(), Vec::new());
    for listed in bucket.children(&folder).await? {
        let place = place_of(&folder, &listed);
        if now.saturating_sub(listed.modified) > PUSH.as_secs() as i64 {
            expired.push(place);
            continue;
        }
        match bucket.get(&place, None, LONGEST).await? {
            Found::New(object) => {
                let text = String::from_utf8_lossy(&object.bytes);
                let parsed: Option<Vec<Digest>> = text.lines().map(Digest::parse).collect();
                digests.extend(parsed.ok_or_else(|| BucketError::Unable(format!("{place} cannot be read")))?);
            }
            // The push has removed its announcement: its manifest is there now, and is read after this.
            Found::Missing | Found::Unchanged => {}
        }
    }
    Ok(Announced { now, digests, expired })
}
