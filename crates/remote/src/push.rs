//! `push`: publishes what was recorded on this machine.
//!
//! With a key: new segments, and manifests that name them beside what they named before. Without one: portable records
//! for the inbox, where somebody with a key finds them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vkstash_store::format::app_name::AppName;
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::format::record::{CRASH_LIMIT, Key, Kind};
use vkstash_store::format::refusal::OpenError;
use vkstash_store::stash::inspect;
use vkstash_store::stash::open::Stash;

use crate::bucket::{Bucket, BucketError, Found};
use crate::envelope::EnvelopeError;
use crate::gather::{self, Known, New, Wish};
use crate::home::{Home, names_in};
use crate::key::{KeyError, Signer};
use crate::manifest::{self, Content, Manifest, ManifestError, Reference, Segment};
use crate::names::{self, Digest, Target};
use crate::progress::Progress;
use crate::replace::replace;
use crate::revocations::{self, Revocations, Revoked};
use crate::trust::Trust;

/// So often others may be faster.
const ATTEMPTS: u32 = 50;
/// With more segments than this the manifest names merged ones instead.
const MANY: usize = 64;
/// Bytes of one record in a list of published keys.
const LISTED: usize = 33;

/// What is pushed.
pub struct Request {
    /// The stash.
    pub root: PathBuf,
    /// The folders of its applications.
    pub applications: Vec<String>,
    /// No artifacts.
    pub portable: bool,
    /// Takes the place of manifests that nobody whom this machine believes has signed.
    pub replace: bool,
    /// Merges small segments, if the base has all that the manifest names.
    pub compact: bool,
    /// Seconds until the manifests expire.
    pub valid: u64,
    /// The time, in seconds since 1970.
    pub now: u64,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Segments that were sent, and their bytes.
    pub segments: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Records in them.
    pub records: u64,
    /// Manifests that were written.
    pub manifests: u64,
    /// How often somebody else was faster.
    pub lost: u64,
}

/// Why it was not published.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// The store.
    #[error(transparent)]
    Store(#[from] BucketError),
    /// The stash.
    #[error("cannot read the stash: {0}")]
    Stash(#[from] OpenError),
    /// A disk of this machine.
    #[error("{0}")]
    Disk(#[from] io::Error),
    /// The key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// What is published there cannot be built on.
    #[error(
        "the manifest that is there is not signed by anybody whom this machine believes: {0}; --replace puts a new one in its place"
    )]
    Foreign(EnvelopeError),
    /// What is published there cannot be built on.
    #[error("the manifest that is there cannot be used: {0}; --replace puts a new one in its place")]
    Manifest(ManifestError),
    /// Others were faster all the time.
    #[error("others publish all the time")]
    Busy,
    /// There are more segments than a manifest can name.
    #[error("the manifest names too many segments: pull, then push with --compact")]
    Many,
}

impl PushError {
    /// The exit status.
    pub fn failure(&self) -> crate::pull::Failure {
        use crate::pull::Failure;
        match self {
            PushError::Store(BucketError::Unreachable(_) | BucketError::Missing(_)) => Failure::Offline,
            PushError::Store(BucketError::Denied(_)) | PushError::Foreign(_) | PushError::Manifest(_) => {
                Failure::Refused
            }
            PushError::Busy => Failure::Busy,
            _ => Failure::Local,
        }
    }
}

struct Push<'a> {
    bucket: &'a Bucket,
    home: &'a Home,
    trust: Trust,
    signer: &'a Signer,
    request: &'a Request,
    progress: Arc<dyn Progress>,
}

/// Publishes and signs.
pub async fn push(
    bucket: &Bucket,
    home: &Home,
    trust: &Trust,
    signer: &Signer,
    request: &Request,
    progress: Arc<dyn Progress>,
) -> Result<Pushed, PushError> {
    let trust = believing(trust, signer);
    let push = Push { bucket, home, trust, signer, request, progress };
    let mut pushed = Pushed::default();
    for application in &request.applications {
        push.application(application, &mut pushed).await?;
    }
    Ok(pushed)
}

