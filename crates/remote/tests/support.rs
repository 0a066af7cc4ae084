//! A fleet in a temporary folder: machines with stashes, a store, keys.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use object_store::path::Path as Place;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tempfile::TempDir;
use vkstash_model::identifier::module_identity;

use vkstash_model::app_name::AppName;
use vkstash_model::record::{Key, Kind};
use vkstash_remote::bucket::Bucket;
use vkstash_remote::home::Home;
use vkstash_remote::key::Signer;
use vkstash_remote::manifest::Content;
use vkstash_remote::progress::Progress;
use vkstash_remote::pull::{self, PullError, Pulled};
use vkstash_remote::push::{self, PushError, Pushed};
use vkstash_remote::trust::{self, Trust};
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::stash::open::Stash;

pub(crate) use crate::header::header;

/// Some time; not the real one.
pub(crate) const NOW: u64 = 1_800_000_000;
pub(crate) const DAY: u64 = 24 * 3600;

pub(crate) fn app(name: &str) -> AppName {
    AppName::new(None, name.as_bytes())
}

pub(crate) fn key(number: u64) -> Key {
    vkstash_remote::names::Digest::of(&number.to_le_bytes()).0
}

/// A folder; in memory if the machine has such a place, because pulls wait for the disk.
pub(crate) fn scratch() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Bytes that cannot be compressed.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(next).collect();
    bytes.truncate(length);
    bytes
}

/// The artifact of this number.
pub(crate) fn artifact(number: u64) -> Vec<u8> {
    [&[9, 0, 0, 0, 1, 0, 0, 0][..], &noise(number, 3000)].concat()
}

/// A module and an artifact for each number.
pub(crate) fn fill(root: &Path, name: &str, numbers: Range<u64>) {
    let stash = Stash::open_patiently(root, &app(name)).unwrap();
    let device = stash.device(&header()).unwrap();
    for number in numbers {
        let code = noise(number ^ 0xFFFF, 400);
        let identity = module_identity(Default::default(), &code);
        assert!(stash.portable().put(Kind::Module, &identity, [&[0; 4][..], &code].concat().into()));
        assert!(device.put(Kind::Artifact, &key(number), artifact(number).into()));
    }
}

/// The artifacts that a program finds over this base, of those with these numbers.
pub(crate) fn served(base: &Path, name: &str, numbers: Range<u64>) -> Vec<u64> {
    served_to(base, &app(name), numbers)
}

pub(crate) fn served_to(base: &Path, app: &AppName, numbers: Range<u64>) -> Vec<u64> {
    let own = scratch();
    let run = vkstash_store::stash::uses::Run::of_this_process();
    let long = Some(Duration::from_secs(60));
    let stash = Stash::open_in_run(own.path(), vec![base.to_owned()], app, run, long, long).unwrap();
    let part = stash.device(&header()).unwrap();
    let mut payload = Vec::new();
    let mut is_served = |number: &u64| {
        let read = part.read(Kind::Artifact, &key(*number), &mut payload);
        assert!(!read || payload == artifact(*number));
        read
    };
    numbers.filter(|number| is_served(number)).collect()
}

