//! `clean`: removes segments that no manifest names.
//!
//! Merging leaves them, and so do pushes that were interrupted. What a push relies on at the same time is announced
//! (`announce.rs`); manifests are read after the announcements, so what was announced is named by the time it is not.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::StreamExt as _;

use crate::announce::{self, Announced, Removal};
use crate::bucket::{Bucket, BucketError, Found};
use crate::envelope::Envelope;
use crate::key::Signer;
use crate::manifest::{self, Content, Manifest};
use crate::names::{self, Digest, Target};
use crate::progress::Progress;
use crate::pull::{self, Failure};
use crate::trust::{self, Trust};

/// Requests at once.
const AT_ONCE: usize = 8;
/// The most objects that are looked at in a list: with more of them nothing is removed.
const MOST_LISTED: usize = 1_000_000;

/// What is removed.
pub struct Request {
    /// Only segments that were written at least this number of seconds ago, by the store's clock, are removed.
    pub older_than: u64,
    /// False: it is only counted.
    pub removes: bool,
    /// The time, in seconds since 1970, for those that are only counted.
    pub now: u64,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Segments that were removed, or would be.
    pub segments: u64,
    /// The bytes of these segments.
    pub bytes: u64,
    /// Segments that manifests name.
    pub named: u64,
    /// Segments that no manifest names, and that pushes have announced or that are too young.
    pub kept: u64,
}

/// Why nothing more is removed.
#[derive(Debug, thiserror::Error)]
pub enum CleanError {
    /// A request to the store failed.
    #[error(transparent)]
    Store(#[from] BucketError),
    /// A manifest cannot be read, so it may name any segment.
    #[error("nothing is removed, because {place} cannot be read: {reason}")]
    Unreadable {
        /// The manifest.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The store has segments and no manifest, so it may be another place than the one that was meant.
    #[error("nothing is removed, because there is no manifest, but there are segments")]
    NoManifest,
    /// Only a key that publishes in a store may remove from it.
    #[error("nothing is removed, because this key has signed no manifest that is there")]
    Stranger,
}

impl CleanError {
    /// The exit status.
    pub fn failure(&self) -> Failure {
        match self {
            CleanError::Store(error) => pull::of_store(error),
            _ => Failure::Refused,
        }
    }
}

struct Stored {
    sha256: Digest,
    bytes: u64,
    modified: i64,
}

/// Removes, or counts, what no manifest and no push names.
pub async fn clean(
    bucket: &Bucket,
    signer: &Signer,
    request: &Request,
    progress: Arc<dyn Progress>,
) -> Result<Cleaned, CleanError> {
    // What is written after this list is not looked at.
    let segments = segments(bucket).await?;
    if !request.removes {
        let announced = announce::announced(bucket, request.now as i64).await?;
        let named = named(bucket, signer, !segments.is_empty()).await?;
        return Ok(chosen(&segments, &announced, &named, request).1);
    }
    let mut removal = Removal::begin(bucket).await?;
    let removed = remove(&mut removal, bucket, signer, &segments, request, progress.as_ref()).await;
    // The first error is returned. What is left of it expires.
    let ended = removal.end().await;
    let cleaned = removed?;
    ended?;
    Ok(cleaned)
}

async fn remove(
    removal: &mut Removal<'_>,
    bucket: &Bucket,
    signer: &Signer,
    segments: &[Stored],
    request: &Request,
    progress: &dyn Progress,
) -> Result<Cleaned, CleanError> {
    let announced = removal.announced().await?;
    let named = removal.during(named(bucket, signer, !segments.is_empty())).await?;
    let (chosen, cleaned) = chosen(segments, &announced, &named, request);
    progress.more(cleaned.bytes);
    for segment in chosen {
        removal.remove(&names::segment(&segment.sha256)).await?;
        progress.done(segment.bytes);
    }
    for place in &announced.expired {
        removal.remove(place).await?;
    }
    Ok(cleaned)
}

/// What is to be removed, and what of it is told.
fn chosen<'a>(
    segments: &'a [Stored],
    announced: &Announced,
    named: &BTreeSet<Digest>,
    request: &Request,
) -> (Vec<&'a Stored>, Cleaned) {
    let (mut chosen, mut cleaned) = (Vec::new(), Cleaned::default());
    let least = i64::try_from(request.older_than).unwrap_or(i64::MAX);
    for segment in segments {
        if named.contains(&segment.sha256) {
            cleaned.named += 1;
        } else if announced.digests.contains(&segment.sha256)
            || announced.now.saturating_sub(segment.modified) < least
        {
            cleaned.kept += 1;
        } else {
            cleaned.segments += 1;
            cleaned.bytes += segment.bytes;
            chosen.push(segment);
        }
    }
    (chosen, cleaned)
}

async fn segments(bucket: &Bucket) -> Result<Vec<Stored>, CleanError> {
    let listed = bucket.list_all(&names::segments(), MOST_LISTED).await?;
    let of = |listed: crate::bucket::Listed| {
        let [name] = listed.name.as_slice() else { return None };
        Some(Stored { sha256: Digest::parse(name)?, bytes: listed.bytes, modified: listed.modified })
    };
    Ok(listed.into_iter().filter_map(of).collect())
}

/// The segments that manifests name, with any signature.
async fn named(bucket: &Bucket, signer: &Signer, needs_some: bool) -> Result<BTreeSet<Digest>, CleanError> {
    let own = Trust {
        signers: vec![trust::Signer {
            name: String::new(),
            key: signer.public().clone(),
            applications: vec!["*".to_owned()],
            content: Content::Artifacts,
        }],
    };
    let own = &own;
    let listed = bucket.list_all(&names::manifests(), MOST_LISTED).await?;
    let manifests = listed.into_iter().filter_map(|listed| {
        let [application, target] = listed.name.as_slice() else { return None };
        names::application(application)?;
        Some((application.clone(), Target::parse(target)?))
    });
    let read = manifests.map(|(application, target)| async move {
        let place = names::manifest(&application, &target);
        let unreadable = |reason: String| CleanError::Unreadable { place: place.to_string(), reason };
        let object = match bucket.get(&place, None, manifest::LONGEST).await? {
            Found::New(object) => object,
            Found::Missing | Found::Unchanged => {
                return Err(CleanError::Store(BucketError::Missing(place.to_string())));
            }
        };
        let envelope = Envelope::decode(&object.bytes).map_err(|error| unreadable(error.to_string()))?;
        let manifest = Manifest::decode(envelope.unverified(), &application, &target)
            .map_err(|error| unreadable(error.to_string()))?;
        let is_own = own.verify(&object.bytes, &application).is_ok();
        Ok((manifest.segments, is_own))
    });
    let mut read = futures_util::stream::iter(read).buffer_unordered(AT_ONCE);
    let (mut named, mut manifests, mut own) = (BTreeSet::new(), 0_u64, 0_u64);
    while let Some(manifest) = read.next().await {
        let (segments, is_own) = manifest?;
        manifests += 1;
        own += u64::from(is_own);
        named.extend(segments.into_iter().map(|segment| segment.sha256));
    }
    match (manifests, own) {
        (0, _) if needs_some => Err(CleanError::NoManifest),
        (1.., 0) => Err(CleanError::Stranger),
        _ => Ok(named),
    }
}
