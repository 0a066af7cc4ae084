//! Size and speed of storing modules: the store's codec beside zstd alone and beside a copy, over every module of the
//! corpus, each compressed by itself. Speeds count one thread's processor time.

use std::fs;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::path::Path;

use vkstash_layer_tests::bench::numbers::median;
use vkstash_layer_tests::corpus;
use vkstash_store::codec::{decode_into, encode_module};
use vkstash_store::format::codec::Codec;
use zstd::bulk::{Compressor, Decompressor};

use crate::failure::Failure;
use crate::progress::progress;

/// Encodes a payload.
type Encode<'a> = dyn FnMut(&[u8], &mut Vec<u8>) -> Codec + 'a;

/// Decodes a payload into a buffer of its length.
type Decode<'a> = dyn FnMut(Codec, &[u8], &mut Vec<u8>) + 'a;

/// One way of storing a module, with the processor seconds of each round.
struct Way<'a> {
    name: &'static str,
    encode: Box<Encode<'a>>,
    decode: Box<Decode<'a>>,
    stored: usize,
    encoding: Vec<f64>,
    decoding: Vec<f64>,
}

/// Prints sizes and megabytes (10^6 bytes of module) per second of processor time, medians over the rounds. The ways
/// take turns.
pub(crate) fn run(folder: &Path, rounds: usize) -> Result<(), Failure> {
    let payloads = payloads(folder)?;
    let raw: usize = payloads.iter().map(Vec::len).sum();
    progress(&format!("{} modules, {raw} bytes", payloads.len()));
    let (mut compressor, mut decompressor) = (Compressor::new(3)?, Decompressor::new()?);
    let mut ways = [
        Way::new("memcpy", copy, |_, stored, out| {
            copy(stored, out);
        }),
        Way::new(
            "zstd-3",
            |payload, out| {
                out.clear();
                out.reserve(zstd::zstd_safe::compress_bound(payload.len()));
                compressor.compress_to_buffer(payload, out).expect("zstd compresses everything");
                Codec::Zstd
            },
            |_, stored, out| {
                decompressor.decompress_to_buffer(stored, &mut out[..]).expect("what it compressed");
            },
        ),
        Way::new("filter, zstd-3 (the store's codec)", encode_module, |codec, stored, out| {
            decode_into(codec, stored, out.len(), out).expect("what it encoded");
        }),
    ];
    for _ in 0..rounds.max(1) {
        ways.iter_mut().for_each(|way| way.round(&payloads));
    }
    let [_, peer, _] = &ways;
    let (peer_ratio, peer_in, peer_out) =
        (raw as f64 / peer.stored as f64, median(&peer.encoding), median(&peer.decoding));
    println!(
        "| stored as | raw / stored | compress MB/s | decompress MB/s | against zstd-3: size, compress, decompress |"
    );
    println!("|---|---|---|---|---|");
    for way in &ways {
        let ratio = raw as f64 / way.stored as f64;
        let (encoding, decoding) = (median(&way.encoding), median(&way.decoding));
        println!(
            "| {} | {ratio:.2} | {:.0} | {:.0} | {:.2}, {:.2}, {:.2} |",
            way.name,
            raw as f64 / encoding / 1e6,
            raw as f64 / decoding / 1e6,
            peer_ratio / ratio,
            peer_in / encoding,
            peer_out / decoding,
        );
    }
    Ok(())
}

impl<'a> Way<'a> {
    fn new(
        name: &'static str,
        encode: impl FnMut(&[u8], &mut Vec<u8>) -> Codec + 'a,
        decode: impl FnMut(Codec, &[u8], &mut Vec<u8>) + 'a,
    ) -> Self {
        let (encode, decode) = (Box::new(encode), Box::new(decode));
        Self { name, encode, decode, stored: 0, encoding: Vec::new(), decoding: Vec::new() }
    }

    fn round(&mut self, payloads: &[Vec<u8>]) {
        let mut stored = Vec::new();
        let started = processor_time();
        for payload in payloads {
            let mut out = Vec::new();
            let codec = (self.encode)(black_box(payload), &mut out);
            stored.push((codec, out));
        }
        self.encoding.push(processor_time() - started);
        self.stored = stored.iter().map(|(_, bytes)| bytes.len()).sum();
        let mut out = Vec::new();
        let mut seconds = 0.0;
        for (payload, (codec, bytes)) in payloads.iter().zip(&stored) {
            out.resize(payload.len(), 0);
            let started = processor_time();
            (self.decode)(*codec, black_box(bytes), &mut out);
            seconds += processor_time() - started;
            assert_eq!(&out, payload, "{}: what was stored has changed", self.name);
        }
        self.decoding.push(seconds);
    }
}

/// Processor seconds of this thread: other programs on the machine do not count.
pub(crate) fn processor_time() -> f64 {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the system writes the whole structure if the call succeeds, and only then it is read.
    let time = unsafe {
        assert_eq!(libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, time.as_mut_ptr()), 0, "no such clock");
        time.assume_init()
    };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn copy(bytes: &[u8], out: &mut Vec<u8>) -> Codec {
    out.clear();
    out.extend_from_slice(bytes);
    Codec::Plain
}

/// The payloads of the modules in a folder as the store gets them: no flags, then the code.
fn payloads(folder: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let paths = corpus::module_files(folder)?;
    if paths.is_empty() {
        return Err(
            format!("{} holds no .spv files; scripts/corpus.sh fetches some", folder.display()).into()
        );
    }
    let read = |path| Ok([&[0; 4][..], &fs::read(path)?].concat());
    paths.into_iter().map(read).collect()
}