/// Every file of a folder, with its bytes.
pub(crate) fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut rest) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(path) = rest.pop() {
        for entry in fs::read_dir(&path).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                rest.push(path);
            } else {
                found.insert(path.strip_prefix(folder).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// The lines that were told, and the bytes that were to be copied and were.
#[derive(Default)]
pub(crate) struct Lines {
    lines: Mutex<Vec<String>>,
    pub(crate) more: AtomicU64,
    pub(crate) done: AtomicU64,
}

impl Progress for Lines {
    fn line(&self, text: &str) {
        self.lines.lock().unwrap().push(text.to_owned());
    }

    fn more(&self, bytes: u64) {
        self.more.fetch_add(bytes, Ordering::Relaxed);
    }

    fn done(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Lines {
    pub(crate) fn all(&self) -> String {
        self.lines.lock().unwrap().join("\n")
    }
}

/// A store, and whom everybody believes.
pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) signer: Signer,
}

/// A machine: a stash, and what it has of the store.
pub(crate) struct Machine {
    pub(crate) dir: PathBuf,
    pub(crate) home: Home,
    pub(crate) lines: Arc<Lines>,
}

pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

pub(crate) fn trust(signer: &Signer, applications: &str, content: Content) -> Trust {
    let applications = vec![applications.to_owned()];
    let (name, key) = (String::new(), signer.public().clone());
    Trust { signers: vec![trust::Signer { name, key, applications, content }] }
}

impl World {
    pub(crate) fn new() -> World {
        World { folder: scratch(), signer: Signer::generate().unwrap() }
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    pub(crate) fn bucket(&self) -> Bucket {
        let url = format!("file://{}", self.store().display());
        Bucket::open(&url, Duration::from_secs(60), true).unwrap()
    }

    pub(crate) fn trust(&self) -> Trust {
        trust(&self.signer, "*", Content::Artifacts)
    }

    pub(crate) fn machine(&self, name: &str) -> Machine {
        let dir = self.folder.path().join(name);
        let home = Home::open(&dir.join("remote")).unwrap();
        Machine { dir, home, lines: Arc::default() }
    }

    /// A machine that has recorded and published these.
    pub(crate) fn published(&self, numbers: Range<u64>) -> Machine {
        let machine = self.machine("publisher");
        fill(&machine.stash(), "game", numbers);
        let pushed = machine.push(self, &self.bucket(), NOW).unwrap();
        assert!(pushed.segments >= 2 && pushed.manifests == 2, "{pushed:?}");
        machine
    }

    /// The one manifest of the device.
    pub(crate) fn manifest(&self) -> PathBuf {
        let folder = self.store().join("v1/manifests").join(app("game").folder);
        folder.join(header().short_digest())
    }
}

impl Machine {
    pub(crate) fn stash(&self) -> PathBuf {
        self.dir.join("stash")
    }

    pub(crate) fn push(
        &self,
        world: &World,
        bucket: &Bucket,
        now: u64,
    ) -> std::result::Result<Pushed, PushError> {
        let request = push_request(self, now);
        wait(push::push(bucket, &self.home, &world.trust(), &world.signer, &request, self.lines.clone()))
    }

    pub(crate) fn pull(&self, world: &World, now: u64) -> Pulled {
        self.pull_from(&world.bucket(), &world.trust(), now).unwrap()
    }

    pub(crate) fn pull_from(
        &self,
        bucket: &Bucket,
        trust: &Trust,
        now: u64,
    ) -> std::result::Result<Pulled, PullError> {
        let request = pull_request(now);
        wait(pull::pull(bucket, &self.home, trust, &request, self.lines.clone()))
    }

    /// What the base serves of these.
    pub(crate) fn served(&self, numbers: Range<u64>) -> Vec<u64> {
        served(&self.home.base(), "game", numbers)
    }
}

pub(crate) fn pull_request(now: u64) -> pull::Request {
    let devices: Vec<DeviceHeader> = vec![header()];
    let applications = vec![(app("game").folder, devices)];
    pull::Request {
        applications,
        kept: false,
        all: false,
        rate: None,
        patience: Duration::from_secs(60),
        now,
    }
}

pub(crate) fn push_request(machine: &Machine, now: u64) -> push::Request {
    let root = machine.stash();
    let applications = fs::read_dir(&root).into_iter().flatten().map(|entry| entry.unwrap().file_name());
    push::Request {
        applications: applications.map(|name| name.into_string().unwrap()).collect(),
        root,
        portable: false,
        replace: false,
        compact: false,
        valid: 90 * DAY,
        now,
    }
}

/// What a store does wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    None,
    /// Every answer is an error.
    Errors,
    /// Nothing is ever answered.
    Silence,
    /// Answers break off in the middle, each time.
    Half,
    /// Each answer breaks off after so many bytes, and the next one goes on.
    Pieces(usize),
    /// More comes than was announced.
    Endless,
    /// The announced length is huge.
    Huge,
    /// What asks for a part of an object gets an error.
    NoParts,
    /// A byte comes now and then.
    Trickle,
    /// Nothing has a tag.
    NoTags,
    /// A list has no end.
    EndlessList,
}

/// A store that misbehaves for segments, and counts requests.
pub(crate) struct Faulty {
    pub(crate) inner: Arc<dyn ObjectStore>,
    pub(crate) fault: Fault,
    /// Also for what is not a segment.
    pub(crate) everywhere: bool,
    pub(crate) requests: AtomicU64,
    pub(crate) bytes: Arc<AtomicU64>,
}

impl Faulty {
    pub(crate) fn new(folder: &Path, fault: Fault, everywhere: bool) -> Arc<Faulty> {
        let inner = object_store::local::LocalFileSystem::new_with_prefix(folder).unwrap();
        let (requests, bytes) = (AtomicU64::new(0), Arc::default());
        Arc::new(Faulty { inner: Arc::new(inner), fault, everywhere, requests, bytes })
    }

    pub(crate) fn bucket(self: &Arc<Self>, silence: Duration) -> Bucket {
        Bucket::new(self.clone(), Place::default(), silence)
    }

    async fn fail(&self, place: &Place) -> Result<Fault> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let fault =
            if self.everywhere || place.as_ref().contains("segments") { self.fault } else { Fault::None };
        match fault {
            Fault::Errors => {
                let source = "the server\u{1b}[2J is \non fire".into();
                Err(object_store::Error::Generic { store: "faulty", source })
            }
            Fault::Silence => std::future::pending().await,
            fault => Ok(fault),
        }
    }
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faulty")
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faulty")
    }
}

