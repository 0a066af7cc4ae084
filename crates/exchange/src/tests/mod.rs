//! Archives: an import brings what was exported, and nothing forged.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod foz;
mod fuzz;
#[path = "../../../store/src/tests/header.rs"]
mod header;
#[path = "../../../store/src/tests/numbers.rs"]
mod numbers;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ash::vk;
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

use self::header::header;
use super::export::export;
use super::import::{ImportError, Imported, Taken, import};
use vkstash_model::app_name::AppName;
use vkstash_model::check;
use vkstash_model::identifier::module_identity;
use vkstash_model::key::{self, digest};
use vkstash_model::record::{Key, Kind, RunDevices, UseRecord, WORKERS};
use vkstash_store::format::refusal::Refusal;
use vkstash_store::part::open::Part;
use vkstash_store::stash::inspect::list_applications;
use vkstash_store::stash::open::Stash;
use vkstash_store::stash::uses::DeviceUses;

const PORTABLE: [Kind; 5] =
    [Kind::Module, Kind::Layout, Kind::RenderPass, Kind::Recipe, Kind::DeviceConfiguration];

fn root() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn app() -> AppName {
    AppName::new(None, b"/bin/Some Game")
}

/// Bytes and keys of real recipes.
fn recipes() -> Vec<(Key, Vec<u8>)> {
    let lines = include_str!("../../../../tests/golden/recipes-2.txt").lines();
    let recipe = |line: &str| {
        let (bytes, key) = line.split_once(' ').unwrap();
        (hex::decode(key).unwrap().try_into().unwrap(), hex::decode(bytes).unwrap())
    };
    lines.map(recipe).collect()
}

fn module(number: u8) -> (Key, Vec<u8>) {
    let flags = u32::from(number % 2);
    let code: Vec<u8> = (0..400 + 4 * u32::from(number)).map(|at| (at * 7) as u8 ^ number).collect();
    let key = module_identity(vk::ShaderModuleCreateFlags::from_raw(flags), &code);
    (key, [&flags.to_le_bytes()[..], &code].concat())
}

fn put(part: &Part, kind: Kind, (key, payload): &(Key, Vec<u8>)) {
    assert!(part.put(kind, key, payload.as_slice().into()));
}

/// An artifact's payload; the driver's data is arbitrary here.
fn artifact(number: u8) -> Vec<u8> {
    let mut payload = vec![1, 0, 0, 0, 1, 0, 0, 0];
    payload.extend((0..300_u32).map(|at| (at * 3) as u8 ^ number));
    payload
}

/// A stash with records of every kind.
fn fill(root: &Path, app: &AppName) {
    let stash = Stash::open_patiently(root, app).unwrap();
    let portable = stash.portable();
    for number in 0..6 {
        put(portable, Kind::Module, &module(number));
        for (kind, tag) in [(Kind::Layout, key::LAYOUT), (Kind::RenderPass, key::RENDER_PASS)] {
            let payload = vec![number; 20 + usize::from(number)];
            put(portable, kind, &(digest(tag, &payload), payload));
        }
    }
    put(
        portable,
        Kind::DeviceConfiguration,
        &(digest(key::DEVICE_CONFIGURATION, b"setup"), b"setup".to_vec()),
    );
    let device = stash.device(&header()).unwrap();
    for (number, recipe) in recipes().into_iter().enumerate() {
        put(portable, Kind::Recipe, &recipe);
        put(&device, Kind::Artifact, &(recipe.0, artifact(number as u8)));
        stash.note_taken(&DeviceUses::of(0), &device, &recipe.0);
    }
    put(&device, Kind::IdentifierPair, &([5; 32], module(1).0.to_vec()));
    put(&device, Kind::CrashCount, &([6; 32], vec![1]));
    put(&device, Kind::Cost, &([7; 32], vec![1, 0, 0, 0]));
    put(&device, Kind::Estimates, &([8; 32], vec![0; 32]));
    put(&device, Kind::Found, &([9; 32], vec![60, 0, 0, 0]));
}

fn archive(root: &Path, parts: &[&str]) -> Vec<u8> {
    let parts: Vec<_> = parts.iter().map(|part| (app().folder, (*part).to_owned())).collect();
    let mut bytes = Vec::new();
    export(root, &parts, &mut bytes).unwrap();
    bytes
}

