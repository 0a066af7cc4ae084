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

use crate::bucket::{Bucket, BucketError};
use crate::fetch::{self, FetchError};
use crate::home::Home;
use crate::manifest::{Content, LARGEST_SEGMENT, SMALLEST_SEGMENT, Segment};
use crate::names::{self, Digest};
use crate::progress::{Progress, Rate};
use crate::segment;

/// The most objects that are taken at once, and the most bytes of them.
const MOST: usize = 10_000;
const MOST_BYTES: u64 = 4 << 30;

/// What is taken.
pub struct Request {
    /// The stash that gets it.
    pub root: PathBuf,
    /// The folders of the applications; none: of all.
    pub applications: Vec<String>,
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

/// Takes what is in the inbox into a stash. Nothing that is good is removed from the inbox.
pub async fn take(
    bucket: &Bucket,
    home: &Home,
    request: &Request,
    progress: Arc<dyn Progress>,
) -> Result<Taken, BuildError> {
    let mut taken = Taken::default();
    let root = tempfile::Builder::new().prefix("inbox-").tempdir_in(home.temporary())?;
    let (rate, mut bytes) = (Rate::new(None), 0);
    for listed in bucket.list(&names::inbox(), MOST).await? {
        let [application, name] = listed.name.as_slice() else { continue };
        let ours = names::application(application).and_then(|_| Digest::parse(name));
        let Some(sha256) = ours else { continue };
        if !request.applications.is_empty() && !request.applications.contains(application) {
            continue;
        }
        if bytes + listed.bytes > MOST_BYTES {
            progress.line("there is more in the inbox than is taken at once; build again");
            break;
        }
        let place = names::in_inbox(application, &sha256);
        let segment =
            Segment { sha256, bytes: listed.bytes, content: Content::Portable, age: request.now * 1000 };
        let folder = home.temporary();
        let has_size = (SMALLEST_SEGMENT..=LARGEST_SEGMENT).contains(&listed.bytes);
        let fetched = match has_size {
            true => fetch::fetch(bucket, &place, &segment, &folder, &rate, progress.as_ref()).await,
            false => Err(FetchError::Wrong(sha256)),
        };
        let refused = match fetched {
            Ok(file) => match segment::verify(&folder, &file, None) {
                Ok(_) => {
                    let part = root.path().join(application).join("portable");
                    fs::create_dir_all(&part)?;
                    fs::rename(folder.join(file), part.join(names::file(segment.age, &sha256)))?;
                    None
                }
                Err(error) => {
                    fs::remove_file(folder.join(file))?;
                    Some(error.to_string())
                }
            },
            // Another builder was faster.
            Err(FetchError::Store(BucketError::Missing(_))) => continue,
            Err(FetchError::Store(error)) => return Err(error.into()),
            Err(FetchError::Disk { source, .. }) => return Err(source.into()),
            Err(error @ FetchError::Wrong(_)) => Some(error.to_string()),
        };
        match refused {
            None => {
                bytes += listed.bytes;
                taken.objects.push(place);
                if !taken.applications.contains(application) {
                    taken.applications.push(application.clone());
                }
            }
            Some(reason) => {
                progress.line(&format!("{application}: {sha256} in the inbox is removed: {reason}"));
                bucket.delete(&place).await?;
                taken.refused += 1;
            }
        }
    }
    if !taken.objects.is_empty() {
        let parts: Vec<(String, String)> =
            taken.applications.iter().map(|folder| (folder.clone(), "portable".to_owned())).collect();
        let imported = bring(root.path(), &parts, &request.root)?;
        taken.records = imported.applications.values().flat_map(|taken| taken.records.values()).sum();
    }
    Ok(taken)
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

/// Removes what was taken.
pub async fn remove(bucket: &Bucket, taken: &Taken) -> Result<(), BucketError> {
    for place in &taken.objects {
        bucket.delete(place).await?;
    }
    Ok(())
}
