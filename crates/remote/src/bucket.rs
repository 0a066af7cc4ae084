//! An object store, with bounded waits and small answers.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientOptions, Error, GetOptions, GetRange, ListResult, ObjectMeta, ObjectStore,
    ObjectStoreExt as _, ObjectStoreScheme, PutMode, PutOptions, PutPayload, RetryConfig, UpdateVersion,
    WriteMultipart,
};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use tokio::sync::OnceCell;
use url::Url;
use vkstash_host::text::is_printable;

/// Bytes of one part of an upload.
const PART: usize = 8 << 20;
/// A store that sends fewer bytes a second counts as silent: the slowest lines bring more.
const LEAST_RATE: u64 = 512;
/// A small answer, or a whole list, may take as many times the silence that is allowed.
const SMALL: u32 = 4;
const LIST: u32 = 20;
/// The most pages of a list of one folder, each with a thousand names at most.
const MOST_PAGES: usize = 200;
/// The most names that are looked at in a list, whether or not they are wanted.
const MOST_LOOKED_AT: usize = 1_000_000;

/// Why the store does not answer as it should.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// The store cannot be reached, or does not answer in time.
    #[error("the store cannot be reached: {0}")]
    Unreachable(String),
    /// The store answers, but so slowly that nothing is ever done.
    #[error("the store sends fewer than {LEAST_RATE} bytes a second")]
    Slow,
    /// The store refuses the request.
    #[error("the store refuses: {0}")]
    Denied(String),
    /// The object is longer than it may be.
    #[error("{0} is longer than it may be")]
    TooLong(String),
    /// The store cannot do this.
    #[error("the store cannot do this: {0}")]
    Unable(String),
    /// The object is not there.
    #[error("{0} is not there")]
    Missing(String),
    /// Nothing can be opened: no connection, and no file.
    #[error("this process has too many files open, or the whole machine has: raise the limit (ulimit -n)")]
    NoDescriptors,
    /// A file of this machine cannot be read.
    #[error("{0}")]
    File(#[from] io::Error),
    /// The address is none of a store.
    #[error("{address} is no address of a store: {reason}")]
    Address {
        /// The address, without control characters.
        address: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl BucketError {
    fn of(error: Error) -> BucketError {
        match error {
            error if is_lack_of_descriptors(&error) => BucketError::NoDescriptors,
            Error::NotFound { path, .. } => BucketError::Missing(path),
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
                BucketError::Denied(plain(&error))
            }
            Error::NotImplemented { .. } | Error::NotSupported { .. } => BucketError::Unable(plain(&error)),
            error => BucketError::Unreachable(plain(&error)),
        }
    }
}

/// Whether a lack of descriptors is what an error comes from.
pub(crate) fn is_lack_of_descriptors(error: &(dyn std::error::Error + 'static)) -> bool {
    let lacks = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE].map(|errno| Some(errno.raw_os_error()));
    let mut next = Some(error);
    while let Some(error) = next {
        let system = error.downcast_ref::<io::Error>();
        if system.is_some_and(|error| lacks.contains(&error.raw_os_error())) {
            return true;
        }
        // An error of the system's type may have another one in it, which is not its source.
        let inner =
            system.and_then(io::Error::get_ref).map(|inner| inner as &(dyn std::error::Error + 'static));
        next = inner.or_else(|| error.source());
    }
    false
}

/// One line of what the library says, without a password.
fn plain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = inner.source();
    }
    let text = without_users(&text);
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(400).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether that may be the address of a store. Asks nobody.
pub fn check(address: &str) -> Result<(), BucketError> {
    Address::of(address).map(drop)
}

fn wrong(address: &str, reason: &'static str) -> BucketError {
    // What is no address may have its password anywhere before an @.
    let shown = match address.rsplit_once('@') {
        Some((before, after)) => {
            let scheme = before.split_once("://").map_or(String::new(), |(scheme, _)| format!("{scheme}://"));
            format!("{scheme}{HIDDEN}@{after}")
        }
        None => address.to_owned(),
    };
    BucketError::Address { address: shown.chars().filter(|&c| is_printable(c)).collect(), reason }
}

/// What is shown of a user and a password.
const HIDDEN: &str = "...";

/// A text with addresses, without the users and passwords in them.
fn without_users(text: &str) -> String {
    let mut parts = text.split("://");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let ends = |c: char| c == '/' || c.is_whitespace() || c == '"' || c == '\'';
        let (server, rest) = part.split_at(part.find(ends).unwrap_or(part.len()));
        shown.push_str("://");
        match server.rsplit_once('@') {
            Some((_, server)) => shown.push_str(&format!("{HIDDEN}@{server}")),
            None => shown.push_str(server),
        }
        shown.push_str(rest);
    }
    shown
}

/// Whether addresses may begin with http://, by hand: that is for tests and for private networks.
fn allows_http() -> bool {
    matches!(std::env::var("AWS_ALLOW_HTTP").as_deref(), Ok("true" | "1"))
}

/// An address of which everything counts: what a parser of URLs leaves out in silence (queries, line breaks) is
/// refused.
struct Address {
    url: Url,
    scheme: ObjectStoreScheme,
    path: Path,
    /// Of a folder.
    folder: Option<PathBuf>,
}

impl Address {
    fn of(address: &str) -> Result<Address, BucketError> {
        let wrong = |reason| wrong(address, reason);
        let is_lost = |c: char| c.is_control() || c == '\\';
        if address.contains(is_lost) || address.trim() != address {
            return Err(wrong(
                "it has a control character, a backslash, or a space at an end; write %0A, %5C or %20",
            ));
        }
        if address.contains(['?', '#']) {
            return Err(wrong("it has a query or a fragment; in a path, ? is %3F and # is %23"));
        }
        let (scheme, rest) =
            address.split_once(':').ok_or_else(|| wrong("it does not begin with s3:// or the like"))?;
        let folder =
            scheme.eq_ignore_ascii_case("file").then(|| folder_of(rest).map_err(wrong)).transpose()?;
        let url = Url::parse(address).map_err(|_| wrong("it is no URL"))?;
        if folder.is_some() {
            return Ok(Address { url, scheme: ObjectStoreScheme::Local, path: Path::default(), folder });
        }
        if url.scheme() == "http" && !allows_http() {
            return Err(wrong(
                "everybody on the way could change it; write https://, or set AWS_ALLOW_HTTP=1",
            ));
        }
        let (scheme, path) = ObjectStoreScheme::parse(&url).map_err(|_| wrong("no such stores are known"))?;
        match scheme {
            ObjectStoreScheme::Memory => return Err(wrong("no such stores are known")),
            _ if url.host_str().is_none_or(str::is_empty) => {
                return Err(wrong("it names no bucket or server"));
            }
            _ => {}
        }
        Ok(Address { url, scheme, path, folder })
    }
}

/// The path in an address of a folder, from what follows the scheme.
fn folder_of(rest: &str) -> Result<PathBuf, &'static str> {
    let path = rest.strip_prefix("//").map(|rest| rest.strip_prefix("localhost").unwrap_or(rest));
    let path = path.filter(|path| path.starts_with('/'));
    let path = path.ok_or("a folder is file:// and its whole path, which makes three slashes")?;
    let (mut bytes, mut rest) = (Vec::with_capacity(path.len()), path.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let digit = |at: usize| char::from(*after.get(at)?).to_digit(16);
            let value = digit(0).zip(digit(1)).map(|(high, low)| (high * 16 + low) as u8);
            bytes.push(
                value
                    .filter(|&byte| byte != 0)
                    .ok_or("% is not followed by the digits of a byte; % itself is %25")?,
            );
            rest = &after[2..];
        } else {
            bytes.push(byte);
        }
    }
    Ok(OsString::from_vec(bytes).into())
}

