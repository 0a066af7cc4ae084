//! `pull`: brings the base of this machine up to what the store has.
//!
//! For each application and device one manifest is asked for; what it names and the base lacks is fetched, verified and
//! put into the base. Whatever goes wrong with a manifest, what the base has by the one before stays as it was.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::sync::OnceCell;

use vkstash_model::app_name::AppName;
use vkstash_store::format::device::DeviceHeader;

use crate::accepted::{self, Accepted, Settled, Text};
use crate::bucket::{Bucket, BucketError, Found};
use crate::envelope::EnvelopeError;
use crate::fetch::{self, FetchError};
use crate::home::{Home, Wanted};
use crate::manifest::{self, Content, Manifest, ManifestError, Segment};
use crate::names::{self, Digest, Target};
use crate::progress::{Progress, Rate};
use crate::revocations::{self, Revocations};
use crate::segment::{self, SegmentError, Unknown};
use crate::trust::Trust;
use crate::withdrawn;

/// Requests at once.
const AT_ONCE: usize = 8;
/// Segments that are fetched at once; each is verified while others come.
const SEGMENTS_AT_ONCE: usize = 3;
/// The most objects that are looked at in a list.
const MOST_LISTED: usize = 200_000;
/// Bytes that stay free on the disk.
const STAYS_FREE: u64 = 64 << 20;

/// What is pulled.
pub struct Request {
    /// Applications, with their devices. No devices: all that the store has.
    pub applications: Vec<(String, Vec<DeviceHeader>)>,
    /// Also the applications that the base has.
    pub kept: bool,
    /// All applications that the store has, those above with their devices.
    pub all: bool,
    /// The most bytes a second.
    pub rate: Option<u64>,
    /// How long to wait for another pull.
    pub patience: Duration,
    /// The time, in seconds since 1970.
    pub now: u64,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pulled {
    /// Manifests that were asked for.
    pub asked: u64,
    /// Of the manifests that were asked for, those that have not changed.
    pub unchanged: u64,
    /// Applications whose folder is new.
    pub updated: u64,
    /// Segments that were fetched.
    pub segments: u64,
    /// The bytes of these segments.
    pub bytes: u64,
    /// The records in these segments.
    pub records: u64,
    /// What was refused, or could not be had: for each a line was told.
    pub failures: Vec<Failure>,
}

/// What went wrong for one application. The numbers are exit statuses of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// Something of this machine: a disk, a folder.
    Local = 1,
    /// The store cannot be reached.
    Offline = 3,
    /// What the store has is refused.
    Refused = 4,
    /// Other processes were faster, or are at work.
    Busy = 5,
}

/// Why nothing could be done.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// The folder of this machine.
    #[error("cannot use the folder of the base: {0}")]
    Home(io::Error),
    /// Another pull is at work.
    #[error("another pull is at work")]
    Busy,
    /// The store.
    #[error(transparent)]
    Store(#[from] BucketError),
}

impl PullError {
    /// The exit status.
    pub fn failure(&self) -> Failure {
        match self {
            PullError::Home(_) => Failure::Local,
            PullError::Busy => Failure::Busy,
            PullError::Store(error) => of_store(error),
        }
    }
}

/// Why what there is for one application is not taken.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Store(#[from] BucketError),
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("it is older than what this machine has: counter {found} after {known}")]
    Older { found: u64, known: u64 },
    #[error("it differs from what this machine has, and has the same counter")]
    Twofold,
    #[error("it has expired")]
    Expired,
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("segment {0}: {1}")]
    Segment(Digest, SegmentError),
    #[error("{missing} bytes more are needed than the disk has free")]
    Full { missing: u64 },
    #[error(
        "{missing} bytes more are needed than the limit of the stash leaves (`vkstash stats` shows it, `vkstash keep` \
         changes it)"
    )]
    OverLimit { missing: u64 },
    #[error("{0}")]
    Disk(#[from] io::Error),
}

/// The exit status of what went wrong with a store.
pub(crate) fn of_store(error: &BucketError) -> Failure {
    match error {
        BucketError::Unreachable(_) | BucketError::Missing(_) | BucketError::Slow => Failure::Offline,
        BucketError::Denied(_) | BucketError::TooLong(_) => Failure::Refused,
        BucketError::Unable(_)
        | BucketError::NoDescriptors
        | BucketError::File(_)
        | BucketError::Address { .. } => Failure::Local,
    }
}

