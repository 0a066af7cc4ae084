//! Archives against Fossilize's own programs, which scripts/fossilize.sh builds. VKSTASH_FOSSILIZE names their folder;
//! without it these tests are skipped.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use vkstash_fossilize::archive::{Reader, Tag, Writer, layout, payload, varint};

type Entries = BTreeMap<(Tag, u64), Vec<u8>>;

/// The programs' folder; none, and the reason is recorded, where they are not built. The record is that of
/// layer-tests/src/skip.rs.
fn programs(test: &str) -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("VKSTASH_FOSSILIZE") {
        return Some(folder.into());
    }
    let reason =
        "no programs of Fossilize's (scripts/fossilize.sh builds them, VKSTASH_FOSSILIZE names their folder)";
    eprintln!("{test}: skipped: {reason}");
    if let Some(path) = std::env::var_os("VKSTASH_SKIPPED") {
        let file = File::options().append(true).create(true).open(path);
        let _ = file.and_then(|mut file| file.write_all(format!("{test}\t{reason}\n").as_bytes()));
    }
    None
}

/// Standard output. Fossilize's programs report some errors on standard error only.
fn run(folder: &Path, program: &str, arguments: &[&Path]) -> String {
    let output = Command::new(folder.join(program)).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {}: {errors}", output.status);
    assert!(!errors.contains("error") && !errors.contains("Failed"), "{program}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn write(path: &Path, entries: &Entries) {
    let mut writer = Writer::new(File::create(path).unwrap()).unwrap();
    for (&(tag, hash), payload) in entries {
        assert!(writer.write(tag, hash, payload).unwrap());
    }
    writer.finish().unwrap();
}

fn read(path: &Path) -> Entries {
    let reader = Reader::open(path).unwrap();
    assert_eq!(reader.skipped().entries(), 0, "{:?}", reader.skipped());
    let mut payloads = reader.payloads();
    let entries = payloads.by_ref().map(|(entry, payload)| ((entry.tag(), entry.hash()), payload)).collect();
    assert_eq!(payloads.damaged(), 0);
    entries
}

/// For each tag: an empty payload, a short one that is stored as it is, and a long one that is compressed.
fn some() -> Entries {
    let payloads = [Vec::new(), b"{}".to_vec(), b"vertex fragment ".repeat(1000)];
    let names = |tag: Tag| (0..3u64).map(move |at| (tag, (at << 62) + u64::from(tag.number())));
    Tag::ALL.into_iter().flat_map(|tag| names(tag).zip(payloads.clone())).collect()
}

#[test]
fn fossilize_lists_what_was_written() {
    let Some(programs) = programs("fossilize_lists_what_was_written") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ours.foz");
    write(&path, &some());
    let reader = Reader::open(&path).unwrap();
    for tag in Tag::ALL {
        let number = tag.number().to_string();
        let arguments = [&*path, "--tag".as_ref(), number.as_ref(), "--size".as_ref()];
        let listed = run(&programs, "fossilize-list", &arguments);
        let listed: Vec<_> = listed.lines().filter(|line| !line.starts_with("Total size")).collect();
        let line =
            |hash, stored, size| format!("{hash:016x} {stored} compressed bytes, {size} uncompressed bytes");
        let entries = reader.entries_of(tag).iter();
        // Fossilize counts the header with the stored bytes.
        let stored = |stored| stored as usize + layout::HEADER;
        let wanted: Vec<_> =
            entries.map(|entry| line(entry.hash(), stored(entry.stored_size()), entry.size())).collect();
        assert_eq!(listed, wanted, "{tag:?}");
    }
}

#[test]
fn what_fossilize_writes_is_read() {
    let Some(programs) = programs("what_fossilize_writes_is_read") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    write(&path("ours.foz"), &some());
    run(&programs, "fossilize-convert-db", &[&path("ours.foz"), &path("theirs.foz")]);
    assert_eq!(read(&path("theirs.foz")), some());
    assert_ne!(fs::read(path("ours.foz")).unwrap(), fs::read(path("theirs.foz")).unwrap());

    // fossilize-merge-db appends to an archive.
    let (one, other): (Entries, Entries) = some().into_iter().partition(|(name, _)| name.1 >> 63 == 0);
    write(&path("one.foz"), &one);
    write(&path("other.foz"), &other);
    run(&programs, "fossilize-merge-db", &[&path("one.foz"), &path("other.foz"), &path("ours.foz")]);
    assert_eq!(read(&path("one.foz")), some());
}

#[test]
fn fossilize_appends_where_reading_ends() {
    let Some(programs) = programs("fossilize_appends_where_reading_ends") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    write(&path("ours.foz"), &some());
    let bytes = fs::read(path("ours.foz")).unwrap();
    fs::write(path("cut.foz"), &bytes[..bytes.len() - 1]).unwrap();
    assert_ne!(Reader::open(&path("cut.foz")).unwrap().skipped().tail, 0);
    let arguments = [&*path("cut.foz"), &*path("ours.foz")];
    let merged = Command::new(programs.join("fossilize-merge-db")).args(arguments).output().unwrap();
    assert!(merged.status.success());
    assert_eq!(read(&path("cut.foz")), some());
}

/// fossilize-rehash decodes the words, and encodes them again: with a hash and JSON of its own.
#[test]
fn fossilize_has_the_words_that_were_encoded() {
    let Some(programs) = programs("fossilize_has_the_words_that_were_encoded") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let words_of = |shift: u32| (0..100).map(|at| (u32::MAX - at) >> shift).collect::<Vec<_>>();
    let mut wanted: Vec<_> = (0..32).map(words_of).collect();
    let modules =
        wanted.iter().zip(1..).map(|(words, hash)| ((Tag::ShaderModule, hash), module(hash, words)));
    write(&path("ours.foz"), &modules.collect());
    let (ours, theirs) = (path("ours.foz"), path("theirs.foz"));
    let arguments = ["--input-db".as_ref(), &*ours, "--output-db".as_ref(), &*theirs];
    run(&programs, "fossilize-rehash", &arguments);

    let theirs = read(&theirs);
    let modules = theirs.iter().filter(|(name, _)| name.0 == Tag::ShaderModule);
    let mut found: Vec<_> = modules.map(|(_, payload)| words(payload)).collect();
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);
}

/// A shader module's payload.
fn module(hash: u64, words: &[u32]) -> Vec<u8> {
    let code = varint::encode(words);
    let info = serde_json::json!({
        "varintOffset": 0, "varintSize": code.len(), "codeSize": words.len() * 4, "flags": 0,
    });
    let json = serde_json::json!({ "version": 6, "shaderModules": { format!("{hash:016x}"): info } });
    payload::join(json.to_string().as_bytes(), &code)
}

/// The words of a shader module's payload.
fn words(payload: &[u8]) -> Vec<u32> {
    let (json, code) = payload::split(payload);
    let json: serde_json::Value = serde_json::from_slice(json).unwrap();
    let info = json["shaderModules"].as_object().unwrap().values().next().unwrap();
    let number = |name: &str| usize::try_from(info[name].as_u64().unwrap()).unwrap();
    let code = &code.unwrap()[number("varintOffset")..][..number("varintSize")];
    varint::decode(code, number("codeSize") / 4).unwrap()
}