#[async_trait::async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, place: &Place, bytes: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.fail(place).await?;
        self.inner.put_opts(place, bytes, options).await
    }

    async fn put_multipart_opts(
        &self,
        place: &Place,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(place, options).await
    }

    async fn get_opts(&self, place: &Place, options: GetOptions) -> Result<GetResult> {
        let fault = self.fail(place).await?;
        if fault == Fault::NoParts && options.range.is_some() {
            let source = "Received non-partial response when range requested".into();
            return Err(object_store::Error::Generic { store: "faulty", source });
        }
        let mut got = self.inner.get_opts(place, options).await?;
        if fault == Fault::NoTags {
            got.meta.e_tag = None;
        }
        let (meta, range, attributes, extensions) =
            (got.meta.clone(), got.range.clone(), got.attributes.clone(), got.extensions.clone());
        if fault == Fault::Huge {
            got.meta.size = u64::MAX;
            got.range.end = u64::MAX;
            return Ok(got);
        }
        let limit = match fault {
            Fault::Half => (meta.size as usize / 2).saturating_sub(range.start as usize),
            Fault::Pieces(bytes) => bytes,
            _ => usize::MAX,
        };
        let (mut left, count) = (limit, self.bytes.clone());
        let stream = got.into_stream().map(move |bytes| {
            let mut bytes = bytes?;
            bytes.truncate(left);
            left -= bytes.len();
            count.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            Ok(bytes)
        });
        let stream = match fault {
            Fault::Trickle => {
                let bytes = stream.map(|bytes| bytes.unwrap().to_vec()).concat().await;
                let slowly = futures_util::stream::iter(bytes).then(|byte| async move {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    Ok(vec![byte].into())
                });
                slowly.boxed()
            }
            Fault::Endless => {
                stream.chain(futures_util::stream::repeat_with(|| Ok(vec![7; 4096].into()))).boxed()
            }
            _ => stream.boxed(),
        };
        Ok(GetResult { payload: GetResultPayload::Stream(stream), meta, range, attributes, extensions })
    }

    fn delete_stream(&self, places: BoxStream<'static, Result<Place>>) -> BoxStream<'static, Result<Place>> {
        self.inner.delete_stream(places)
    }

    fn list(&self, prefix: Option<&Place>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if self.fault != Fault::EndlessList {
            return self.inner.list(prefix);
        }
        let (prefix, bytes) = (prefix.cloned().unwrap_or_default(), self.bytes.clone());
        let endless = futures_util::stream::repeat_with(move || {
            let number = bytes.fetch_add(1, Ordering::Relaxed);
            let name = format!("{number:064x}");
            let location = prefix.clone().join(name.as_str());
            let last_modified = std::time::SystemTime::now().into();
            Ok(ObjectMeta { location, last_modified, size: 1, e_tag: None, version: None })
        });
        self.inner.list(None).chain(endless).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Place>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Place, to: &Place, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
