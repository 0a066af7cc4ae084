//! One publisher at a time, in stores that cannot compare and write in one step: Garage ignores the conditions of a
//! put, WebDAV has none.
//!
//! A publisher that is about to write announces it by an object of its own, and then lists the announcements. Of two
//! publishers the one that lists last sees both objects. A publisher that sees another one's object withdraws, and
//! tries again after a random time, so at most one goes on. That needs a store whose lists are up to date: a
//! publisher's own object must be in the list. Announcements of publishers that were killed expire by the store's
//! clock.

use std::time::{Duration, Instant};

use object_store::path::Path;
use vkstash_store::base::util::random;

use crate::bucket::{Bucket, BucketError, Listed};
use crate::progress::Progress;

/// The longest break before the next attempt.
const LONGEST_BREAK_MS: u64 = 2_000;
/// After this time an announcement does not count. Its publisher must have ended before half of it, and a request that
/// it gave up then has the other half to arrive.
const LIFETIME: Duration = Duration::from_secs(120);
/// A publisher that waits longer than this reports that it waits.
const QUIET: Duration = Duration::from_secs(2);

/// The right to write one object, until it is given up or expires.
pub(crate) struct Lease<'a> {
    bucket: &'a Bucket,
    announcement: Path,
    began: Instant,
}

impl<'a> Lease<'a> {
    /// Waits until nobody else is writing the object, for at most as long as an announcement counts.
    pub(crate) async fn acquire(
        bucket: &'a Bucket,
        object: &Path,
        progress: &dyn Progress,
    ) -> Result<Lease<'a>, BucketError> {
        let folder: Path =
            ["v1", "publishing"].into_iter().map(Into::into).chain(object.parts().skip(1)).collect();
        // Announcements of waiters that are killed are in the way, too, so most of the time there is none.
        let (began, mut longest_break, mut is_told) = (Instant::now(), 500, false);
        loop {
            let name = format!("{:016x}{:016x}", random(), random());
            let lease =
                Lease { bucket, announcement: folder.clone().join(name.as_str()), began: Instant::now() };
            bucket.put(&lease.announcement, Vec::new()).await?;
            match lease.is_alone(&folder, &name).await {
                Ok(true) => return Ok(lease),
                Ok(false) => lease.release().await?,
                Err(error) => {
                    // The first error is returned.
                    let _ = lease.release().await;
                    return Err(error);
                }
            }
            if began.elapsed() > LIFETIME + LIFETIME / 4 {
                return Err(BucketError::Unreachable(
                    "somebody else publishes there all the time".to_owned(),
                ));
            }
            if began.elapsed() > QUIET && !std::mem::replace(&mut is_told, true) {
                let most = LIFETIME.as_secs();
                progress.line(&format!(
                    "waiting: somebody else writes {object}, or was killed while doing so (then for up to {most} s)"
                ));
            }
            tokio::time::sleep(Duration::from_millis(random() % longest_break)).await;
            longest_break = (longest_break * 2).min(LONGEST_BREAK_MS);
        }
    }

    async fn is_alone(&self, folder: &Path, name: &str) -> Result<bool, BucketError> {
        let listed = self.bucket.children(folder).await?;
        let is_own = |listed: &&Listed| listed.name == [name];
        let Some(own) = listed.iter().find(is_own) else { return Ok(false) };
        for other in listed.iter().filter(|listed| !is_own(listed)) {
            if own.modified.saturating_sub(other.modified) <= LIFETIME.as_secs() as i64 {
                return Ok(false);
            }
            let place = other.name.iter().fold(folder.clone(), |place, part| place.join(part.as_str()));
            self.bucket.delete(&place).await?;
        }
        Ok(true)
    }

    /// The time that is left to write.
    pub(crate) fn left(&self) -> Duration {
        (LIFETIME / 2).saturating_sub(self.began.elapsed())
    }

    pub(crate) async fn release(self) -> Result<(), BucketError> {
        self.bucket.delete(&self.announcement).await
    }
}
