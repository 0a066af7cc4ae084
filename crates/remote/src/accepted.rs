//! Manifests that were accepted before, and whether they still count: their signer may have been taken off the list of
//! pinned signers since, or they may have expired. The segments of those that do not count are put aside before a pull
//! asks the store for anything, so that programs stop opening them whatever becomes of the pull (docs/remote.md).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use vkstash_store::bounds::reference_of;

use crate::envelope::EnvelopeError;
use crate::home::{Home, Locked, Wanted};
use crate::manifest::{self, Content, Manifest, ManifestError, Segment};
use crate::names::{self, Target};
use crate::progress::Progress;
use crate::trust::Trust;

/// A text of the store, and its tag.
pub(crate) type Text = (Vec<u8>, Option<String>);

/// A manifest that counts.
pub(crate) struct Accepted {
    pub(crate) manifest: Manifest,
    /// The most that its signer may give.
    pub(crate) content: Content,
    /// What is to be kept once the base has it; None: it is kept already.
    pub(crate) new: Option<Text>,
}

impl Accepted {
    /// The segments of the manifest that may be used.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.manifest.segments.iter().filter(|segment| segment.content <= self.content)
    }

    pub(crate) fn part_of(&self, segment: &Segment) -> Target {
        match segment.content {
            Content::Portable => Target::Portable,
            Content::Artifacts => self.manifest.target(),
        }
    }
}

/// Why a manifest that was accepted before does not count any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Doubt {
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("it has expired")]
    Expired,
}

/// What was accepted before, and the store's tag of it.
pub(crate) fn saved(
    home: &Home,
    trust: &Trust,
    application: &str,
    target: &Target,
) -> Option<Result<(Accepted, Option<String>), Doubt>> {
    let (bytes, tag) = home.saved(application, target.name(), manifest::LONGEST)?;
    let accepted = || {
        let (body, content) = trust.verify(&bytes, application)?;
        let manifest = Manifest::decode(body, application, target)?;
        Ok(Accepted { manifest, content, new: None })
    };
    Some(accepted().map(|accepted| (accepted, tag)))
}

/// The folder of a base, locked, without what does not count any more.
pub struct Settled {
    /// The time from which it is told what has expired, in seconds since 1970: not later than that of the request.
    pub(crate) believed: u64,
    _locked: Locked,
}

/// Locks the folder, and puts aside what does not count any more. None: others are at work for longer than `patience`.
pub async fn settle(
    home: &Home,
    trust: &Trust,
    now: u64,
    patience: Duration,
    progress: &dyn Progress,
) -> io::Result<Option<Settled>> {
    let Some(locked) = home.lock(patience).await? else { return Ok(None) };
    // A clock that jumped years ahead must not make everything expire: docs/process.md, "Clocks".
    let noted = locked.last_pull().map(|seconds| seconds.saturating_mul(1000));
    let believed = reference_of(noted.into_iter(), now.saturating_mul(1000)) / 1000;
    for application in home.applications() {
        put_aside(home, trust, &application, believed, progress)?;
    }
    // Not noted: what expires later is put aside later.
    let _ = locked.note_pull(now);
    Ok(Some(Settled { believed, _locked: locked }))
}

fn put_aside(
    home: &Home,
    trust: &Trust,
    application: &str,
    now: u64,
    progress: &dyn Progress,
) -> io::Result<()> {
    let Some(app) = names::application(application) else { return Ok(()) };
    let Judged { wanted, doubts } = Judged::of(home, trust, application, &targets(home, application), now);
    let Some(wanted) = wanted else { return Ok(()) };
    // Where a folder without it cannot be made, all of the application is put aside.
    if wanted.parts.is_empty() || home.install(&app, &wanted).is_err() {
        home.put_away(application)?;
    }
    for line in doubts {
        progress.line(&format!("{line}; put aside, so that programs do not use it"));
    }
    Ok(())
}

fn targets(home: &Home, application: &str) -> Vec<Target> {
    home.known()
        .into_iter()
        .find(|(known, _)| known == application)
        .map_or(Vec::new(), |(_, targets)| targets)
}

/// What the base of an application is to have of what it has.
struct Judged {
    /// None: all that it has.
    wanted: Option<Wanted>,
    /// For each manifest that does not count, a line that says why.
    doubts: Vec<String>,
}

impl Judged {
    fn of(home: &Home, trust: &Trust, application: &str, targets: &[Target], now: u64) -> Judged {
        let mut stays: HashSet<PathBuf> = HashSet::new();
        let mut doubts = Vec::new();
        for target in targets {
            let doubt = match saved(home, trust, application, target) {
                None => continue,
                Some(Ok((accepted, _))) if accepted.manifest.expires >= now => {
                    stays.extend(accepted.segments().map(|segment| {
                        let file = names::file(segment.age, &segment.sha256);
                        home.in_base(application, &accepted.part_of(segment), &file)
                    }));
                    continue;
                }
                Some(Ok(_)) => Doubt::Expired,
                Some(Err(doubt)) => doubt,
            };
            doubts.push(format!("{application}, {}: {doubt}", target.name()));
        }
        let wanted = home.rest(application, &|path| stays.contains(path));
        let wanted = (!home.has(application, &wanted)).then_some(wanted);
        if wanted.is_some() && doubts.is_empty() {
            doubts.push(format!("{application}: what is there is in no manifest that was accepted"));
        }
        Judged { wanted, doubts }
    }
}

/// A line for each manifest that does not count, which says whether programs still use what it names.
pub fn doubts(home: &Home, trust: &Trust, now: u64) -> Vec<String> {
    let mut known: BTreeMap<String, Vec<Target>> = home.known().into_iter().collect();
    let there: BTreeSet<String> = home.applications().into_iter().collect();
    for application in there.iter().filter(|name| names::application(name).is_some()) {
        known.entry(application.clone()).or_default();
    }
    let lines = known.into_iter().flat_map(|(application, targets)| {
        let Judged { wanted, doubts } = Judged::of(home, trust, &application, &targets, now);
        let what = if wanted.is_some() { "programs use it until the next pull" } else { "put aside" };
        doubts.into_iter().map(move |line| format!("{line}; {what}"))
    });
    lines.collect()
}
