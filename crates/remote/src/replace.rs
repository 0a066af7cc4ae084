//! Replacing an object of which other machines may write a newer one at the same time.

use object_store::UpdateVersion;
use object_store::path::Path;

use crate::bucket::{Bucket, BucketError};

/// Replaces the object that was found there, or creates it where none was. False: somebody else was there first.
pub async fn replace(
    bucket: &Bucket,
    object: &Path,
    bytes: Vec<u8>,
    over: Option<&UpdateVersion>,
) -> Result<bool, BucketError> {
    if let Some(_lock) = bucket.lock().await? {
        return bucket.put_if_unchanged(object, bytes, over).await;
    }
    bucket.check_conditions().await?;
    bucket.put_over(object, bytes, over).await
}