/// What a conditional request finds.
#[derive(Debug)]
pub enum Found {
    /// What is known already.
    Unchanged,
    /// Nothing.
    Missing,
    /// Something new.
    New(Object),
}

/// A small object.
#[derive(Debug)]
pub struct Object {
    /// All of it.
    pub bytes: Bytes,
    /// What tells it from what is written there later.
    pub version: UpdateVersion,
}

/// What is listed.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The parts of its name below the folder that was listed.
    pub name: Vec<String>,
    /// The object's length.
    pub bytes: u64,
}

fn listed_below(folder: &Path, meta: &ObjectMeta) -> Option<Listed> {
    let name = meta.location.prefix_match(folder)?.map(|part| part.as_ref().to_owned()).collect();
    Some(Listed { name, bytes: meta.size })
}

/// An object store, below a prefix.
#[derive(Clone)]
pub struct Bucket {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// The folder, if the store is one.
    local: Option<PathBuf>,
    /// The store, if its lists come in pages.
    pages: Option<Arc<dyn PaginatedListStore>>,
    silence: Duration,
    /// Whether the store obeys the conditions of a put, once that was tried.
    has_conditions: Arc<OnceCell<bool>>,
}

impl Bucket {
    /// What is below `prefix`. A request that brings nothing for `silence` has failed.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: Path, silence: Duration) -> Bucket {
        Bucket { store, prefix, local: None, pages: None, silence, has_conditions: Arc::default() }
    }

    /// What this address names: `s3://`, `gs://`, `az://`, `https://` (WebDAV, or any server for pulls), `file://`.
    /// Credentials come from the environment, under the names that the providers' own tools use. A missing folder is
    /// created if it is to be written.
    pub fn open(address: &str, silence: Duration, create: bool) -> Result<Bucket, BucketError> {
        let failed = |error| BucketError::of(error);
        let Address { url, scheme, path, folder } = Address::of(address)?;
        let backoff = BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: silence / 2,
            ..Default::default()
        };
        let retry = RetryConfig { max_retries: 3, retry_timeout: silence, backoff };
        // Bodies may take long; what is silent for too long ends in this file.
        let client = ClientOptions::new().with_connect_timeout(silence.min(Duration::from_secs(10)));
        let client = client.with_timeout_disabled();
        // An error says that another part of the program has chosen a provider before.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = if allows_http() { client.with_allow_http(true) } else { client };
        let mut local = None;
        let mut pages: Option<Arc<dyn PaginatedListStore>> = None;
        let (store, prefix): (Arc<dyn ObjectStore>, Path) = match scheme {
            ObjectStoreScheme::Local => {
                let folder = folder.unwrap_or_default();
                if create {
                    std::fs::create_dir_all(&folder)?;
                }
                let store =
                    LocalFileSystem::new_with_prefix(&folder).map_err(|error| {
                        match BucketError::of(error) {
                            BucketError::Unreachable(why) => {
                                BucketError::Unreachable(format!("{}: {why}", folder.display()))
                            }
                            error => error,
                        }
                    })?;
                local = Some(folder);
                (Arc::new(store), Path::default())
            }
            ObjectStoreScheme::AmazonS3 => {
                let builder = AmazonS3Builder::from_env().with_url(address);
                let store = builder.with_client_options(client).with_retry(retry).build().map_err(failed)?;
                let store = Arc::new(store);
                pages = Some(store.clone());
                (store, path)
            }
            ObjectStoreScheme::GoogleCloudStorage => {
                let builder = GoogleCloudStorageBuilder::from_env().with_url(address);
                let store = builder.with_client_options(client).with_retry(retry).build().map_err(failed)?;
                let store = Arc::new(store);
                pages = Some(store.clone());
                (store, path)
            }
            ObjectStoreScheme::MicrosoftAzure => {
                let builder = MicrosoftAzureBuilder::from_env().with_url(address);
                let store = builder.with_client_options(client).with_retry(retry).build().map_err(failed)?;
                let store = Arc::new(store);
                pages = Some(store.clone());
                (store, path)
            }
            ObjectStoreScheme::Http => {
                let server = &url[..url::Position::BeforePath];
                let builder = HttpBuilder::new().with_url(server);
                let store = builder.with_client_options(client).with_retry(retry).build().map_err(failed)?;
                (Arc::new(store), path)
            }
            _ => return Err(wrong(address, "no such stores are known")),
        };
        Ok(Bucket { local, pages, ..Bucket::new(store, prefix, silence) })
    }

    /// How long a request may bring nothing.
    pub(crate) fn silence(&self) -> Duration {
        self.silence
    }

    fn place(&self, path: &Path) -> Path {
        Path::from_iter(self.prefix.parts().chain(path.parts()))
    }

    /// Waits for one answer.
    async fn in_time<T>(&self, answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let silence = || Error::Generic { store: "vkstash", source: "no answer in time".into() };
        tokio::time::timeout(self.silence, answer).await.unwrap_or_else(|_| Err(silence()))
    }

    /// Reads a small object, in one request, if it is not the one with this tag.
    pub async fn get(&self, path: &Path, known: Option<&str>, longest: u64) -> Result<Found, BucketError> {
        let got = tokio::time::timeout(self.silence * SMALL, self.get_slowly(path, known, longest)).await;
        got.unwrap_or(Err(BucketError::Slow))
    }

    async fn get_slowly(&self, path: &Path, known: Option<&str>, longest: u64) -> Result<Found, BucketError> {
        let place = self.place(path);
        let options = GetOptions { if_none_match: known.map(str::to_owned), ..Default::default() };
        let got = match self.in_time(self.store.get_opts(&place, options)).await {
            Ok(got) => got,
            Err(Error::NotModified { .. }) => return Ok(Found::Unchanged),
            Err(Error::NotFound { .. }) => return Ok(Found::Missing),
            Err(error) => return Err(BucketError::of(error)),
        };
        let too_long = || BucketError::TooLong(place.to_string());
        if got.meta.size > longest {
            return Err(too_long());
        }
        let version = UpdateVersion { e_tag: got.meta.e_tag.clone(), version: got.meta.version.clone() };
        let (mut stream, mut bytes) = (got.into_stream(), Vec::new());
        while let Some(more) =
            self.in_time(async { stream.next().await.transpose() }).await.map_err(BucketError::of)?
        {
            if (bytes.len() + more.len()) as u64 > longest {
                return Err(too_long());
            }
            bytes.extend_from_slice(&more);
        }
        Ok(Found::New(Object { bytes: bytes.into(), version }))
    }

    /// The bytes of an object from `offset` on.
    pub(crate) async fn stream(
        &self,
        path: &Path,
        offset: u64,
    ) -> Result<BoxStream<'static, Result<Bytes, Error>>, BucketError> {
        let range = (offset > 0).then_some(GetRange::Offset(offset));
        let options = GetOptions { range, ..Default::default() };
        let got =
            self.in_time(self.store.get_opts(&self.place(path), options)).await.map_err(BucketError::of)?;
        if got.range.start != offset {
            return Err(BucketError::Unable("it does not send parts of objects".to_owned()));
        }
        Ok(got.into_stream())
    }

    /// How fast one answer comes.
    pub(crate) fn pace(&self) -> Pace {
        Pace { waited: Duration::ZERO, bytes: 0 }
    }

    /// The length of an object; None if there is none.
    pub(crate) async fn length(&self, path: &Path) -> Result<Option<u64>, BucketError> {
        match self.in_time(self.store.head(&self.place(path))).await {
            Ok(meta) => Ok(Some(meta.size)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(BucketError::of(error)),
        }
    }

    /// Writes a file to a place where only such a file can be. Returns the bytes that were sent: none if it is there.
    pub async fn put_file(&self, path: &Path, file: &FilePath) -> Result<u64, BucketError> {
        let bytes = file.metadata()?.len();
        if self.length(path).await? == Some(bytes) {
            return Ok(0);
        }
        let place = self.place(path);
        let mut open = File::open(file)?;
        let mut part = |limit: usize| {
            let mut bytes = Vec::new();
            io::Read::by_ref(&mut open).take(limit as u64).read_to_end(&mut bytes).map(|_| bytes)
        };
        if bytes > PART as u64 {
            // A slow line may take longer for one part than the silence that is allowed.
            let patience = self.silence * 20;
            let upload = tokio::time::timeout(patience, self.store.put_multipart(&place)).await;
            let late = || BucketError::Unreachable("no answer in time".to_owned());
            match upload.map_err(|_| late())? {
                Ok(upload) => {
                    let mut writer = WriteMultipart::new_with_chunk_size(upload, PART);
                    loop {
                        let more = part(PART)?;
                        if more.is_empty() {
                            break;
                        }
                        let ready = tokio::time::timeout(patience, writer.wait_for_capacity(2)).await;
                        ready.map_err(|_| late())?.map_err(BucketError::of)?;
                        writer.put(more.into());
                    }
                    let finished = tokio::time::timeout(patience, writer.finish()).await;
                    finished.map_err(|_| late())?.map_err(BucketError::of)?;
                    return Ok(bytes);
                }
                Err(Error::NotImplemented { .. } | Error::NotSupported { .. }) => {}
                Err(error) => return Err(BucketError::of(error)),
            }
        }
        let whole = part(usize::MAX)?;
        let put = self.store.put(&place, PutPayload::from(whole));
        let late = || BucketError::Unreachable("no answer in time".to_owned());
        let put = tokio::time::timeout(self.silence * 20, put).await.map_err(|_| late())?;
        put.map_err(BucketError::of)?;
        Ok(bytes)
    }

    async fn put_opts(&self, path: &Path, bytes: Vec<u8>, mode: PutMode) -> Result<(), Error> {
        let options = PutOptions { mode, ..Default::default() };
        self.in_time(self.store.put_opts(&self.place(path), PutPayload::from(bytes), options)).await.map(drop)
    }

    /// Writes a small object if what is there is what was found before, or nothing. False: something else is there. For
    /// stores that obey conditions ([`Bucket::check_conditions`]).
    pub(crate) async fn put_over(
        &self,
        path: &Path,
        bytes: Vec<u8>,
        over: Option<&UpdateVersion>,
    ) -> Result<bool, BucketError> {
        let mode = over.map_or(PutMode::Create, |version| PutMode::Update(version.clone()));
        match self.put_opts(path, bytes, mode).await {
            Ok(()) => Ok(true),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
            // What was seen there is gone.
            Err(Error::NotFound { .. }) if over.is_some() => Ok(false),
            Err(error) => Err(BucketError::of(error)),
        }
    }

    /// Looks, and then writes: for callers that keep everybody else from writing meanwhile.
    pub(crate) async fn put_if_unchanged(
        &self,
        path: &Path,
        bytes: Vec<u8>,
        over: Option<&UpdateVersion>,
    ) -> Result<bool, BucketError> {
        let now = match self.in_time(self.store.head(&self.place(path))).await {
            Ok(meta) => Some(meta.e_tag),
            Err(Error::NotFound { .. }) => None,
            Err(error) => return Err(BucketError::of(error)),
        };
        if now.as_ref() != over.map(|version| &version.e_tag) {
            return Ok(false);
        }
        self.put_opts(path, bytes, PutMode::Overwrite).await.map_err(BucketError::of)?;
        Ok(true)
    }

    /// Refuses a store in which publishers cannot keep out of each other's way: a folder has a lock, any other store
    /// must obey the conditions of a put. Some ignore them in silence, so it is tried with an object that has no other
    /// purpose: two requests, and one more the first time.
    pub(crate) async fn check_conditions(&self) -> Result<(), BucketError> {
        if self.local.is_some() || *self.has_conditions.get_or_try_init(|| self.try_conditions()).await? {
            return Ok(());
        }
        Err(BucketError::Unable(
            "it lacks conditional puts (If-Match, If-None-Match), which publishing needs".to_owned(),
        ))
    }

    async fn try_conditions(&self) -> Result<bool, BucketError> {
        let probe = Path::from("v1/probe");
        let nowhere = UpdateVersion { e_tag: Some("\"0\"".to_owned()), version: Some("1".to_owned()) };
        let create = || self.put_opts(&probe, Vec::new(), PutMode::Create);
        let update = || self.put_opts(&probe, Vec::new(), PutMode::Update(nowhere));
        let is_refused = |put: Result<(), Error>| match put {
            Ok(()) | Err(Error::NotImplemented { .. } | Error::NotSupported { .. }) => Ok(false),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(true),
            Err(error) => Err(BucketError::of(error)),
        };
        let creates_once = is_refused(create().await)? || is_refused(create().await)?;
        Ok(creates_once && is_refused(update().await)?)
    }

    /// If the store is a folder: the lock of everybody who publishes there.
    pub(crate) async fn lock(&self) -> Result<Option<File>, BucketError> {
        let Some(folder) = &self.local else { return Ok(None) };
        let path = folder.join(".lock");
        // NFS gives exclusive locks only to descriptors that can write. Elsewhere reading is enough: a user who may
        // read the folder may wait for the processes that write there.
        let opened = match File::options().read(true).append(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => File::open(&path),
            opened => opened,
        };
        let file = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let file = File::options().create(true).read(true).append(true).open(&path)?;
                let mode = folder.metadata()?.permissions().mode() & 0o666;
                // The folder of several users. If that fails, somebody else has made the file.
                let _ = file.set_permissions(Permissions::from_mode(mode));
                file
            }
            file => file?,
        };
        let began = std::time::Instant::now();
        while let Err(error) = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if !matches!(error, Errno::WOULDBLOCK | Errno::INTR) {
                return Err(BucketError::Unable(format!("lock {}: {error}", path.display())));
            }
            if began.elapsed() > self.silence {
                return Err(BucketError::Unreachable(
                    "somebody else publishes there all the time".to_owned(),
                ));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(Some(file))
    }

    /// What is in a folder, at most `most` objects.
    pub async fn list(&self, folder: &Path, most: usize) -> Result<Vec<Listed>, BucketError> {
        let place = self.place(folder);
        let stream = self.store.list(Some(&place));
        let mut found = Vec::new();
        self.look_at(&place, stream, |listed| {
            found.push(listed);
            found.len() < most
        })
        .await?;
        Ok(found)
    }

    /// The objects whose names come next after `after`, at most `most` of those that are wanted. Not all stores list
    /// names in their order.
    pub(crate) async fn list_after(
        &self,
        folder: &Path,
        after: Option<&str>,
        most: usize,
        is_wanted: impl Fn(&Listed) -> bool,
    ) -> Result<Vec<Listed>, BucketError> {
        let place = self.place(folder);
        let stream = match after {
            Some(name) => self.store.list_with_offset(Some(&place), &place.clone().join(name)),
            None => self.store.list(Some(&place)),
        };
        let mut found = BTreeMap::new();
        self.look_at(&place, stream, |listed| {
            if is_wanted(&listed) {
                found.insert(listed.name.clone(), listed);
                if found.len() > most {
                    found.pop_last();
                }
            }
            true
        })
        .await?;
        Ok(found.into_values().collect())
    }

    /// Calls `each` with what is in a list, until it says false. False: there may be more.
    async fn look_at(
        &self,
        folder: &Path,
        mut stream: BoxStream<'static, Result<ObjectMeta, Error>>,
        mut each: impl FnMut(Listed) -> bool,
    ) -> Result<bool, BucketError> {
        let all = async {
            for _ in 0..MOST_LOOKED_AT {
                let next = self.in_time(async { stream.next().await.transpose() }).await;
                let Some(meta) = next.map_err(BucketError::of)? else { return Ok(true) };
                let Some(listed) = listed_below(folder, &meta) else { continue };
                if !each(listed) {
                    break;
                }
            }
            Ok(false)
        };
        tokio::time::timeout(self.silence * LIST, all).await.unwrap_or(Err(BucketError::Slow))
    }

    /// What is directly in a folder. The library reads a list in pages to its end, whether or not it has one, so that
    /// is done here.
    async fn level(&self, place: &Path) -> Result<ListResult, Error> {
        let Some(pages) = &self.pages else { return self.store.list_with_delimiter(Some(place)).await };
        let prefix = format!("{place}/");
        let (mut all, mut next) = (None::<ListResult>, None);
        for _ in 0..MOST_PAGES {
            let delimiter = Some("/".into());
            let options = PaginatedListOptions { delimiter, page_token: next, ..Default::default() };
            let page = pages.list_paginated(Some(&prefix), options).await?;
            match &mut all {
                Some(all) => {
                    all.objects.extend(page.result.objects);
                    all.common_prefixes.extend(page.result.common_prefixes);
                }
                None => all = Some(page.result),
            }
            next = page.page_token;
            if next.is_none() {
                break;
            }
        }
        let endless = || Error::Generic { store: "vkstash", source: "a list has no end".into() };
        all.filter(|_| next.is_none()).ok_or_else(endless)
    }

    /// The names of the folders in a folder.
    pub(crate) async fn folders(&self, folder: &Path) -> Result<Vec<String>, BucketError> {
        let place = self.place(folder);
        let list = self.level(&place);
        let list = tokio::time::timeout(self.silence * LIST, list).await.map_err(|_| BucketError::Slow)?;
        let list = match list {
            Ok(list) => list,
            Err(Error::NotFound { .. }) => return Ok(Vec::new()),
            Err(error) => return Err(BucketError::of(error)),
        };
        let name = |path: &Path| path.parts().next_back().map(|part| part.as_ref().to_owned());
        Ok(list.common_prefixes.iter().filter_map(name).collect())
    }

    /// Removes an object.
    pub async fn delete(&self, path: &Path) -> Result<(), BucketError> {
        match self.in_time(self.store.delete(&self.place(path))).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(BucketError::of(error)),
        }
    }
}

/// How fast an answer comes: a store that sends a byte now and then is as good as silent. Only the time counts in which
/// this program waits for the store.
pub(crate) struct Pace {
    waited: Duration,
    bytes: u64,
}

impl Pace {
    /// The next bytes. None: that was all.
    pub(crate) async fn next(
        &mut self,
        bucket: &Bucket,
        stream: &mut BoxStream<'static, Result<Bytes, Error>>,
    ) -> Result<Option<Bytes>, BucketError> {
        let began = tokio::time::Instant::now();
        let next = bucket.in_time(async { stream.next().await.transpose() }).await;
        let next = next.map_err(BucketError::of)?;
        self.waited += began.elapsed();
        self.bytes += next.as_ref().map_or(0, |bytes| bytes.len() as u64);
        if next.is_some() && self.waited > bucket.silence {
            if (self.bytes as f64) < LEAST_RATE as f64 * self.waited.as_secs_f64() {
                return Err(BucketError::Slow);
            }
            *self = bucket.pace();
        }
        Ok(next)
    }
}