fn device_folder() -> String {
    format!("device-{}", header().short_digest())
}

/// An archive of all parts of [`fill`].
fn full_archive() -> Vec<u8> {
    let from = root();
    fill(from.path(), &app());
    archive(from.path(), &["portable", &device_folder()])
}

/// All records in the stash by (in the device part, kind, key).
fn all(root: &Path) -> BTreeMap<(bool, Kind, Key), Vec<u8>> {
    let stash = Stash::open_patiently(root, &app()).unwrap();
    let mut all = BTreeMap::new();
    let parts = [(false, stash.portable().clone()), (true, stash.device(&header()).unwrap())];
    for (of_device, part) in parts {
        for kind in Kind::ALL {
            part.for_each(kind, &mut |key, payload| {
                assert!(all.insert((of_device, kind, *key), payload.to_vec()).is_none());
            });
        }
    }
    all
}

fn only(imported: Imported) -> Taken {
    assert_eq!((imported.applications.len(), imported.skipped), (1, 0), "{imported:?}");
    imported.applications.into_values().next().unwrap()
}

/// Records of device parts that are not imported. Of crash counts the one here says nothing of an artifact.
fn is_found_out_again(kind: Kind) -> bool {
    matches!(kind, Kind::Verified | Kind::CrashCount | Kind::Estimates | Kind::Found)
}

/// All records without those that are not imported.
fn comparable(root: &Path) -> BTreeMap<(bool, Kind, Key), Vec<u8>> {
    let mut all = all(root);
    all.retain(|&(_, kind, _), _| !is_found_out_again(kind));
    all
}

#[test]
fn an_import_brings_what_was_exported() {
    let (from, to) = (root(), root());
    fill(from.path(), &app());
    let bytes = archive(from.path(), &["portable", &device_folder()]);
    let taken = only(import(to.path(), &*bytes, true).unwrap());
    assert_eq!(comparable(from.path()), comparable(to.path()));
    let there = all(to.path());
    assert!(!there.keys().any(|&(_, kind, _)| is_found_out_again(kind)));
    assert_eq!(taken.records.values().sum::<u64>(), there.len() as u64);
    assert_eq!(taken, Taken { records: taken.records.clone(), ..Taken::default() });
    // No temporary files are left in the folders.
    let left = fs::read_dir(to.path().join(app().folder).join("portable")).unwrap();
    let names: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().starts_with(".tmp-")), "{names:?}");
}

fn list_of_segments(root: &Path) -> String {
    let listed = fs::read_dir(root.join(app().folder).join("portable")).unwrap();
    let mut names: Vec<_> = listed.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.ends_with(".vks"));
    assert_eq!(names.len(), 1);
    names.remove(0)
}

#[test]
fn artifacts_that_are_stored_once_come_in_whole_whatever_the_order_of_their_files() {
    let (from, to) = (root(), root());
    let number = |number: u8| ([number; 32], artifact(0));
    for first in [0, 3, 6] {
        let stash = Stash::open_patiently(from.path(), &app()).unwrap();
        let device = stash.device(&header()).unwrap();
        (first..first + 3).for_each(|at| put(&device, Kind::Artifact, &number(at)));
    }
    let stash = Stash::open_patiently(from.path(), &app()).unwrap();
    let device = stash.device(&header()).unwrap();
    assert_eq!((device.len(Kind::Artifact), device.len(Kind::Same)), (3, 6));
    let read = |device: &Part, at: u8| {
        let mut payload = Vec::new();
        device.read(Kind::Artifact, &[at; 32], &mut payload).then_some(payload)
    };
    let bytes = archive(from.path(), &[&device_folder()]);
    let taken = only(import(to.path(), &*bytes, true).unwrap());
    assert_eq!(taken, Taken { records: [(Kind::Artifact, 9)].into(), ..Taken::default() });
    let stash = Stash::open_patiently(to.path(), &app()).unwrap();
    let device = stash.device(&header()).unwrap();
    (0..9).for_each(|at| assert_eq!(read(&device, at), Some(artifact(0))));
    assert_eq!((device.len(Kind::Artifact), device.len(Kind::Same)), (1, 8));
    drop((stash, device));
    let again = only(import(to.path(), &*bytes, true).unwrap());
    assert_eq!(again, Taken { present: 9, ..Taken::default() });

    // Records that name something else, or something that the archive lacks, are not imported.
    let (from, to) = (root(), root());
    let stash = Stash::open_patiently(from.path(), &app()).unwrap();
    let device = stash.device(&header()).unwrap();
    (0..3).for_each(|at| put(&device, Kind::Artifact, &number(at)));
    put(&device, Kind::Same, &([4; 32], vec![1; 72]));
    put(&device, Kind::Same, &([5; 32], vec![1; 71]));
    drop((stash, device));
    let stash = Stash::open_patiently(to.path(), &app()).unwrap();
    put(&stash.device(&header()).unwrap(), Kind::Artifact, &([0; 32], artifact(9)));
    drop(stash);
    let taken = only(import(to.path(), &*archive(from.path(), &[&device_folder()]), true).unwrap());
    assert_eq!(taken, Taken { present: 1, mismatched: 4, ..Taken::default() });
}