/// Whoever signs believes itself.
fn believing(trust: &Trust, signer: &Signer) -> Trust {
    let own = crate::trust::Signer {
        name: String::new(),
        key: signer.public().clone(),
        applications: vec!["*".to_owned()],
        content: Content::Artifacts,
    };
    trust.clone().and(Trust { signers: vec![own] })
}

/// Revokes for everybody what is quarantined in the stash of this machine.
pub async fn revoke(
    bucket: &Bucket,
    home: &Home,
    trust: &Trust,
    signer: &Signer,
    request: &Request,
    progress: Arc<dyn Progress>,
) -> Result<Pushed, PushError> {
    let trust = believing(trust, signer);
    let push = Push { bucket, home, trust, signer, request, progress };
    let mut pushed = Pushed::default();
    for application in &request.applications {
        let Some(app) = names::application(application) else { continue };
        let artifacts = quarantined(&request.root, &app).await?;
        if let Some(reference) = push.revocations(application, artifacts, &mut pushed).await? {
            push.refer(application, &reference, &mut pushed).await?;
        }
    }
    Ok(pushed)
}

/// The artifacts that programs of this machine died of.
async fn quarantined(root: &Path, app: &AppName) -> Result<BTreeSet<Revoked>, PushError> {
    let stash = opened(root, app).await?;
    let parts = inspect::parts_of(root, &app.folder);
    let mut artifacts = BTreeSet::new();
    for header in parts.into_iter().filter_map(|part| part.device) {
        let device = header.short_digest();
        stash.device(&header)?.for_each(Kind::CrashCount, &mut |key, payload| {
            // The key zeros stands for calls of workers.
            if *key != [0; 32] && payload.first().is_some_and(|count| *count >= CRASH_LIMIT) {
                artifacts.insert(Revoked { device: device.clone(), key: Digest(*key) });
            }
        });
    }
    Ok(artifacts)
}

/// Puts portable records that the base lacks into the inbox.
pub async fn offer(
    bucket: &Bucket,
    home: &Home,
    request: &Request,
    progress: Arc<dyn Progress>,
) -> Result<Pushed, PushError> {
    let mut pushed = Pushed::default();
    for application in &request.applications {
        let Some(app) = names::application(application) else { continue };
        let stash = opened(&request.root, &app).await?;
        let target = Target::Portable;
        // What everybody has, and what was offered before.
        let mut known = Known::new();
        let part = home.part(application, &target);
        for name in names_in(&part) {
            known.extend(gather::keys_of(&part, &name, None).unwrap_or_default());
        }
        let lists = home.pushed(application, &target);
        names_in(&lists).iter().for_each(|name| known.extend(listed(&lists.join(name))));
        let wish = Wish { app: &app, device: None, known: &known, also: &[], uses: true };
        let folder = tempfile::Builder::new().prefix("push-").tempdir_in(home.temporary())?;
        for new in gather::gather(Some(&stash), &wish, folder.path())? {
            progress.more(new.bytes);
            let place = names::in_inbox(application, &new.sha256);
            pushed.bytes += bucket.put_file(&place, &new.path).await?;
            progress.done(new.bytes);
            pushed.segments += 1;
            pushed.records += new.keys.len() as u64;
            list(&lists, &new)?;
        }
    }
    Ok(pushed)
}

async fn opened(root: &Path, app: &AppName) -> Result<Arc<Stash>, PushError> {
    Ok(Stash::open_patiently(root, app)?)
}

/// What is published for one target now.
struct Present {
    manifest: Option<Manifest>,
    over: Option<object_store::UpdateVersion>,
}

/// What one target gets.
struct Gift<'a> {
    application: &'a str,
    device: Option<&'a DeviceHeader>,
    /// New segments of the target's own part, and the segments that they replace.
    own: &'a [Segment],
    replaced: &'a BTreeSet<Digest>,
    revocations: Option<&'a Reference>,
}

