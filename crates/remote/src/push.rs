//! `push`: publishes what was recorded on this machine.
//!
//! With a key: new segments, and manifests that name them beside what they named before. Without one: portable records
//! for the inbox, where somebody with a key finds them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vkstash_host::disk::errors::OpenError;
use vkstash_model::app_name::AppName;
use vkstash_model::record::{CRASH_LIMIT, Key, Kind};
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::stash::inspect;
use vkstash_store::stash::open::Stash;

use crate::bucket::{Bucket, BucketError, Found};
use crate::envelope::{Envelope, EnvelopeError};
use crate::gather::{self, Gathered, Known, New};
use crate::home::{Home, Working, names_in};
use crate::key::{KeyError, Signer};
use crate::manifest::{self, Content, Manifest, ManifestError, Reference, Segment};
use crate::names::{self, Digest, Target};
use crate::progress::Progress;
use crate::pull::Failure;
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
    /// Applications whose manifests cannot be built on: for each a line was told.
    pub refused: Vec<String>,
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
    /// What is published there cannot be built on.
    #[error(
        "{what} is older than what this machine has: counter {found} after {known}; --replace puts a new one in its place"
    )]
    Older {
        /// What is older: a manifest, or another signed file.
        what: &'static str,
        /// The counter of the older file.
        found: u64,
        /// The counter that this machine has seen.
        known: u64,
    },
    /// What is published there cannot be built on.
    #[error("the manifest that is there has expired; --replace signs again what it names")]
    Expired,
    /// Other publishers were faster all the time.
    #[error("others publish all the time")]
    Busy,
    /// Everybody reads a list as a whole.
    #[error("the list of revocations would be longer than anybody reads")]
    Revocations,
    /// A mistake of this program.
    #[error("the new manifest would name nothing of what the one before names")]
    Loses,
    /// There are more segments than a manifest can name.
    #[error("the manifest names too many segments: pull, then push with --compact")]
    Many,
}

impl PushError {
    /// The exit status.
    pub fn failure(&self) -> Failure {
        match self {
            PushError::Store(BucketError::Unreachable(_) | BucketError::Missing(_) | BucketError::Slow) => {
                Failure::Offline
            }
            PushError::Store(BucketError::Denied(_))
            | PushError::Foreign(_)
            | PushError::Manifest(_)
            | PushError::Older { .. }
            | PushError::Expired => Failure::Refused,
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

/// Publishes and signs. What is refused of one of several applications keeps nobody from publishing the others.
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
        match push.application(application, &mut pushed).await {
            Err(error) if error.failure() == Failure::Refused && request.applications.len() > 1 => {
                push.progress.line(&format!("{application}: {error}"));
                pushed.refused.push(application.clone());
            }
            outcome => outcome?,
        }
    }
    Ok(pushed)
}

/// `trust`, to which the signer's own key is added: a publisher believes itself.
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
        if push.revocations(application, artifacts, &mut pushed).await? {
            push.refer(application, &mut pushed).await?;
        }
    }
    Ok(pushed)
}

/// The artifacts that programs of this machine died of.
async fn quarantined(root: &Path, app: &AppName) -> Result<BTreeSet<Revoked>, PushError> {
    let stash = opened(root, app).await?;
    let parts = inspect::parts_of(root, &app.folder)?;
    let mut artifacts = BTreeSet::new();
    for header in parts.into_iter().filter_map(|part| part.device) {
        let device = header.short_digest();
        let part = stash.device(&header)?;
        part.for_each(Kind::CrashCount, &mut |key, payload| {
            // The key zeros stands for calls of workers.
            if *key != [0; 32] && payload.first().is_some_and(|count| *count >= CRASH_LIMIT) {
                artifacts.insert(Revoked { device: device.clone(), key: Digest(*key) });
            }
        });
        gather::check_read(&part)?;
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
        let folder = home.working("push-")?;
        let at = folder.path().to_owned();
        let gathered = tokio::task::spawn_blocking(move || {
            let request =
                gather::Request { app: &app, device: None, known: &known, replaced: &[], uses: true };
            gather::gather(Some(&stash), &request, &at)
        });
        let gathered = gathered.await.map_err(io::Error::other)??;
        for new in gathered.made() {
            progress.more(new.bytes);
            let place = names::in_inbox(application, &new.sha256);
            pushed.bytes += bucket.put_file(&place, &new.path).await?;
            progress.done(new.bytes);
            pushed.segments += 1;
            pushed.records += new.keys.len() as u64;
            list(&lists, new)?;
        }
    }
    Ok(pushed)
}