impl Refusal {
    fn failure(&self) -> Failure {
        match self {
            Refusal::Store(error) | Refusal::Fetch(FetchError::Store(error)) => of_store(error),
            Refusal::Fetch(FetchError::Disk { .. })
            | Refusal::Full { .. }
            | Refusal::OverLimit { .. }
            | Refusal::Disk(_) => Failure::Local,
            _ => Failure::Refused,
        }
    }
}

/// What was found for one target.
enum Answer {
    Nothing,
    Same(Accepted),
    New(Accepted),
    /// What was accepted before stays.
    Refused(Option<Accepted>, Refusal),
}

/// Vendor and device of a GPU, as Vulkan and PCI number them.
pub type Gpu = (u32, u32);

/// The manifests to ask for, by application.
type Targets = BTreeMap<String, BTreeSet<Target>>;

struct Pull<'a> {
    /// Of the devices that are not named, these alone. None: all.
    gpus: Option<&'a [Gpu]>,
    bucket: &'a Bucket,
    home: &'a Home,
    trust: &'a Trust,
    request: &'a Request,
    rate: Rate,
    settled: Settled,
    progress: Arc<dyn Progress>,
    /// Whether the store has anything; asked where it lacks a manifest.
    has_anything: OnceCell<bool>,
}

/// Pulls into `home` what `trust` allows.
pub async fn pull(
    bucket: &Bucket,
    home: &Home,
    trust: &Trust,
    request: &Request,
    progress: Arc<dyn Progress>,
) -> Result<Pulled, PullError> {
    let settled = settle(home, trust, request.now, request.patience, &*progress).await?;
    pull_for(bucket, home, trust, request, None, settled, progress).await
}

/// Locks the folder, and puts aside what does not count any more: the first thing that a pull does.
pub async fn settle(
    home: &Home,
    trust: &Trust,
    now: u64,
    patience: Duration,
    progress: &dyn Progress,
) -> Result<Settled, PullError> {
    let settled = accepted::settle(home, trust, now, patience, progress).await;
    settled.map_err(PullError::Home)?.ok_or(PullError::Busy)
}

/// [`pull`] that leaves out devices of vendors of GPUs that this machine does not have. Devices that the request names
/// count all the same, and so does what is no GPU.
pub async fn pull_for(
    bucket: &Bucket,
    home: &Home,
    trust: &Trust,
    request: &Request,
    gpus: Option<&[Gpu]>,
    settled: Settled,
    progress: Arc<dyn Progress>,
) -> Result<Pulled, PullError> {
    let rate = Rate::new(request.rate);
    let has_anything = OnceCell::new();
    Pull { gpus, bucket, home, trust, request, rate, settled, progress, has_anything }.run().await
}