impl Push<'_> {
    /// Adds to the list of an application. None: there is none, and nothing to put into one.
    async fn revocations(
        &self,
        application: &str,
        artifacts: BTreeSet<Revoked>,
        pushed: &mut Pushed,
    ) -> Result<Option<Reference>, PushError> {
        let place = names::revocations(application);
        for _ in 0..ATTEMPTS {
            let found = self.bucket.get(&place, None, revocations::LONGEST).await?;
            let (old, over) = match &found {
                Found::New(object) => {
                    let read = self.trust.verify(&object.bytes, application).map_err(PushError::Foreign);
                    let list = read.and_then(|(body, _)| {
                        Revocations::decode(body, application).map_err(PushError::Manifest)
                    })?;
                    let sha256 = Digest::of(&object.bytes);
                    (Some((list, sha256)), Some(&object.version))
                }
                _ => (None, None),
            };
            let (mut all, counter) =
                old.as_ref().map_or((BTreeSet::new(), 0), |(list, _)| (list.artifacts.clone(), list.counter));
            let before = all.len();
            all.extend(artifacts.iter().cloned());
            if all.len() == before {
                return Ok(old.map(|(list, sha256)| Reference { counter: list.counter, sha256 }));
            }
            let added = (all.len() - before) as u64;
            let list =
                Revocations { application: application.to_owned(), counter: counter + 1, artifacts: all };
            let bytes = self.signer.sign(&list.encode())?;
            let reference = Reference { counter: list.counter, sha256: Digest::of(&bytes) };
            if replace(self.bucket, &place, bytes, over).await? {
                pushed.records += added;
                return Ok(Some(reference));
            }
            pushed.lost += 1;
        }
        Err(PushError::Busy)
    }

    /// Lets all manifests of an application name that list.
    async fn refer(
        &self,
        application: &str,
        reference: &Reference,
        pushed: &mut Pushed,
    ) -> Result<(), PushError> {
        let folder = names::manifests().join(application);
        for listed in self.bucket.list(&folder, manifest::MOST_SEGMENTS).await? {
            let [name] = listed.name.as_slice() else { continue };
            let Some(target) = Target::parse(name) else { continue };
            let present = match self.present(application, &target).await {
                Ok(present) => present,
                Err(error @ (PushError::Foreign(_) | PushError::Manifest(_))) => {
                    self.progress.line(&format!("{application}, {name}: {error}"));
                    continue;
                }
                Err(error) => return Err(error),
            };
            let Some(manifest) = &present.manifest else { continue };
            let (device, replaced) = (manifest.device.clone(), BTreeSet::new());
            let gift = Gift {
                application,
                device: device.as_ref(),
                own: &[],
                replaced: &replaced,
                revocations: Some(reference),
            };
            self.publish(present, &gift, pushed).await?;
        }
        Ok(())
    }

    async fn application(&self, application: &str, pushed: &mut Pushed) -> Result<(), PushError> {
        let Some(app) = names::application(application) else { return Ok(()) };
        let mut devices: Vec<DeviceHeader> = Vec::new();
        if !self.request.portable {
            let parts = inspect::parts_of(&self.request.root, application);
            devices.extend(parts.into_iter().filter(|part| part.segments > 0).filter_map(|part| part.device));
        }
        let stash = opened(&self.request.root, &app).await?;
        let present = self.present(application, &Target::Portable).await?;
        let (own, replaced) = self.segments(&app, None, &stash, &present, pushed).await?;
        let gift = Gift { application, device: None, own: &own, replaced: &replaced, revocations: None };
        self.publish(present, &gift, pushed).await?;
        for header in &devices {
            let target = Target::Device(header.short_digest());
            let present = self.present(application, &target).await?;
            let (own, gone) = self.segments(&app, Some(header), &stash, &present, pushed).await?;
            let replaced = replaced.union(&gone).copied().collect();
            let gift =
                Gift { application, device: Some(header), own: &own, replaced: &replaced, revocations: None };
            self.publish(present, &gift, pushed).await?;
        }
        Ok(())
    }

    /// What is there, if it can be built on.
    async fn present(&self, application: &str, target: &Target) -> Result<Present, PushError> {
        let place = names::manifest(application, target);
        let object = match self.bucket.get(&place, None, manifest::LONGEST).await? {
            Found::New(object) => object,
            _ => return Ok(Present { manifest: None, over: None }),
        };
        let over = Some(object.version);
        let read = self.trust.verify(&object.bytes, application).map_err(PushError::Foreign);
        let read = read.and_then(|(body, content)| {
            let mut manifest = Manifest::decode(body, application, target).map_err(PushError::Manifest)?;
            // What its signer may not give gets no other signature.
            manifest.segments.retain(|segment| segment.content <= content);
            Ok(manifest)
        });
        match read {
            Ok(manifest) => Ok(Present { manifest: Some(manifest), over }),
            Err(error) if !self.request.replace => Err(error),
            Err(_) => Ok(Present { manifest: None, over }),
        }
    }

    /// Sends what the manifest's segments lack. Returns the new segments, and those that they replace.
    async fn segments(
        &self,
        app: &AppName,
        device: Option<&DeviceHeader>,
        stash: &Arc<Stash>,
        present: &Present,
        pushed: &mut Pushed,
    ) -> Result<(Vec<Segment>, BTreeSet<Digest>), PushError> {
        let content = if device.is_some() { Content::Artifacts } else { Content::Portable };
        let target = device.map_or(Target::Portable, |header| Target::Device(header.short_digest()));
        let named = present.manifest.iter().flat_map(|manifest| &manifest.segments);
        let named: Vec<&Segment> = named.filter(|segment| segment.content == content).collect();
        let part = self.home.part(&app.folder, &target);
        let in_base = |segment: &Segment| {
            let path = part.join(names::file(segment.age, &segment.sha256));
            path.metadata().is_ok_and(|found| found.len() == segment.bytes).then_some(path)
        };
        let here: Option<Vec<PathBuf>> = named.iter().map(|segment| in_base(segment)).collect();
        let merges = self.request.compact || named.len() >= MANY;
        let (mut known, mut also, mut replaced) = (Known::new(), Vec::new(), BTreeSet::new());
        match here {
            Some(files) if merges && named.len() > 1 => {
                also = files;
                replaced = named.iter().map(|segment| segment.sha256).collect();
            }
            _ => {
                let lists = self.home.pushed(&app.folder, &target);
                for segment in &named {
                    if let Some(path) = in_base(segment) {
                        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                        known.extend(gather::keys_of(&part, &name, device).unwrap_or_default());
                    } else {
                        known.extend(listed(&lists.join(segment.sha256.to_string())));
                    }
                }
            }
        }
        let folder = tempfile::Builder::new().prefix("push-").tempdir_in(self.home.temporary())?;
        let (app, device, stash) = (app.clone(), device.cloned(), stash.clone());
        let (at, application) = (folder.path().to_owned(), app.folder.clone());
        let gathered = tokio::task::spawn_blocking(move || {
            let wish = Wish { app: &app, device: device.as_ref(), known: &known, also: &also, uses: false };
            gather::gather(Some(&stash), &wish, &at)
        });
        let gathered = gathered.await.map_err(io::Error::other)??;
        gathered.iter().for_each(|new| self.progress.more(new.bytes));
        let mut segments = Vec::new();
        for new in gathered {
            pushed.bytes += self.bucket.put_file(&names::segment(&new.sha256), &new.path).await?;
            self.progress.done(new.bytes);
            pushed.segments += 1;
            pushed.records += new.keys.len() as u64;
            list(&self.home.pushed(&application, &target), &new)?;
            segments.push(Segment { sha256: new.sha256, bytes: new.bytes, content, age: new.age });
        }
        Ok((segments, replaced))
    }

    /// Writes the manifest. If somebody else was faster, theirs is read and what is new is added to it.
    async fn publish(
        &self,
        mut present: Present,
        gift: &Gift<'_>,
        pushed: &mut Pushed,
    ) -> Result<(), PushError> {
        let target = gift.device.map_or(Target::Portable, |header| Target::Device(header.short_digest()));
        for _ in 0..ATTEMPTS {
            // Every device gets all portable segments. Their manifest is read after that of the device: whoever changed
            // the latter has changed the former before.
            let portable = match gift.device {
                Some(_) => self.present(gift.application, &Target::Portable).await?.manifest,
                None => None,
            };
            let portable = portable.map(|manifest| manifest.segments).unwrap_or_default();
            let Some(manifest) = self.next(&present, &portable, gift)? else { return Ok(()) };
            let place = names::manifest(gift.application, &target);
            let bytes = self.signer.sign(&manifest.encode())?;
            if replace(self.bucket, &place, bytes, present.over.as_ref()).await? {
                pushed.manifests += 1;
                return Ok(());
            }
            pushed.lost += 1;
            present = self.present(gift.application, &target).await?;
        }
        Err(PushError::Busy)
    }

    /// The manifest that takes the place of the present one. None: it says all that there is, for long enough.
    fn next(
        &self,
        present: &Present,
        portable: &[Segment],
        gift: &Gift<'_>,
    ) -> Result<Option<Manifest>, PushError> {
        let mut segments: Vec<Segment> = Vec::new();
        let mut known = BTreeSet::new();
        let before = present.manifest.iter().flat_map(|manifest| &manifest.segments);
        // A portable segment that is not in the portable manifest any more was merged.
        let before = before.filter(|segment| {
            !gift.replaced.contains(&segment.sha256)
                && (gift.device.is_none() || segment.content == Content::Artifacts)
        });
        for segment in portable.iter().chain(before).chain(gift.own) {
            if known.insert(segment.sha256) {
                segments.push(segment.clone());
            }
        }
        if segments.len() > manifest::MOST_SEGMENTS {
            return Err(PushError::Many);
        }
        let old = present.manifest.as_ref();
        let lists = gift.revocations.into_iter().chain(old.and_then(|old| old.revocations.as_ref()));
        let revocations = lists.max_by_key(|list| list.counter).cloned();
        let now = self.request.now;
        match old {
            None if segments.is_empty() => return Ok(None),
            Some(old)
                if old.segments == segments
                    && old.revocations == revocations
                    && old.expires > now.saturating_add(self.request.valid / 2) =>
            {
                return Ok(None);
            }
            _ => {}
        }
        let manifest = Manifest {
            application: gift.application.to_owned(),
            device: gift.device.cloned(),
            // A manifest that is replaced unread may have had any counter: time is ahead of all.
            counter: old.map_or(if present.over.is_some() { now } else { 0 }, |old| old.counter) + 1,
            created: now,
            expires: now.saturating_add(self.request.valid),
            segments,
            revocations,
        };
        manifest.check().map_err(PushError::Manifest)?;
        Ok(Some(manifest))
    }
}

/// Notes which keys a published segment has.
fn list(folder: &Path, new: &New) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut bytes = Vec::with_capacity(new.keys.len() * LISTED);
    for (kind, key) in &new.keys {
        bytes.push(*kind as u8);
        bytes.extend_from_slice(key);
    }
    fs::write(folder.join(new.sha256.to_string()), bytes)
}

/// The keys in such a list; none if there is no list.
fn listed(path: &Path) -> Vec<(Kind, Key)> {
    let bytes = fs::read(path).unwrap_or_default();
    let key = |bytes: &[u8]| Some((Kind::from_number(bytes[0])?, *bytes[1..].first_chunk::<32>()?));
    bytes.chunks_exact(LISTED).filter_map(key).collect()
}