#[test]
fn quarantine_comes_with_the_artifacts_that_it_is_about() {
    let from = root();
    let one_run = |records: &[(Kind, u8, Vec<u8>)]| {
        let stash = Stash::open_patiently(from.path(), &app()).unwrap();
        let device = stash.device(&header()).unwrap();
        let key = |number| if number == 0 { WORKERS } else { [number; 32] };
        records.iter().for_each(|(kind, of, payload)| put(&device, *kind, &(key(*of), payload.clone())));
    };
    let made = |number: u8| (Kind::Artifact, number, artifact(number));
    let died = |number: u8, times: u8| (Kind::CrashCount, number, vec![times]);
    // The data of 4 is that of 1, which is quarantined. 6 has no artifact.
    let same = (Kind::Artifact, 4, artifact(1));
    one_run(&[made(1), made(2), made(3), same, made(5), died(3, 2)]);
    one_run(&[died(1, 2), died(2, 1), died(5, 2), died(6, 2), died(0, 2)]);
    // Released.
    one_run(&[died(3, 0)]);
    let newest_first = archive(from.path(), &[&device_folder()]);
    let mut reversed = files(&newest_first);
    reversed.reverse();
    for bytes in [newest_first, packed(&reversed, EntryType::Regular)] {
        let to = root();
        let stash = Stash::open_patiently(to.path(), &app()).unwrap();
        put(&stash.device(&header()).unwrap(), Kind::Artifact, &([5; 32], artifact(9)));
        drop(stash);
        let taken = only(import(to.path(), &*bytes, true).unwrap());
        assert_eq!(taken.records, [(Kind::Artifact, 4), (Kind::CrashCount, 2)].into());
        let stash = Stash::open_patiently(to.path(), &app()).unwrap();
        let device = stash.device(&header()).unwrap();
        assert_eq!([1, 2, 3, 4, 5, 6].map(|of| device.crash_count(&[of; 32])), [2, 0, 0, 2, 0, 0]);
        assert_eq!(device.crash_count(&WORKERS), 0, "what workers died of is this machine's");
    }
}

#[test]
fn a_second_import_writes_nothing() {
    let to = root();
    let bytes = full_archive();
    let first = only(import(to.path(), &*bytes, true).unwrap());
    let before = all(to.path());
    let second = only(import(to.path(), &*bytes, true).unwrap());
    assert_eq!(second.records, BTreeMap::new());
    assert_eq!(second.present, first.records.values().sum::<u64>());
    assert_eq!(before, all(to.path()));
    list_of_segments(to.path());
}

#[test]
fn artifacts_are_left_out_unless_asked_for() {
    let to = root();
    let taken = only(import(to.path(), &*full_archive(), false).unwrap());
    assert_eq!((taken.left_out, taken.mismatched), (1, 0));
    assert!(taken.records.keys().all(|kind| PORTABLE.contains(kind) || *kind == Kind::Use), "{taken:?}");
    assert!(!to.path().join(app().folder).join(device_folder()).exists());
    // An application without imported records gets no folder.
    let (from, to) = (root(), root());
    fill(from.path(), &app());
    let taken = only(import(to.path(), &*archive(from.path(), &[&device_folder()]), false).unwrap());
    assert_eq!(taken, Taken { left_out: 1, ..Taken::default() });
    assert!(!to.path().join(app().folder).exists());
}

