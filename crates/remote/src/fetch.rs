//! Downloads of segments: in pieces, resumed, bounded in memory, and checked against their names.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use object_store::path::Path as Place;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::bucket::{Bucket, BucketError};
use crate::manifest::Segment;
use crate::names::Digest;
use crate::progress::{Progress, Rate};

/// Pieces that wait to be written: the download does not get further ahead.
const WAITING: usize = 64;
/// So often in a row a download may bring next to nothing.
const ATTEMPTS: u32 = 3;
/// That is next to nothing: fewer bytes in one answer.
const NEXT_TO_NOTHING: u64 = 4 << 10;
/// How often it is asked whether somebody else still writes the file.
const STEP: Duration = Duration::from_millis(5);

/// Why a segment could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// A request to the store failed.
    #[error(transparent)]
    Store(#[from] BucketError),
    /// The segment cannot be written on this machine.
    #[error("cannot write {}: {source}", path.display())]
    Disk {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The store has something else under this name.
    #[error("segment {0} is not what its name says")]
    Wrong(Digest),
}

/// Copies the segment at that place into `folder`, where a part of it may be already. Returns the file's name: its
/// content is that of which the name is the digest, and nothing else is known of it.
///
/// A download that is given up may still be writing what it has received. The process that writes the file locks it,
/// so that the bytes that were hashed are those in the file.
pub(crate) async fn fetch(
    bucket: &Bucket,
    place: &Place,
    segment: &Segment,
    folder: &Path,
    rate: &Rate,
    progress: &dyn Progress,
) -> Result<String, FetchError> {
    let name = format!("{}.part", segment.sha256);
    let path = folder.join(&name);
    let disk = |source| FetchError::Disk { path: path.clone(), source };
    let (mut resumes, mut told) = (true, Told { progress, most: 0 });
    loop {
        let file = locked(&path, segment.bytes, bucket.silence()).await.map_err(disk)?;
        let there = file.metadata().map_err(disk)?.len();
        told.tell(there);
        let (send, receive) = mpsc::channel(WAITING);
        let sink = tokio::task::spawn_blocking(move || write(file, there, receive));
        let copied = copy(bucket, place, segment, there, rate, &mut told, &send).await;
        drop(send);
        match (finish(sink).await, copied) {
            (Err(source), _) => {
                if source.kind() == io::ErrorKind::StorageFull || source.kind() == io::ErrorKind::FileTooLarge
                {
                    // Others need the space more than the next attempt.
                    let _ = std::fs::remove_file(&path);
                }
                return Err(disk(source));
            }
            (Ok(_), Err(Broken { error, answers_in_part })) => {
                // Some servers send whole objects alone. Others are away: then the part is worth keeping.
                let whole = !answers_in_part && resumes && bucket.stream(place, 0).await.is_ok();
                if !whole {
                    return Err(error.into());
                }
                resumes = false;
                let _ = std::fs::remove_file(&path);
            }
            (Ok(digest), Ok(whole)) => {
                if whole && digest == segment.sha256 {
                    return Ok(name);
                }
                let _ = std::fs::remove_file(&path);
                // What was there before may be to blame; once.
                if there == 0 || !std::mem::replace(&mut resumes, false) {
                    return Err(FetchError::Wrong(segment.sha256));
                }
            }
        }
    }
}

/// Tells each byte once, however often it is copied.
struct Told<'a> {
    progress: &'a dyn Progress,
    most: u64,
}

impl Told<'_> {
    fn tell(&mut self, at: u64) {
        if at > self.most {
            self.progress.done(at - self.most);
            self.most = at;
        }
    }
}

/// The file to be continued, once nobody else writes it. One that is too long begins again.
async fn locked(path: &Path, most: u64, patience: Duration) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).mode(0o600);
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
    let began = Instant::now();
    loop {
        let file = options.open(path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            // The process that had the lock before may have removed the file.
            Ok(()) => {
                let (mine, there) = (file.metadata()?, path.symlink_metadata());
                if there.is_ok_and(|there| there.ino() == mine.ino() && there.dev() == mine.dev()) {
                    if mine.len() > most {
                        file.set_len(0)?;
                    }
                    return Ok(file);
                }
            }
            Err(Errno::WOULDBLOCK) if began.elapsed() < patience => tokio::time::sleep(STEP).await,
            Err(Errno::WOULDBLOCK) => return Err(io::Error::other("somebody else writes it")),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Why a download ended before its end.
struct Broken {
    error: BucketError,
    /// False: the last thing that was asked for is the rest of an object, and that was not answered.
    answers_in_part: bool,
}

/// Sends the bytes from `offset` on. False: the store has more of it than there may be.
async fn copy(
    bucket: &Bucket,
    place: &Place,
    segment: &Segment,
    offset: u64,
    rate: &Rate,
    told: &mut Told<'_>,
    to: &mpsc::Sender<Bytes>,
) -> Result<bool, Broken> {
    let (mut at, mut in_vain) = (offset, 0);
    while at < segment.bytes {
        let before = at;
        let mut answers_in_part = at == 0;
        let outcome = async {
            let mut stream = bucket.stream(place, at).await?;
            answers_in_part = true;
            let mut pace = bucket.pace();
            while let Some(bytes) = pace.next(bucket, &mut stream).await? {
                if bytes.len() as u64 > segment.bytes - at {
                    return Ok(false);
                }
                at += bytes.len() as u64;
                rate.pay(bytes.len()).await;
                told.tell(at);
                if to.send(bytes).await.is_err() {
                    // The bytes cannot be written; the sink says why.
                    return Ok(true);
                }
            }
            Ok(true)
        };
        match outcome.await {
            Ok(false) => return Ok(false),
            _ if to.is_closed() => return Ok(true),
            Err(error @ (BucketError::Missing(_) | BucketError::Denied(_) | BucketError::Slow)) => {
                return Err(Broken { error, answers_in_part: true });
            }
            Ok(true) if at == segment.bytes => return Ok(true),
            outcome => {
                in_vain = if at - before >= NEXT_TO_NOTHING { 0 } else { in_vain + 1 };
                if in_vain >= ATTEMPTS {
                    let early = || BucketError::Unreachable("it ends before its end".to_owned());
                    let error = outcome.err().unwrap_or_else(early);
                    return Err(Broken { error, answers_in_part });
                }
            }
        }
    }
    Ok(true)
}

/// Hashes what is there, then writes and hashes what comes: on a thread of its own, so that the network does not wait.
fn write(mut file: File, there: u64, mut pieces: mpsc::Receiver<Bytes>) -> io::Result<Digest> {
    let mut hash = Sha256::new();
    let (mut buffer, mut left) = (vec![0; 256 << 10], there);
    while left > 0 {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        hash.update(&buffer[..count]);
        left = left.saturating_sub(count as u64);
    }
    file.seek(io::SeekFrom::Start(there))?;
    while let Some(piece) = pieces.blocking_recv() {
        file.write_all(&piece)?;
        hash.update(&piece);
    }
    Ok(Digest(hash.finalize().into()))
}

async fn finish(sink: JoinHandle<io::Result<Digest>>) -> io::Result<Digest> {
    sink.await.unwrap_or_else(|error| Err(io::Error::other(error)))
}