impl Pull<'_> {
    async fn run(&self) -> Result<Pulled, PullError> {
        let mut pulled = Pulled::default();
        let wanted = self.wanted().await?;
        let mut by_application = self.answers(&wanted, &mut pulled).await?;
        let kin = self.kin(&by_application).await;
        // What was had of the others stays, whatever becomes of these.
        by_application.extend(self.answers(&kin, &mut pulled).await.unwrap_or_default());
        let mut needed = BTreeSet::new();
        for (application, answers) in by_application {
            self.application(&application, answers, &mut pulled, &mut needed).await;
        }
        self.home.clean(&|digest| needed.contains(digest));
        Ok(pulled)
    }

    /// Asks for these manifests. A device of which there is nothing gets what everybody gets.
    async fn answers(
        &self,
        wanted: &Targets,
        pulled: &mut Pulled,
    ) -> Result<BTreeMap<String, Vec<(Target, Answer)>>, PullError> {
        let asked = wanted.iter().flat_map(|(application, targets)| {
            targets.iter().map(move |target| (application.clone(), target.clone()))
        });
        let asked: Vec<(String, Target)> = asked.collect();
        pulled.asked += asked.len() as u64;
        let answers = asked.into_iter().map(|(application, target)| async move {
            let answer = self.ask(&application, &target).await;
            (application, target, answer)
        });
        let mut answers: Vec<_> =
            futures_util::stream::iter(answers).buffer_unordered(AT_ONCE).collect().await;
        answers.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
        // A store that nobody reaches is said once, however much was asked for.
        let is_offline = |(_, _, answer): &(String, Target, Answer)| match answer {
            Answer::Refused(_, Refusal::Store(error)) => of_store(error) == Failure::Offline,
            _ => false,
        };
        if answers.len() > 1
            && answers.iter().all(is_offline)
            && let Some((_, _, Answer::Refused(_, Refusal::Store(error)))) = answers.pop()
        {
            return Err(error.into());
        }
        let mut by_application: BTreeMap<String, Vec<(Target, Answer)>> = BTreeMap::new();
        for (application, target, answer) in answers {
            by_application.entry(application).or_default().push((target, answer));
        }
        for (application, answers) in &mut by_application {
            let lacks = |(target, answer): &(Target, Answer)| {
                matches!(answer, Answer::Nothing) && *target != Target::Portable
            };
            if answers.iter().any(lacks) && !answers.iter().any(|(target, _)| *target == Target::Portable) {
                pulled.asked += 1;
                let answer = self.ask(application, &Target::Portable).await;
                answers.push((Target::Portable, answer));
            }
        }
        Ok(by_application)
    }

    /// For applications that were asked for and of which the store has nothing: the manifests of other installations of
    /// them. None where the store gives no lists.
    async fn kin(&self, answers: &BTreeMap<String, Vec<(Target, Answer)>>) -> Targets {
        let is_absent = |application: &String| {
            let answers = answers.get(application).into_iter().flatten();
            answers.fold(true, |all, (_, answer)| all && matches!(answer, Answer::Nothing))
        };
        let absent = self.request.applications.iter().filter(|(application, _)| is_absent(application));
        let absent: Vec<_> = absent.collect();
        let mut kin = Targets::new();
        if absent.is_empty() {
            return kin;
        }
        let folders = self.bucket.folders(&names::manifests()).await.unwrap_or_default();
        for (application, devices) in absent {
            let is_kin =
                |folder: &&String| !answers.contains_key(*folder) && AppName::are_kin(folder, application);
            for folder in folders.iter().filter(is_kin) {
                let targets = kin.entry(folder.clone()).or_default();
                if devices.is_empty() {
                    let place = names::manifests().join(folder.as_str());
                    let listed = self.bucket.list(&place, MOST_LISTED).await.unwrap_or_default();
                    targets.extend(listed.iter().filter_map(|listed| Target::parse(listed.name.last()?)));
                }
                targets.extend(devices.iter().map(|header| Target::Device(header.short_digest())));
            }
        }
        kin
    }

    /// The manifests to ask for.
    async fn wanted(&self) -> Result<Targets, PullError> {
        let mut wanted = Targets::new();
        let mut open = BTreeSet::new();
        for (application, devices) in &self.request.applications {
            if names::application(application).is_none() {
                continue;
            }
            if devices.is_empty() {
                open.insert(application.clone());
            }
            let targets = devices.iter().map(|header| Target::Device(header.short_digest()));
            wanted.entry(application.clone()).or_default().extend(targets);
        }
        // What is in the base is kept up to date, and goes if it is withdrawn: programs are served what is kin, too.
        for (application, targets) in self.home.known() {
            let is_named =
                || wanted.keys().any(|named| *named == application || AppName::are_kin(named, &application));
            if self.request.all || self.request.kept || is_named() {
                wanted.entry(application).or_default().extend(targets);
            }
        }
        let lists = if self.request.all { vec![None] } else { open.into_iter().map(Some).collect() };
        for of in lists {
            let folder = match &of {
                Some(application) => names::manifests().join(application.as_str()),
                None => names::manifests(),
            };
            for listed in self.bucket.list(&folder, MOST_LISTED).await? {
                let (application, target) = match (&of, listed.name.as_slice()) {
                    (Some(application), [target]) => (application, target),
                    (None, [application, target]) => (application, target),
                    _ => continue,
                };
                let ours = names::application(application).and_then(|_| Target::parse(target));
                let Some(target) = ours else { continue };
                let named = self.request.applications.iter().find(|(name, _)| name == application);
                if named.is_none_or(|(_, devices)| devices.is_empty()) {
                    wanted.entry(application.clone()).or_default().insert(target);
                }
            }
        }
        wanted.retain(|_, targets| !targets.is_empty());
        Ok(wanted)
    }

    /// What was accepted before, if its signer is still pinned.
    fn saved(&self, application: &str, target: &Target) -> Option<(Accepted, Option<String>)> {
        accepted::saved(self.home, self.trust, application, target)?.ok()
    }

    /// What was accepted before stays, unless it has expired.
    fn stays(&self, saved: Option<Accepted>) -> Option<Accepted> {
        saved.filter(|saved| saved.manifest.expires >= self.settled.believed)
    }

    async fn ask(&self, application: &str, target: &Target) -> Answer {
        let saved = self.saved(application, target);
        let tag = saved.as_ref().and_then(|(_, tag)| tag.clone());
        let saved = saved.map(|(accepted, _)| accepted);
        let place = names::manifest(application, target);
        let found = match self.bucket.get(&place, tag.as_deref(), manifest::LONGEST).await {
            Ok(found) => found,
            Err(error) => return Answer::Refused(self.stays(saved), error.into()),
        };
        if matches!(found, Found::Missing) && self.is_withdrawn(application).await {
            return Answer::Nothing;
        }
        let object = match (found, saved) {
            (Found::New(object), saved) => (object, saved),
            (Found::Missing, None) => return Answer::Nothing,
            (Found::Missing | Found::Unchanged, Some(saved)) => {
                if saved.manifest.expires < self.request.now {
                    return Answer::Refused(self.stays(Some(saved)), Refusal::Expired);
                }
                return Answer::Same(saved);
            }
            (Found::Unchanged, None) => return Answer::Nothing,
        };
        let (object, saved) = object;
        match self.accept(application, target, &object.bytes) {
            Ok((manifest, _)) if !self.is_usable(application, &manifest) => Answer::Nothing,
            Ok((manifest, content)) => {
                let new = Some((object.bytes.to_vec(), object.version.e_tag));
                // A known manifest may come back with another ETag, or signed by somebody who may give more or less.
                let is_known = saved.is_some_and(|saved| saved.manifest == manifest);
                let accepted = Accepted { manifest, content, new };
                if is_known { Answer::Same(accepted) } else { Answer::New(accepted) }
            }
            Err(refusal) => Answer::Refused(self.stays(saved), refusal),
        }
    }

    /// Whether a manifest of the application that the store lacks was withdrawn.
    async fn is_withdrawn(&self, application: &str) -> bool {
        !self.home.base().join(application).exists()
            || *self.has_anything.get_or_init(|| withdrawn::has_anything(self.bucket)).await
    }

    /// Whether this machine may have that device.
    fn is_usable(&self, application: &str, manifest: &Manifest) -> bool {
        let (Some(gpus), Some(header)) = (self.gpus, &manifest.device) else { return true };
        let mut named = self.request.applications.iter().filter(|(name, _)| name == application);
        // Software has numbers that PCI does not have.
        header.vendor_id > 0xffff
            || gpus.contains(&(header.vendor_id, header.device_id))
            || named.any(|(_, devices)| devices.contains(header))
    }

    /// Whether a text from the store counts.
    fn accept(
        &self,
        application: &str,
        target: &Target,
        bytes: &[u8],
    ) -> Result<(Manifest, Content), Refusal> {
        let (body, content) = self.trust.verify(bytes, application)?;
        let manifest = Manifest::decode(body, application, target)?;
        let headers = self.request.applications.iter().find(|(name, _)| name == application);
        let headers = headers.map(|(_, devices)| devices.as_slice()).unwrap_or_default();
        let named = headers.iter().find(|header| Target::Device(header.short_digest()) == *target);
        if named.is_some_and(|header| manifest.device.as_ref() != Some(header)) {
            return Err(ManifestError::Device.into());
        }
        // Also of a signer that is not pinned any more: what a counter was is known all the same.
        let known = self.home.saved(application, target.name(), manifest::LONGEST);
        let known = known.and_then(|(bytes, _)| {
            let envelope = crate::envelope::Envelope::decode(&bytes).ok()?;
            Manifest::decode(envelope.unverified(), application, target).ok()
        });
        if let Some(known) = &known {
            let (found, known_counter) = (manifest.counter, known.counter);
            if found < known_counter {
                return Err(Refusal::Older { found, known: known_counter });
            }
            if found == known_counter && *known != manifest {
                return Err(Refusal::Twofold);
            }
        }
        if manifest.expires < self.request.now {
            return Err(Refusal::Expired);
        }
        Ok((manifest, content))
    }

    /// Brings one application up to date.
    async fn application(
        &self,
        application: &str,
        answers: Vec<(Target, Answer)>,
        pulled: &mut Pulled,
        needed: &mut BTreeSet<Digest>,
    ) {
        let (accepted, mut is_whole) = self.accepted(application, answers, pulled);
        let list = match self.revocations(application, accepted.iter()).await {
            Ok(list) => list,
            Err(refusal) => return self.fail(application, ", revocations", &refusal, pulled),
        };
        let mut here: HashMap<Digest, PathBuf> = HashMap::new();
        let mut kept = Vec::new();
        for accepted in accepted {
            let dropped = accepted.manifest.segments.len() - accepted.segments().count();
            if dropped > 0 && accepted.new.is_some() {
                self.progress.line(&format!(
                    "{application}: {dropped} segments with artifacts left out: their signer may give portable \
                     records only"
                ));
            }
            needed.extend(accepted.segments().map(|segment| segment.sha256));
            match self.segments(application, &accepted, &mut here, pulled).await {
                Ok(()) => kept.push(accepted),
                Err(refusal) => {
                    self.fail(application, "", &refusal, pulled);
                    let before = self.saved(application, &accepted.manifest.target());
                    let before = self.stays(before.map(|(before, _)| before));
                    match before.filter(|before| before.manifest != accepted.manifest) {
                        Some(before) => kept.push(before),
                        None => is_whole = false,
                    }
                }
            }
        }
        let mut wanted = self.folder(application, &kept, list.as_ref().map(|(list, _)| list), &here);
        if !is_whole {
            self.home.carry_over(application, &mut wanted);
        }
        let new_list = list.and_then(|(_, new)| new);
        // Where something is refused, nothing says that it was withdrawn.
        if is_whole
            && wanted.parts.is_empty()
            && let Err(error) = self.withdraw(application)
        {
            return self.fail(application, "", &Refusal::Disk(error), pulled);
        }
        if let Err(error) = self.install(application, &wanted, new_list, kept, pulled) {
            return self.fail(application, "", &Refusal::Disk(error), pulled);
        }
        // What belongs to a manifest that could not be followed need not be fetched again by the next pull.
        let linked: HashSet<&PathBuf> = wanted.parts.values().flat_map(BTreeMap::values).collect();
        for path in here.values().filter(|path| linked.contains(path)) {
            let _ = std::fs::remove_file(path);
        }
    }

    /// Notes that what there is for an application, or a part of it, is not taken.
    fn fail(&self, application: &str, part: &str, refusal: &Refusal, pulled: &mut Pulled) {
        let stays = if self.home.is_put_away(application) { "" } else { "; what was there stays" };
        self.progress.line(&format!("{application}{part}: {refusal}{stays}"));
        pulled.failures.push(refusal.failure());
    }

    /// The manifests that count. False: for some target there is none, although the store has one.
    fn accepted(
        &self,
        application: &str,
        answers: Vec<(Target, Answer)>,
        pulled: &mut Pulled,
    ) -> (Vec<Accepted>, bool) {
        let (mut accepted, mut is_whole) = (Vec::new(), true);
        for (target, answer) in answers {
            match answer {
                Answer::Nothing => {}
                Answer::Same(known) => {
                    pulled.unchanged += 1;
                    accepted.push(known);
                }
                Answer::New(new) => accepted.push(new),
                Answer::Refused(known, refusal) => {
                    self.fail(application, &format!(", {}", target.name()), &refusal, pulled);
                    is_whole &= known.is_some();
                    accepted.extend(known);
                }
            }
        }
        (accepted, is_whole)
    }

    fn withdraw(&self, application: &str) -> io::Result<()> {
        if self.home.withdraw(application)? {
            self.progress
                .line(&format!("{application}: withdrawn from the store, and removed from the base"));
        }
        Ok(())
    }

    /// Puts what is wanted into the base, and keeps the texts by which it is wanted: a new list of revocations, and
    /// what is new of the manifests.
    fn install(
        &self,
        application: &str,
        wanted: &Wanted,
        new_list: Option<Text>,
        manifests: Vec<Accepted>,
        pulled: &mut Pulled,
    ) -> io::Result<()> {
        let is_new = || new_list.is_some() || !self.home.has(application, wanted);
        if !wanted.parts.is_empty() && is_new() {
            let app = names::application(application).ok_or(io::ErrorKind::InvalidInput)?;
            self.home.install(&app, wanted)?;
            pulled.updated += 1;
        }
        let list = new_list.map(|new| ("revocations".to_owned(), new));
        let texts = manifests
            .into_iter()
            .filter_map(|accepted| Some((accepted.manifest.target().name().to_owned(), accepted.new?)));
        for (name, (bytes, tag)) in list.into_iter().chain(texts) {
            self.home.save(application, &name, &bytes, tag.as_deref())?;
        }
        Ok(())
    }

    /// The list that counts, and what is to be kept of it if it is new. One request if a manifest names a newer one.
    async fn revocations(
        &self,
        application: &str,
        manifests: impl Iterator<Item = &Accepted>,
    ) -> Result<Option<(Revocations, Option<Text>)>, Refusal> {
        let saved = self.home.saved(application, "revocations", revocations::LONGEST);
        let saved = saved.and_then(|(bytes, _)| {
            let body = self.trust.verify(&bytes, application).ok()?.0;
            Some((Revocations::decode(body, application).ok()?, Digest::of(&bytes)))
        });
        let named = manifests.filter_map(|accepted| accepted.manifest.revocations.as_ref());
        let Some(named) = named.max_by_key(|named| named.counter) else {
            return Ok(saved.map(|(list, _)| (list, None)));
        };
        if let Some((list, digest)) = &saved
            && (*digest == named.sha256 || list.counter > named.counter)
        {
            return Ok(saved.map(|(list, _)| (list, None)));
        }
        let place = names::revocations(application);
        let found = self.bucket.get(&place, None, revocations::LONGEST).await?;
        let Found::New(object) = found else { return Err(BucketError::Missing(place.to_string()).into()) };
        let body = self.trust.verify(&object.bytes, application)?.0;
        let list = Revocations::decode(body, application)?;
        if list.counter < named.counter {
            return Err(Refusal::Older { found: list.counter, known: named.counter });
        }
        if list.counter == named.counter && Digest::of(&object.bytes) != named.sha256 {
            return Err(Refusal::Twofold);
        }
        Ok(Some((list, Some((object.bytes.to_vec(), object.version.e_tag)))))
    }

    /// Fetches and verifies what the base lacks of a manifest. Several segments are under way at once: one comes while
    /// another one is verified.
    async fn segments(
        &self,
        application: &str,
        accepted: &Accepted,
        here: &mut HashMap<Digest, PathBuf>,
        pulled: &mut Pulled,
    ) -> Result<(), Refusal> {
        let is_there = |segment: &&Segment| {
            let file = names::file(segment.age, &segment.sha256);
            let path = self.home.find(application, &accepted.part_of(segment), &file);
            !path.metadata().is_ok_and(|found| found.len() == segment.bytes)
                && !here.contains_key(&segment.sha256)
        };
        let lacking: Vec<&Segment> = accepted.segments().filter(is_there).collect();
        let bytes = lacking.iter().fold(0, |sum: u64, segment| sum.saturating_add(segment.bytes));
        let folder = self.home.temporary();
        let rest = rest(&lacking, &folder);
        let free = self.home.free().unwrap_or(u64::MAX).saturating_sub(STAYS_FREE);
        fits(rest, free).map_err(|missing| Refusal::Full { missing })?;
        if rest > 0 {
            fits(rest, self.home.room()).map_err(|missing| Refusal::OverLimit { missing })?;
        }
        self.progress.more(bytes);
        let folder = folder.as_path();
        let each = lacking.into_iter().map(|segment| async move {
            let (path, records) = self.segment(segment, accepted, folder).await?;
            Ok((segment, path, records))
        });
        // After a failure the downloads under way go on to their ends, which the next pull need not fetch again.
        let has_failed = AtomicBool::new(false);
        let each = each.take_while(|_| !has_failed.load(Ordering::Relaxed));
        let mut each = futures_util::stream::iter(each).buffer_unordered(SEGMENTS_AT_ONCE);
        let mut first = Ok(());
        while let Some(fetched) = each.next().await {
            match fetched {
                Ok((segment, path, records)) => {
                    pulled.segments += 1;
                    pulled.bytes += segment.bytes;
                    pulled.records += records as u64;
                    here.insert(segment.sha256, path);
                }
                Err(refusal) => {
                    has_failed.store(true, Ordering::Relaxed);
                    first = first.and(Err(refusal));
                }
            }
        }
        first
    }

    /// Fetches and verifies one segment. Returns the file, and the number of its records.
    async fn segment(
        &self,
        segment: &Segment,
        accepted: &Accepted,
        folder: &Path,
    ) -> Result<(PathBuf, usize), Refusal> {
        let (place, progress) = (names::segment(&segment.sha256), self.progress.as_ref());
        let name = fetch::fetch(self.bucket, &place, segment, folder, &self.rate, progress).await?;
        let device = match segment.content {
            Content::Portable => None,
            Content::Artifacts => accepted.manifest.device.clone(),
        };
        let (folder, path) = (folder.to_owned(), folder.join(&name));
        let verified = tokio::task::spawn_blocking(move || {
            let verified = verified(&folder, &name, device.as_ref());
            if let Err(Ok(_)) = &verified {
                let _ = std::fs::remove_file(folder.join(&name));
            }
            verified
        });
        match verified.await.map_err(io::Error::other)? {
            Ok(records) => Ok((path, records)),
            Err(Ok(error)) => Err(Refusal::Segment(segment.sha256, error)),
            Err(Err(error)) => Err(Refusal::Disk(error)),
        }
    }

    /// What the application's folder is to have, and where it is now.
    fn folder(
        &self,
        application: &str,
        manifests: &[Accepted],
        list: Option<&Revocations>,
        here: &HashMap<Digest, PathBuf>,
    ) -> Wanted {
        let mut wanted = Wanted::default();
        for accepted in manifests {
            for segment in accepted.segments() {
                let target = accepted.part_of(segment);
                let file = names::file(segment.age, &segment.sha256);
                let there = || self.home.find(application, &target, &file);
                let at = here.get(&segment.sha256).cloned().unwrap_or_else(there);
                wanted.parts.entry(target.folder()).or_default().insert(file, at);
            }
            let (Some(header), Some(list)) = (&accepted.manifest.device, list) else { continue };
            let digits = header.short_digest();
            let keys = list.artifacts.iter().filter(|artifact| artifact.device == digits);
            let keys: Vec<Digest> = keys.map(|artifact| artifact.key).collect();
            if !keys.is_empty() {
                wanted.revoked.push((header.clone(), keys));
            }
        }
        wanted
    }
}