#[test]
fn existing_records_stay_as_they_are() {
    let to = root();
    let [(first, _), ..] = recipes()[..] else { unreachable!() };
    let stash = Stash::open_patiently(to.path(), &app()).unwrap();
    put(&stash.device(&header()).unwrap(), Kind::Artifact, &(first, b"12345678 mine".to_vec()));
    let mine = UseRecord { unix_ms: 1, sequence: 2, devices: RunDevices::ALL, run: 3 };
    put(stash.portable(), Kind::Use, &(first, mine.encode()));
    drop(stash);
    let taken = only(import(to.path(), &*full_archive(), true).unwrap());
    assert_eq!(taken.present, 2);
    let there = all(to.path());
    assert_eq!(there[&(true, Kind::Artifact, first)], b"12345678 mine");
    assert_eq!(UseRecord::decode(&there[&(false, Kind::Use, first)]), Some(mine));
}

#[test]
fn the_newest_of_several_records_of_a_key_is_imported() {
    let (from, to) = (root(), root());
    for number in 0..4 {
        // Each in a segment of its own, the last two in one.
        let stash = Stash::open_patiently(from.path(), &app()).unwrap();
        let device = stash.device(&header()).unwrap();
        for number in number..(number + 1).max(5 * (number / 3)) {
            put(&device, Kind::Artifact, &([1; 32], artifact(number)));
        }
    }
    let bytes = archive(from.path(), &[&device_folder()]);
    only(import(to.path(), &*bytes, true).unwrap());
    assert_eq!(all(to.path())[&(true, Kind::Artifact, [1; 32])], artifact(4));
}

#[test]
fn records_that_do_not_match_their_key_are_left_out() {
    let (from, to) = (root(), root());
    let stash = Stash::open_patiently(from.path(), &app()).unwrap();
    for kind in PORTABLE {
        put(stash.portable(), kind, &(module(1).0, module(2).1));
    }
    let odd = [&[0; 4][..], b"words and a half"].concat();
    put(stash.portable(), Kind::Module, &(module(3).0, odd[..18].to_vec()));
    // Records of another part, and a use of no recipe.
    let orphan = UseRecord { unix_ms: 1, sequence: 0, devices: RunDevices::ALL, run: 1 };
    put(stash.portable(), Kind::Artifact, &([1; 32], artifact(1)));
    put(stash.portable(), Kind::Use, &([2; 32], orphan.encode()));
    put(stash.portable(), Kind::Use, &([3; 32], b"no use".to_vec()));
    let device = stash.device(&header()).unwrap();
    put(&device, Kind::Recipe, &recipes()[0]);
    put(&device, Kind::Artifact, &([1; 32], b"short".to_vec()));
    put(&device, Kind::IdentifierPair, &([1; 32], b"short".to_vec()));
    drop((stash, device));
    let bytes = archive(from.path(), &["portable", &device_folder()]);
    let taken = only(import(to.path(), &*bytes, true).unwrap());
    assert_eq!(taken, Taken { mismatched: 12, ..Taken::default() });
    assert_eq!(all(to.path()).len(), 0);
}

#[test]
fn times_in_the_future_count_as_now() {
    let (from, to) = (root(), root());
    let recipe = &recipes()[0];
    let stash = Stash::open_patiently(from.path(), &app()).unwrap();
    put(stash.portable(), Kind::Recipe, recipe);
    let future = UseRecord { unix_ms: u64::MAX, sequence: 7, devices: RunDevices::ALL, run: u64::MAX };
    put(stash.portable(), Kind::Use, &(recipe.0, future.encode()));
    drop(stash);
    only(import(to.path(), &*archive(from.path(), &["portable"]), false).unwrap());
    let found = UseRecord::decode(&all(to.path())[&(false, Kind::Use, recipe.0)]).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
    assert!(found.unix_ms <= now && found.run <= now && found.sequence == 7, "{found:?}");
}

/// This path for an application whose name fits into tar's oldest header.
fn short(path: &str) -> String {
    path.replace("Some_Game-", "g-")
}