async fn opened(root: &Path, app: &AppName) -> Result<Arc<Stash>, PushError> {
    Ok(Stash::open_patiently(root, app)?)
}

/// What is published for one target now.
struct Published {
    manifest: Option<Manifest>,
    over: Option<object_store::UpdateVersion>,
}

/// The list of an application in the store.
struct List {
    /// None: it is not there, or is not believed and to be replaced.
    list: Option<(Revocations, Reference)>,
    over: Option<object_store::UpdateVersion>,
}

/// One target, before anything is sent.
struct ToSend {
    device: Option<DeviceHeader>,
    published: Published,
    gathered: Gathered,
    /// Has the gathered segments.
    folder: Working,
}

/// What one target gets.
struct Addition<'a> {
    application: &'a str,
    device: Option<&'a DeviceHeader>,
    /// New segments of the target's own part.
    own: &'a [Segment],
    /// What they, and new portable ones, replace.
    replaced: &'a BTreeSet<Digest>,
}

/// What the target of a device, or the portable one, is called, and what its segments have.
fn of_target(device: Option<&DeviceHeader>) -> (Content, Target) {
    match device {
        Some(header) => (Content::Artifacts, Target::Device(header.short_digest())),
        None => (Content::Portable, Target::Portable),
    }
}

/// A counter that nobody has seen before, also where what was there is gone: time is ahead of all that began at 1.
fn counter(old: Option<u64>, saved: Option<u64>, now: u64) -> u64 {
    let after = |counter: Option<u64>| counter.map_or(1, |counter| counter.saturating_add(1));
    after(old).max(after(saved)).max(now)
}