/// How many bytes of these segments are not there yet.
fn rest(lacking: &[&Segment], folder: &Path) -> u64 {
    let rest = |segment: &&Segment| {
        let there = folder.join(format!("{}.part", segment.sha256)).symlink_metadata();
        segment.bytes.saturating_sub(there.map_or(0, |found| found.len()))
    };
    lacking.iter().map(rest).fold(0, u64::saturating_add)
}

/// Whether there is room for so many bytes. The error: how many are missing.
fn fits(bytes: u64, room: u64) -> Result<(), u64> {
    if bytes > room { Err(bytes - room) } else { Ok(()) }
}

/// Verifies a file, and has the disk keep it. The outer error: the file is refused; the inner one: it cannot be read.
fn verified(
    folder: &Path,
    name: &str,
    device: Option<&DeviceHeader>,
) -> Result<usize, Result<SegmentError, io::Error>> {
    let unread = |error: SegmentError| match error.unread() {
        Ok(error) => Err(error),
        Err(verdict) => Ok(verdict),
    };
    let verified = segment::verify(folder, name, device, u64::MAX, Unknown::Taken).map_err(unread)?;
    let synced = std::fs::File::open(folder.join(name)).and_then(|file| file.sync_data());
    synced.map(|()| verified.records).map_err(Err)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

    use super::*;

    #[test]
    fn what_was_fetched_before_needs_no_room_again() {
        let folder = tempfile::tempdir().unwrap();
        let segment =
            |byte, bytes| Segment { sha256: Digest([byte; 32]), bytes, content: Content::Portable, age: 1 };
        let (one, other) = (segment(1, 1000), segment(2, 3000));
        let has_room = |free| fits(rest(&[&one, &other], folder.path()), free);
        assert_eq!((has_room(4000), has_room(3999), has_room(0)), (Ok(()), Err(1), Err(4000)));
        std::fs::write(folder.path().join(format!("{}.part", other.sha256)), [0; 2500]).unwrap();
        assert_eq!((has_room(1500), has_room(1499)), (Ok(()), Err(1)));
    }
}