/// The files of an archive.
fn files(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut archive = tar::Archive::new(bytes);
    let file = |entry: std::io::Result<tar::Entry<'_, &[u8]>>| {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_string_lossy().into_owned();
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
        (path, content)
    };
    archive.entries().unwrap().map(file).collect()
}

fn packed(files: &[(String, Vec<u8>)], kind: EntryType) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o4777);
        // Written by hand: the tar crate refuses paths that lead out of the folder.
        let name = path.as_bytes();
        header.as_old_mut().name[..name.len().min(100)].copy_from_slice(&name[..name.len().min(100)]);
        header.set_size(content.len() as u64);
        header.set_cksum();
        builder.append(&header, content.as_slice()).unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn paths_out_of_the_folder_are_not_followed() {
    let outer = root();
    let to = outer.path().join("stash");
    let good = files(&full_archive());
    let (path, content) = &good[0];
    let file = path.rsplit('/').next().unwrap();
    let names = [
        "../../../evil.vks".to_owned(),
        format!("/etc/{file}"),
        format!("../portable/{file}"),
        format!("{}/../{file}", app().folder),
        format!("{}/portable/../{file}", app().folder),
        format!("{}/portable/..", app().folder),
        format!("..-01234567-89abcdef/portable/{file}"),
        format!("{}/runs/{file}", app().folder),
        format!("{}/settings", app().folder),
        String::new(),
    ];
    let bad: Vec<_> = names.into_iter().map(|name| (name, content.clone())).collect();
    let outcome = import(&to, &*packed(&bad, EntryType::Regular), true);
    assert!(matches!(outcome, Err(ImportError::Nothing)), "{outcome:?}");
    let links =
        [EntryType::Symlink, EntryType::Link, EntryType::Directory, EntryType::Fifo, EntryType::GNUSparse];
    for kind in links {
        let good: Vec<_> = good.iter().map(|(path, content)| (short(path), content.clone())).collect();
        let outcome = import(&to, &*packed(&good, kind), true);
        assert!(
            matches!(outcome, Err(ImportError::Nothing | ImportError::Archive(_))),
            "{kind:?}: {outcome:?}"
        );
    }
    assert!(!to.exists());
    // Anything may stand before the last three components.
    let leading = [(format!("/../x/{}", short(path)), content.clone())];
    let taken = only(import(&to, &*packed(&leading, EntryType::Regular), false).unwrap());
    assert!(!taken.records.is_empty());
    let outside: Vec<_> =
        fs::read_dir(outer.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(outside.iter().all(|name| name == "stash"), "{outside:?}");
}

#[test]
fn a_segment_of_another_part_or_device_is_refused() {
    let to = root();
    let mut moved = files(&full_archive());
    let paths: Vec<String> = moved.iter().map(|(path, _)| path.clone()).collect();
    moved[0].0 = short(&paths[1]);
    moved[1].0 = short(&paths[0]);
    let other = short(&paths[1]).replace(&header().short_digest(), "0123456789abcdef");
    let third = (other, moved[1].1.clone());
    moved.push(third);
    moved.push((
        short(&paths[0]).replace("portable/", "portable/0"),
        b"not a segment, but long enough".repeat(10),
    ));
    moved.push((short(&paths[0]).replace("portable/", "portable/1"), Vec::new()));
    let taken = only(import(to.path(), &*packed(&moved, EntryType::Regular), true).unwrap());
    let reasons: Vec<_> = taken.refused.iter().map(|(_, reason)| reason.clone()).collect();
    use Refusal::{NotASegment, OtherPart, Truncated};
    assert_eq!(reasons, [OtherPart, OtherPart, OtherPart, NotASegment, Truncated]);
    assert_eq!(taken, Taken { refused: taken.refused.clone(), ..Taken::default() });
}

#[test]
fn the_complete_entries_of_a_truncated_archive_are_imported() {
    let whole = full_archive();
    let to = root();
    let mut taken = 0;
    for length in (0..whole.len()).step_by(509) {
        let outcome = import(to.path(), &whole[..length], false);
        match outcome {
            Ok(imported) => {
                taken = taken.max(imported.applications.values().map(|taken| taken.present).sum())
            }
            Err(ImportError::Archive(_) | ImportError::Nothing) => {}
            Err(error) => panic!("{length} bytes: {error}"),
        }
    }
    assert!(taken > 20, "{taken}");
    for ((_, kind, key), payload) in all(to.path()) {
        assert!(kind == Kind::Use || check::is_true(kind, &key, &payload), "{kind:?}");
    }
}

#[test]
fn failed_writes_are_reported() {
    let to = root();
    fs::write(to.path().join("config.toml"), "free-space = '8000TiB'\n").unwrap();
    let error = import(to.path(), &*full_archive(), true).unwrap_err();
    assert!(matches!(error, ImportError::NotWritten(_)), "{error}");
    assert!(error.to_string().contains("free-space floor"), "{error}");
    assert_eq!(list_applications(to.path()).unwrap().len(), 0);
}

/// As many bytes as its header says, without holding them in memory. Counts the bytes read.
struct Long<'a> {
    head: &'a [u8],
    at: u64,
    bytes: u64,
}