impl Push<'_> {
    /// The list that is in the store, if it can be built on.
    async fn list(&self, application: &str) -> Result<List, PushError> {
        let place = names::revocations(application);
        let found = self.bucket.get(&place, None, revocations::LONGEST).await?;
        let Found::New(object) = found else { return Ok(List { list: None, over: None }) };
        let read = self.trust.verify(&object.bytes, application).map_err(PushError::Foreign);
        let read = read.and_then(|(body, _)| {
            let list = Revocations::decode(body, application).map_err(PushError::Manifest)?;
            match self.saved_list(application) {
                Some(known) if known.counter > list.counter => Err(PushError::Older {
                    what: "the list of revocations that is there",
                    found: list.counter,
                    known: known.counter,
                }),
                _ => Ok(list),
            }
        });
        let over = Some(object.version);
        match read {
            Ok(list) => {
                let reference = Reference { counter: list.counter, sha256: Digest::of(&object.bytes) };
                Ok(List { list: Some((list, reference)), over })
            }
            Err(error) if !self.request.replace => Err(error),
            Err(error) => {
                self.progress.line(&format!("{application}: the list of revocations is not used: {error}"));
                Ok(List { list: None, over })
            }
        }
    }

    /// The list that this machine has accepted.
    fn saved_list(&self, application: &str) -> Option<Revocations> {
        let (bytes, _) = self.home.saved(application, "revocations", revocations::LONGEST)?;
        Revocations::decode(self.trust.verify(&bytes, application).ok()?.0, application).ok()
    }

    /// The counter of the manifest that this machine has accepted, with any signature.
    fn saved_counter(&self, application: &str, target: &Target) -> Option<u64> {
        let (bytes, _) = self.home.saved(application, target.name(), manifest::LONGEST)?;
        let envelope = Envelope::decode(&bytes).ok()?;
        Manifest::decode(envelope.unverified(), application, target).ok().map(|manifest| manifest.counter)
    }

    /// Adds to the list of an application. False: there is none, and nothing to put into one.
    async fn revocations(
        &self,
        application: &str,
        artifacts: BTreeSet<Revoked>,
        pushed: &mut Pushed,
    ) -> Result<bool, PushError> {
        let place = names::revocations(application);
        for _ in 0..ATTEMPTS {
            let List { list: old, over } = self.list(application).await?;
            let old = old.map(|(list, _)| list);
            // A list that has vanished is put back.
            let saved = self.saved_list(application);
            let before = old.as_ref().map_or(0, |list| list.artifacts.len());
            let mut all = artifacts.clone();
            all.extend([&old, &saved].into_iter().flatten().flat_map(|list| list.artifacts.iter().cloned()));
            if all.len() == before {
                return Ok(old.is_some());
            }
            let added = (all.len() - before) as u64;
            let of = |list: &Option<Revocations>| list.as_ref().map(|list| list.counter);
            let counter = counter(of(&old), of(&saved), self.request.now);
            let list = Revocations { application: application.to_owned(), counter, artifacts: all };
            let bytes = self.signer.sign(&list.encode())?;
            if list.artifacts.len() > revocations::MOST || bytes.len() as u64 > revocations::LONGEST {
                return Err(PushError::Revocations);
            }
            if replace(self.bucket, &place, bytes, over.as_ref()).await? {
                pushed.records += added;
                return Ok(true);
            }
            pushed.lost += 1;
        }
        Err(PushError::Busy)
    }

    /// Lets all manifests of an application name its list.
    async fn refer(&self, application: &str, pushed: &mut Pushed) -> Result<(), PushError> {
        let folder = names::manifests().join(application);
        for listed in self.bucket.list(&folder, manifest::MOST_SEGMENTS).await? {
            let [name] = listed.name.as_slice() else { continue };
            let Some(target) = Target::parse(name) else { continue };
            let published = match self.published(application, &target).await {
                Ok(published) => published,
                Err(
                    error @ (PushError::Foreign(_)
                    | PushError::Manifest(_)
                    | PushError::Older { .. }
                    | PushError::Expired),
                ) => {
                    self.progress.line(&format!("{application}, {name}: {error}"));
                    continue;
                }
                Err(error) => return Err(error),
            };
            let Some(manifest) = &published.manifest else { continue };
            let (device, replaced) = (manifest.device.clone(), BTreeSet::new());
            let addition = Addition { application, device: device.as_ref(), own: &[], replaced: &replaced };
            self.publish(published, &addition, pushed).await?;
        }
        Ok(())
    }

    async fn application(&self, application: &str, pushed: &mut Pushed) -> Result<(), PushError> {
        let Some(app) = names::application(application) else { return Ok(()) };
        let mut devices: Vec<DeviceHeader> = Vec::new();
        if !self.request.portable {
            let parts = inspect::parts_of(&self.request.root, application)?;
            devices.extend(parts.into_iter().filter(|part| part.segments > 0).filter_map(|part| part.device));
        }
        let stash = opened(&self.request.root, &app).await?;
        // If anything cannot be read, nothing is published.
        let mut targets = vec![self.gathered(&app, None, &stash).await?];
        for header in devices {
            targets.push(self.gathered(&app, Some(header), &stash).await?);
        }
        // The manifests of devices name the portable segments, too.
        let mut of_portable = BTreeSet::new();
        for ToSend { device, published, gathered, folder } in targets {
            let own = self.send(&app, device.as_ref(), &gathered, pushed).await?;
            drop(folder);
            let mut replaced = gathered.replaced().clone();
            match device {
                Some(_) => replaced.extend(of_portable.iter().copied()),
                None => of_portable = replaced.clone(),
            }
            let addition = Addition { application, device: device.as_ref(), own: &own, replaced: &replaced };
            self.publish(published, &addition, pushed).await?;
        }
        Ok(())
    }

    /// What is there, if it can be built on.
    async fn published(&self, application: &str, target: &Target) -> Result<Published, PushError> {
        let place = names::manifest(application, target);
        let object = match self.bucket.get(&place, None, manifest::LONGEST).await? {
            Found::New(object) => object,
            _ => return Ok(Published { manifest: None, over: None }),
        };
        let over = Some(object.version);
        let read = self.trust.verify(&object.bytes, application).map_err(PushError::Foreign);
        let read = read.and_then(|(body, content)| {
            let mut manifest = Manifest::decode(body, application, target).map_err(PushError::Manifest)?;
            let found = manifest.counter;
            match self.saved_counter(application, target) {
                Some(known) if known > found => {
                    return Err(PushError::Older { what: "the manifest that is there", found, known });
                }
                _ => {}
            }
            // A store may show an old manifest to a machine that knows no newer one. With --replace the user has
            // decided.
            if manifest.expires < self.request.now && !self.request.replace {
                return Err(PushError::Expired);
            }
            // What its signer may not give gets no other signature.
            manifest.segments.retain(|segment| segment.content <= content);
            Ok(manifest)
        });
        match read {
            Ok(manifest) => Ok(Published { manifest: Some(manifest), over }),
            Err(error) if !self.request.replace => Err(error),
            Err(_) => Ok(Published { manifest: None, over }),
        }
    }

    /// Gathers what the manifest's segments lack.
    async fn gathered(
        &self,
        app: &AppName,
        device: Option<DeviceHeader>,
        stash: &Arc<Stash>,
    ) -> Result<ToSend, PushError> {
        let (content, target) = of_target(device.as_ref());
        let published = self.published(&app.folder, &target).await?;
        let named = published.manifest.iter().flat_map(|manifest| &manifest.segments);
        let named: Vec<&Segment> = named.filter(|segment| segment.content == content).collect();
        let part = self.home.part(&app.folder, &target);
        let in_base = |segment: &Segment| {
            let path = part.join(names::file(segment.age, &segment.sha256));
            path.metadata().is_ok_and(|found| found.len() == segment.bytes).then_some(path)
        };
        let are_here = named.iter().all(|segment| in_base(segment).is_some());
        let merges = (self.request.compact || named.len() >= MANY) && named.len() > 1 && are_here;
        let (mut known, mut replaced) = (Known::new(), Vec::new());
        let lists = self.home.pushed(&app.folder, &target);
        for segment in &named {
            match in_base(segment) {
                Some(path) if merges && gather::is_known(&path, device.as_ref()) => {
                    replaced.push((segment.sha256, path));
                }
                Some(path) => {
                    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    known.extend(gather::keys_of(&part, &name, device.as_ref()).unwrap_or_default());
                }
                None => known.extend(listed(&lists.join(segment.sha256.to_string()))),
            }
        }
        let folder = self.home.working("push-")?;
        let (app, header, stash) = (app.clone(), device.clone(), stash.clone());
        let at = folder.path().to_owned();
        let gathered = tokio::task::spawn_blocking(move || {
            let (known, replaced) = (&known, &replaced[..]);
            let request =
                gather::Request { app: &app, device: header.as_ref(), known, replaced, uses: false };
            gather::gather(Some(&stash), &request, &at)
        });
        let gathered = gathered.await.map_err(io::Error::other)??;
        Ok(ToSend { device, published, gathered, folder })
    }

    /// Sends the new segments of a target.
    async fn send(
        &self,
        app: &AppName,
        device: Option<&DeviceHeader>,
        gathered: &Gathered,
        pushed: &mut Pushed,
    ) -> Result<Vec<Segment>, PushError> {
        let (content, target) = of_target(device);
        if !gathered.made().is_empty() {
            // Before anything is sent that no manifest could name.
            self.bucket.check_conditions().await?;
        }
        gathered.made().iter().for_each(|new| self.progress.more(new.bytes));
        let mut own = Vec::new();
        for new in gathered.made() {
            pushed.bytes += self.bucket.put_file(&names::segment(&new.sha256), &new.path).await?;
            self.progress.done(new.bytes);
            pushed.segments += 1;
            pushed.records += new.keys.len() as u64;
            list(&self.home.pushed(&app.folder, &target), new)?;
            own.push(Segment { sha256: new.sha256, bytes: new.bytes, content, age: new.age });
        }
        Ok(own)
    }

    /// Writes the manifest. If somebody else was faster, theirs is read and what is new is added to it.
    async fn publish(
        &self,
        mut published: Published,
        addition: &Addition<'_>,
        pushed: &mut Pushed,
    ) -> Result<(), PushError> {
        let target = addition.device.map_or(Target::Portable, |header| Target::Device(header.short_digest()));
        for _ in 0..ATTEMPTS {
            // Every device gets all portable segments. Their manifest is read after that of the device: a push changes
            // the manifest of portable segments first.
            let portable = match addition.device {
                Some(_) => self.published(addition.application, &Target::Portable).await?.manifest,
                None => None,
            };
            let portable = portable.map(|manifest| manifest.segments);
            let list = self.list(addition.application).await?.list.map(|(_, reference)| reference);
            let saved = self.saved_counter(addition.application, &target);
            let next = self.next(&published, portable.as_deref(), list.as_ref(), addition, saved)?;
            let Some(manifest) = next else { return Ok(()) };
            let place = names::manifest(addition.application, &target);
            let bytes = self.signer.sign(&manifest.encode())?;
            if replace(self.bucket, &place, bytes, published.over.as_ref()).await? {
                pushed.manifests += 1;
                if published.manifest.is_some() {
                    return Ok(());
                }
                // A revocation makes all manifests name the new list, but for a manifest that was not there yet. The
                // next round finds that out.
            } else {
                pushed.lost += 1;
            }
            published = self.published(addition.application, &target).await?;
        }
        Err(PushError::Busy)
    }

    /// The manifest that takes the place of the published one. None: it says all that there is, for long enough.
    fn next(
        &self,
        published: &Published,
        portable: Option<&[Segment]>,
        list: Option<&Reference>,
        addition: &Addition<'_>,
        saved: Option<u64>,
    ) -> Result<Option<Manifest>, PushError> {
        let mut segments: Vec<Segment> = Vec::new();
        let mut known = BTreeSet::new();
        let before = published.manifest.iter().flat_map(|manifest| &manifest.segments);
        // A portable segment that is not in the portable manifest any more was merged.
        let before = before.filter(|segment| {
            !addition.replaced.contains(&segment.sha256)
                && (portable.is_none() || segment.content == Content::Artifacts)
        });
        for segment in portable.into_iter().flatten().chain(before).chain(addition.own) {
            if known.insert(segment.sha256) {
                segments.push(segment.clone());
            }
        }
        if segments.len() > manifest::MOST_SEGMENTS {
            return Err(PushError::Many);
        }
        let old = published.manifest.as_ref();
        if segments.is_empty() && old.is_some_and(|old| !old.segments.is_empty()) {
            return Err(PushError::Loses);
        }
        // What the list was that the manifest names counts also if the list is gone: nobody takes anything without it.
        let lists = list.into_iter().chain(old.and_then(|old| old.revocations.as_ref()));
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
            application: addition.application.to_owned(),
            device: addition.device.cloned(),
            counter: counter(old.map(|old| old.counter), saved, now),
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
