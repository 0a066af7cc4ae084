//! Benchmark of pulls, over an S3 server on loopback; prints Markdown (docs/remote.md):
//! `cargo run --release -p vkstash-remote-s3 --example remote-bench -- [MEGABYTES]`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark ends at the first surprise")]

#[path = "../../../store/src/tests/header.rs"]
mod header;
#[path = "../tests/server.rs"]
#[allow(dead_code, reason = "the tests count more")]
mod server;

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use object_store::path::Path as Place;
use object_store::{ObjectStore, ObjectStoreExt as _};

use header::header;
use server::Server;
use vkstash_model::app_name::AppName;
use vkstash_model::record::Kind;
use vkstash_remote::home::Home;
use vkstash_remote::key::Signer;
use vkstash_remote::manifest::Content;
use vkstash_remote::names::Digest;
use vkstash_remote::progress::Quiet;
use vkstash_remote::trust::{self, Trust};
use vkstash_remote::{pull, push};
use vkstash_store::stash::open::Stash;

const NOW: u64 = 1_800_000_000;
const ROUNDS: usize = 5;
/// Bytes of one artifact.
const ARTIFACT: usize = 64 << 10;

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Bytes that cannot be compressed.
fn noise(seed: u64, bytes: &mut [u8]) {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for chunk in bytes.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.copy_from_slice(&state.to_le_bytes());
    }
}

fn fill(root: &Path, app: &AppName, count: u64) {
    let stash = Stash::open_patiently(root, app).unwrap();
    let part = stash.device(&header()).unwrap();
    let mut payload = vec![0; ARTIFACT];
    for number in 0..count {
        noise(number, &mut payload);
        payload[..8].copy_from_slice(&[9, 0, 0, 0, 1, 0, 0, 0]);
        let key = Digest::of(&number.to_le_bytes()).0;
        assert!(part.put(Kind::Artifact, &key, payload.as_slice().into()));
        if number % 128 == 127 {
            while !stash.flush(Duration::from_secs(60)) {}
        }
    }
}

/// Copies all segments into a folder with the client library alone, so many at once.
async fn copy(store: &Arc<dyn ObjectStore>, folder: &Path, at_once: usize) -> u64 {
    let listed: Vec<_> = store.list(Some(&Place::from("some/prefix/v1/segments"))).collect().await;
    let each = listed.into_iter().map(|meta| async move {
        let place = meta.unwrap().location;
        let mut stream = store.get(&place).await.unwrap().into_stream();
        let mut file = std::fs::File::create(folder.join(place.filename().unwrap())).unwrap();
        let mut bytes = 0;
        while let Some(piece) = stream.next().await {
            let piece = piece.unwrap();
            file.write_all(&piece).unwrap();
            bytes += piece.len() as u64;
        }
        bytes
    });
    futures_util::stream::iter(each)
        .buffer_unordered(at_once)
        .fold(0, |sum, bytes| async move { sum + bytes })
        .await
}

/// How long it takes to copy all segments into a new folder, which is removed then, and their bytes.
fn plain_copying(server: &Server, to: &Path, at_once: usize) -> (Duration, u64) {
    std::fs::create_dir(to).unwrap();
    let began = Instant::now();
    let bytes = wait(copy(&server.store(), to, at_once));
    let time = began.elapsed();
    std::fs::remove_dir_all(to).unwrap();
    (time, bytes)
}

/// Believes everything that a signer has signed.
fn trust_in(signer: &Signer) -> Trust {
    let pinned = trust::Signer {
        name: String::new(),
        key: signer.public().clone(),
        applications: vec!["*".to_owned()],
        content: Content::Artifacts,
    };
    Trust { signers: vec![pinned] }
}

fn main() {
    let megabytes: u64 =
        std::env::args().nth(1).map_or(1000, |text| text.parse().expect("a number of megabytes"));
    let folder = tempfile::tempdir().unwrap();
    let app = AppName::new(Some(b"bench"), b"/bin/bench");
    let signer = Signer::generate().unwrap();
    let trust = trust_in(&signer);
    let server = Server::start(&folder.path().join("s3"));
    let stash = folder.path().join("stash");
    fill(&stash, &app, megabytes * 1_000_000 / ARTIFACT as u64);
    let home = |name: &str| Home::open(&folder.path().join(name)).unwrap();
    let request = push::Request {
        root: stash,
        applications: vec![app.folder.clone()],
        portable: false,
        replace: false,
        compact: false,
        valid: 1_000_000,
        now: NOW,
    };
    let pushed =
        wait(push::push(&server.bucket(), &home("push"), &trust, &signer, &request, Arc::new(Quiet)))
            .unwrap();
    let pull = |name: &str| {
        let applications = vec![(app.folder.clone(), vec![header()])];
        let patience = Duration::from_secs(1);
        let request = pull::Request { applications, kept: false, all: false, rate: None, patience, now: NOW };
        let began = Instant::now();
        let pulled =
            wait(pull::pull(&server.bucket(), &home(name), &trust, &request, Arc::new(Quiet))).unwrap();
        assert!(pulled.failures.is_empty());
        (began.elapsed(), pulled)
    };
    let (mut pulls, mut plain, mut wide) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for (times, at_once) in [(&mut plain, 1), (&mut wide, 3)] {
            let (time, bytes) = plain_copying(&server, &folder.path().join("copied"), at_once);
            assert_eq!(bytes, pushed.bytes);
            times.push(time);
        }
        let (time, pulled) = pull("pull");
        assert_eq!(pulled.bytes, pushed.bytes);
        pulls.push(time);
        std::fs::remove_dir_all(folder.path().join("pull")).unwrap();
    }
    let (pulled, plain, wide) = (median(pulls), median(plain), median(wide));
    pull("pull");
    let before = server.requests.load(Ordering::Relaxed);
    let nothing: Vec<Duration> = (0..21).map(|_| pull("pull").0).collect();
    let requests = (server.requests.load(Ordering::Relaxed) - before) as f64 / 21.0;
    let rate = |time: Duration| pushed.bytes as f64 / 1e6 / time.as_secs_f64();
    println!("| | |\n|---|---|");
    println!(
        "| a pull that finds nothing new | {:.1} ms, {requests} requests |",
        median(nothing).as_secs_f64() * 1e3
    );
    println!("| size | {} MB in {} segments |", pushed.bytes / 1_000_000, pushed.segments);
    println!("| plain copying, one segment at a time | {:.0} MB/s |", rate(plain));
    println!("| plain copying, three at once | {:.0} MB/s |", rate(wide));
    println!(
        "| pull, verified | {:.0} MB/s, {:.0} % |",
        rate(pulled),
        100.0 * rate(pulled) / rate(plain).max(rate(wide))
    );
}
