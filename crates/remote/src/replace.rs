//! Replacing an object of which other machines may write a newer one at the same time.

use object_store::UpdateVersion;
use object_store::path::Path;

use crate::bucket::{Bucket, BucketError};
use crate::lease::Lease;
use crate::progress::Progress;

/// Replaces the object that was found there, or creates it where none was. False: somebody else was there first.
pub async fn replace(
    bucket: &Bucket,
    object: &Path,
    bytes: Vec<u8>,
    over: Option<&UpdateVersion>,
    progress: &dyn Progress,
) -> Result<bool, BucketError> {
    if let Some(_lock) = bucket.lock().await? {
        return bucket.put_if_unchanged(object, bytes, over).await;
    }
    if bucket.obeys_conditions().await? {
        return bucket.put_over(object, bytes, over).await;
    }
    let lease = Lease::acquire(bucket, object, progress).await?;
    let put = tokio::time::timeout(lease.left(), bucket.put_if_unchanged(object, bytes, over)).await;
    let put = put.unwrap_or_else(|_| Err(BucketError::Unreachable("no answer in time".to_owned())));
    // Without an answer nobody knows when the store will write: the announcement stays until it expires.
    if put.is_ok() {
        lease.release().await?;
    }
    put
}