impl std::io::Read for Long<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let at = self.at as usize;
        let count = (buffer.len() as u64).min(self.bytes - self.at) as usize;
        buffer[..count].fill(0);
        if let Some(head) = self.head.get(at..) {
            let count = count.min(head.len());
            buffer[..count].copy_from_slice(&head[..count]);
        }
        self.at += count as u64;
        Ok(count)
    }
}

#[test]
fn nothing_is_copied_into_the_free_space_floor() {
    let to = root();
    let free = rustix::fs::statvfs(to.path()).map(|space| space.f_bavail * space.f_frsize).unwrap();
    // Half of it would fit. So much that what other programs write and remove meanwhile does not matter.
    let (size, floor) = (free, free / 2);
    fs::write(to.path().join("config.toml"), format!("free-space = {floor}\n")).unwrap();
    let (path, content) = files(&full_archive()).remove(0);
    let mut head = packed(&[(short(&path), content)], EntryType::Regular);
    let mut header = Header::from_byte_slice(&head[..512]).clone();
    header.set_size(size);
    header.set_cksum();
    head[..512].copy_from_slice(header.as_bytes());
    let mut long = Long { head: &head, at: 0, bytes: size + 2048 };
    let error = import(to.path(), &mut long, false).unwrap_err();
    assert!(error.to_string().contains("free-space floor"), "{error}");
    assert!(long.at < 1 << 20, "{} bytes were read", long.at);
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 1, "but the settings nothing is there");
}

#[test]
fn an_application_without_a_record_gets_no_folder() {
    let (from, to) = (root(), root());
    let stash = Stash::open_patiently(from.path(), &app()).unwrap();
    // None of these may be imported.
    put(stash.portable(), Kind::Module, &(module(1).0, module(2).1));
    let orphan = UseRecord { unix_ms: 1, sequence: 0, devices: RunDevices::ALL, run: 1 };
    put(stash.portable(), Kind::Use, &([2; 32], orphan.encode()));
    let device = stash.device(&header()).unwrap();
    put(&device, Kind::Artifact, &([1; 32], b"short".to_vec()));
    put(&device, Kind::Verified, &([1; 32], Vec::new()));
    drop((stash, device));
    let mut all = files(&archive(from.path(), &["portable", &device_folder()]));
    all.push((format!("{}/portable/x.vks", app().folder), b"none".repeat(100)));
    let many: Vec<_> = (0..50_u64)
        .flat_map(|number| {
            let folder = format!("g-{number:08x}-{number:08x}");
            all.iter().map(move |(path, content)| (path.replace(&app().folder, &folder), content.clone()))
        })
        .collect();
    let imported = import(to.path(), &*packed(&many, EntryType::Regular), true).unwrap();
    assert_eq!(imported.applications.len(), 50);
    assert!(imported.applications.values().all(|taken| taken.mismatched == 3 && taken.refused.len() == 1));
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0);
}

#[test]
fn a_file_that_is_not_an_archive_is_refused() {
    let to = root();
    for bytes in [&b""[..], &[0; 1024], b"PK\x03\x04 something else", &[7; 5000]] {
        let outcome = import(to.path(), bytes, false);
        assert!(matches!(outcome, Err(ImportError::Nothing | ImportError::Archive(_))), "{outcome:?}");
    }
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0);
}
