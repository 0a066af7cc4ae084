//! Withdrawal of applications: those of which the store has no manifest any more are removed from the base.
//!
//! The accepted texts stay in `state/`: whoever puts an older manifest into the store must not have it accepted.

use std::fs;
use std::io;

use object_store::path::Path;

use crate::bucket::Bucket;
use crate::home::Home;

/// Whether the store has anything of ours. A disk that is not mounted has nothing, and has withdrawn nothing; nor has a
/// server that gives no lists.
pub(crate) async fn has_anything(bucket: &Bucket) -> bool {
    bucket.list(&Path::from("v1"), 1).await.is_ok_and(|listed| !listed.is_empty())
}

impl Home {
    /// Takes an application out of the base. Like what is replaced, it is kept in `old/` for programs that have it
    /// open, here until the next pull. False: the base has nothing of it.
    pub(crate) fn withdraw(&self, application: &str) -> io::Result<bool> {
        let (base, old) = (self.base(), self.base().with_file_name("old").join(application));
        match fs::remove_dir_all(&old) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        match fs::rename(base.join(application), old) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            renamed => renamed.and_then(|()| fs::File::open(base)?.sync_all()).map(|()| true),
        }
    }
}
