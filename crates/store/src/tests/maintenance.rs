//! Merging and eviction, also while others read.

use std::collections::HashSet;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Instant, SystemTime};

use rustix::io::Errno;

use crate::format::codec::Codec;
use crate::format::file::{FileHeader, PartIdentity};
use crate::format::footer::encode_end;
use crate::format::record_header::{Stored, encode_record};
use crate::format::sizes::FIRST_RECORD;
use crate::format::table::Row;
use crate::maintenance;
use crate::maintenance::outcome::Outcome;
use crate::maintenance::work::Work;
use crate::segment::file::MAX_OPEN;
use crate::tests::disk::faults::{self, Plan};
use crate::tests::processes::in_a_child;
use crate::tests::*;
use vkstash_host::disk::faults::{Fault, Op};
use vkstash_host::disk::folder::Folder;
use vkstash_model::variables::CONFIG_FILE;

/// In these tests the payload of a recipe is the identities of its modules.
fn modules_of(recipe: &[u8], each: &mut dyn FnMut(&Key)) {
    recipe.chunks_exact(32).for_each(|key| each(key.try_into().unwrap()));
}

pub(super) fn run(root: &Path) -> Outcome {
    maintenance::run(root, modules_of).unwrap()
}

pub(super) fn set(root: &Path, text: &str) {
    fs::create_dir_all(root).unwrap();
    // The values are sizes, counts and words.
    let lines = text.lines().filter_map(|line| line.split_once(" = "));
    let lines: String = lines.map(|(name, value)| format!("{name} = '{value}'\n")).collect();
    fs::write(root.join(CONFIG_FILE), lines).unwrap();
}

/// One run: what it does, and a segment of its own in each part that it writes to. Nothing is merged when it ends.
pub(super) fn one_run(root: &Path, does: impl FnOnce(&Stash)) {
    let stash = open(root);
    does(&stash);
    stash.flush(LONG);
    drop(stash);
}

pub(super) fn device_files(root: &Path, header: &DeviceHeader) -> Vec<PathBuf> {
    files(&root.join(app().folder).join(format!("device-{}", header.short_digest())), "vks")
}

pub(super) fn bytes_below(root: &Path) -> u64 {
    let folders = fs::read_dir(root.join(app().folder)).unwrap().map(|entry| entry.unwrap().path());
    folders.flat_map(|folder| files(&folder, "vks")).map(|file| file.metadata().unwrap().len()).sum()
}

#[test]
fn many_runs_become_few_segments_and_nothing_is_lost() {
    let root = root();
    let reader = open(root.path());
    let device = reader.device(&header()).unwrap();
    for number in 0..40 {
        one_run(root.path(), |stash| {
            put_all(stash.portable(), Kind::Recipe, number * 10..number * 10 + 10);
            put_all(&stash.device(&header()).unwrap(), Kind::Artifact, number * 10..number * 10 + 10);
        });
        // A reader that has files open which will be merged.
        count_good(reader.portable(), Kind::Recipe, 0..number * 10);
    }
    let before = segments(root.path()).len();
    assert!(before < 16, "runs that end merge what there is too much of: {before}");
    run(root.path());
    for (part, kind, files) in [
        (reader.portable(), Kind::Recipe, segments(root.path())),
        (&device, Kind::Artifact, device_files(root.path(), &header())),
    ] {
        assert!(files.len() < 8, "{files:?}");
        await_that("what was merged is found", || count_good(part, kind, 0..401) == 400);
        assert_eq!(part.len(kind), 400);
    }
    let late = open(root.path());
    assert_eq!(count_good(late.portable(), Kind::Recipe, 0..401), 400);
    assert_eq!((late.report().damaged_records, late.report().refused.len()), (0, 0));
}

/// Closes a stash, and waits for its writer even if the stash does not.
fn close(stash: Arc<Stash>) {
    let portable = Arc::downgrade(stash.portable());
    drop(stash);
    await_that("the writer has ended", || portable.strong_count() == 0);
}

#[test]
fn a_process_that_ends_leaves_long_maintenance_to_the_next() {
    let root = root();
    let end = |end: Duration, number: u64| {
        let stash = open_within(root.path(), WaitLimits { end, ..WaitLimits::UNLIMITED });
        put_all(stash.portable(), Kind::Recipe, number * 10..number * 10 + 10);
        close(stash);
        segments(root.path()).len() as u64
    };
    let runs = 20;
    (0..runs).for_each(|number| assert_eq!(end(Duration::ZERO, number), number + 1, "no time to merge"));
    assert!(end(LONG, runs) < 8, "{}", segments(root.path()).len());
    let all = (runs + 1) * 10;
    assert_eq!(count_good(open(root.path()).portable(), Kind::Recipe, 0..all), all);
}

static HELD: AtomicBool = AtomicBool::new(true);

/// Reading a recipe takes as long as the test wants.
fn held(_: &[u8], _: &mut dyn FnMut(&Key)) {
    while HELD.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn nobody_waits_for_a_merge_that_does_not_end() {
    let root = root();
    (0..9).for_each(|number| {
        let waits = WaitLimits { end: Duration::ZERO, ..WaitLimits::UNLIMITED };
        let stash = open_within(root.path(), waits);
        put_all(stash.portable(), Kind::Recipe, number * 10..number * 10 + 10);
        close(stash);
    });
    set(root.path(), "modules = 1");
    let stash = Stash::open(root.path(), &app()).unwrap();
    stash.set_modules_of(held);
    put_all(stash.portable(), Kind::Recipe, 90..100);
    let portable = Arc::downgrade(stash.portable());
    // Without a limit it would wait for ever.
    drop(stash);
    assert!(HELD.swap(false, Ordering::SeqCst));
    await_that("the writer has ended", || portable.strong_count() == 0);
    assert_eq!(count_good(open(root.path()).portable(), Kind::Recipe, 0..100), 100);
}

#[test]
fn superseded_records_are_removed_and_the_newest_stays() {
    let root = root();
    for round in 0..8_u8 {
        one_run(root.path(), |stash| {
            for number in 0..40 {
                let payload = vec![round; 9000].into_boxed_slice();
                assert!(stash.device(&header()).unwrap().put(Kind::Artifact, &key(number), payload));
            }
        });
    }
    let outcome = run(root.path());
    assert_eq!(outcome.evicted_records, 0);
    let left: u64 =
        device_files(root.path(), &header()).iter().map(|file| file.metadata().unwrap().len()).sum();
    assert!(left < 3 * 40 * 9100, "{left} bytes left: {outcome:?}");
    let stash = open(root.path());
    let (part, mut buffer) = (stash.device(&header()).unwrap(), Vec::new());
    for number in 0..40 {
        assert!(part.read(Kind::Artifact, &key(number), &mut buffer));
        assert!(buffer.iter().all(|&byte| byte == 7));
    }
}

#[test]
fn a_limit_evicts_what_was_used_longest_ago_and_says_so() {
    let root = root();
    for number in 0..10 {
        one_run(root.path(), |stash| {
            let device = stash.device(&header()).unwrap();
            for record in number * 20..number * 20 + 20 {
                assert!(device.put(Kind::Artifact, &key(record), noise(record, 9000)));
            }
            // The first ones are used in every run.
            (0..20).for_each(|record| assert!(stash.note_taken(&DeviceUses::of(0), &device, &key(record))));
            (number * 20..number * 20 + 20).for_each(|record| note_use(stash, &key(record)));
        });
    }
    let before = bytes_below(root.path());
    set(root.path(), "limit = 1MiB\n");
    let outcome = run(root.path());
    let after = bytes_below(root.path());
    assert!(before > 1 << 20 && after <= 1 << 20, "{before} {after} {outcome:?}");
    assert!(outcome.evicted_records > 60 && outcome.evicted_bytes["total_limit"] > 60 * 9000, "{outcome:?}");
    assert_eq!(outcome.freed - outcome.written, before - after, "{outcome:?}");
    let stash = open(root.path());
    let device = stash.device(&header()).unwrap();
    let there = |record| device.contains(Kind::Artifact, &key(record));
    assert!((0..20).all(there), "used in the last run");
    assert!((180..200).all(there), "written in the last run");
    assert!(!(20..60).any(there), "never used since the first runs");
    assert!((0..20).all(|record| device.contains(Kind::Verified, &key(record))));
    drop((device, stash));
    // The next maintenance has nothing to do.
    assert_eq!(run(root.path()).evicted_records, 0);
}

#[test]
fn an_application_has_a_limit_of_its_own() {
    let root = root();
    let other = AppName::new(Some(b"other"), b"/bin/other");
    for application in [app(), other.clone()] {
        let stash = Stash::open_patiently(root.path(), &application).unwrap();
        let device = stash.device(&header()).unwrap();
        for record in 0..100 {
            assert!(device.put(Kind::Artifact, &key(record), noise(record, 9000)));
        }
    }
    let of_other = format!("\n[application.{}]\nlimit = '300KiB'\n", other.folder);
    let all = fs::read_to_string(root.path().join(CONFIG_FILE)).unwrap_or_default();
    fs::write(root.path().join(CONFIG_FILE), all + &of_other).unwrap();
    let outcome = run(root.path());
    assert!(outcome.evicted_bytes["application_limit"] > 500_000, "{outcome:?}");
    let count = |application: &AppName| {
        let stash = Stash::open_patiently(root.path(), application).unwrap();
        let device = stash.device(&header()).unwrap();
        (0..100).filter(|&record| device.contains(Kind::Artifact, &key(record))).count()
    };
    assert_eq!(count(&app()), 100);
    assert!((15..40).contains(&count(&other)));
}

#[test]
fn nothing_is_evicted_if_the_settings_cannot_be_read() {
    let root = root();
    set(root.path(), "limit = 1KiB\n");
    one_run(root.path(), |stash| put_all(stash.portable(), Kind::Recipe, 0..50));
    fs::remove_file(root.path().join(CONFIG_FILE)).unwrap();
    std::os::unix::fs::symlink("elsewhere", root.path().join(CONFIG_FILE)).unwrap();
    assert_eq!(run(root.path()), Outcome::default());
    fs::remove_file(root.path().join(CONFIG_FILE)).unwrap();
    set(root.path(), "limit = 1KiB\n");
    assert!(run(root.path()).evicted_records > 0);
}

/// Makes a folder look as if it was used last that long ago.
fn unused_for(folder: &Path, time: Duration) {
    let then = SystemTime::now() - time;
    fs::File::open(folder).unwrap().set_modified(then).unwrap();
    for file in files(folder, "vks") {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let age = then.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
        fs::rename(&file, folder.join(format!("{age:016x}{}", &name[16..]))).unwrap();
    }
    fs::File::open(folder).unwrap().set_modified(then).unwrap();
}

#[test]
fn parts_of_a_driver_that_is_gone_expire_and_the_present_one_stays() {
    let root = root();
    let old = DeviceHeader { driver_version: 1, ..header() };
    let other_gpu = DeviceHeader { device_id: 2, ..header() };
    for header in [&old, &other_gpu, &header()] {
        one_run(root.path(), |stash| put_all(&stash.device(header).unwrap(), Kind::Artifact, 0..50));
    }
    let folder = |header: &DeviceHeader| {
        root.path().join(app().folder).join(format!("device-{}", header.short_digest()))
    };
    let day = Duration::from_secs(24 * 60 * 60);
    unused_for(&folder(&old), 100 * day);
    unused_for(&folder(&other_gpu), 100 * day);
    assert_eq!(run(root.path()).evicted_bytes.len(), 0, "a rollback is possible for half a year");
    set(root.path(), "device-age = 99\n");
    // The other device was not used for as long. It counts as gone only when the application was used with this one for
    // longer than that.
    unused_for(&folder(&other_gpu), 98 * day);
    let outcome = run(root.path());
    assert_eq!(outcome.evicted_records, 50, "{outcome:?}");
    assert!(outcome.evicted_bytes["expired"] > 0);
    assert!(!folder(&old).exists() || files(&folder(&old), "vks").is_empty());
    assert_eq!(device_files(root.path(), &other_gpu).len(), 1);
    assert_eq!(device_files(root.path(), &header()).len(), 1);
    let stash = open(root.path());
    assert_eq!(count_good(&stash.device(&header()).unwrap(), Kind::Artifact, 0..50), 50);
    assert_eq!(count_good(&stash.device(&old).unwrap(), Kind::Artifact, 0..50), 0);
}

#[test]
fn modules_are_kept_as_their_policy_says() {
    let module = |number: u64| vec![number as u8; 20_000 + number as usize].into_boxed_slice();
    for (policy, kept) in [("all", 0..6), ("none", 0..0), ("2", 4..6)] {
        let root = root();
        set(root.path(), &format!("modules = {policy}\n"));
        for number in 0..6 {
            one_run(root.path(), |stash| {
                // A record of the run, so that its number is known.
                stash.set_reporter(Box::new({
                    let started = vkstash_host::util::unix_ms();
                    move |store| crate::reports::model::RunReport {
                        started_unix_ms: started,
                        store,
                        ..crate::reports::model::RunReport::default()
                    }
                }));
                assert!(stash.portable().put(Kind::Module, &key(number), module(number)));
                assert!(stash.portable().put(Kind::Recipe, &key(100 + number), key(number).into()));
                note_use(stash, &key(100 + number));
                stash.touch();
                std::thread::sleep(Duration::from_millis(3));
            });
        }
        // Enough dead records to make a merge worthwhile.
        set(root.path(), &format!("modules = {policy}\nlimit = 100KiB\n"));
        let outcome = run(root.path());
        let stash = open(root.path());
        let there: HashSet<u64> =
            (0..6).filter(|&number| stash.portable().contains(Kind::Module, &key(number))).collect();
        if policy == "all" {
            assert_eq!(there, kept.collect(), "{policy}: {outcome:?}");
            continue;
        }
        let metas = there.iter().copied().collect::<Vec<_>>();
        assert!(kept.clone().all(|number| there.contains(&number)), "{policy}: {metas:?} {outcome:?}");
        assert_eq!(count(&stash, Kind::Recipe), 6, "recipes stay");
        let evicted = outcome.evicted_bytes.get("module_policy").copied().unwrap_or(0);
        assert_eq!(evicted > 0, there.len() < 6, "{policy}: {outcome:?}");
    }
}

fn count(stash: &Stash, kind: Kind) -> usize {
    stash.portable().len(kind)
}

#[test]
fn a_use_keeps_its_run_when_its_segment_is_merged() {
    let root = root();
    for number in 0..5 {
        one_run(root.path(), |stash| {
            (0..2).for_each(|use_| note_use(stash, &key(number * 10 + use_)));
        });
    }
    let noted = || {
        let mut noted = open(root.path()).noted_uses(&|| false).unwrap();
        noted.sort();
        noted
    };
    let before = noted();
    assert!(before.is_sorted_by_key(|used| used.run));
    assert_eq!(before.chunk_by(|one, next| one.run == next.run).count(), 5);
    run(root.path());
    assert_eq!(segments(root.path()).len(), 1);
    assert_eq!(noted(), before);
}

#[test]
fn records_of_unknown_kinds_survive_merging() {
    let root = root();
    one_run(root.path(), |stash| put_all(stash.portable(), Kind::Recipe, 0..3));
    let folder = root.path().join(app().folder).join("portable");
    for file in 0..4_u64 {
        let header = FileHeader { identity: PartIdentity::Portable, created_unix_ms: 1, serial: file };
        let (mut records, tag) = (Vec::new(), header.identity.tag());
        let mut rows = Vec::new();
        // An unknown kind, twice under one key.
        let unknown = Stored::plain(b"from the future");
        rows.push(Row::of(&encode_record(
            &mut records,
            FIRST_RECORD as u64,
            tag,
            99,
            &key(file % 2),
            unknown,
        )));
        let payload = payload(10 + file);
        let known = Stored::plain(&payload);
        let entry =
            encode_record(&mut records, FIRST_RECORD as u64, tag, Kind::Recipe as u8, &key(10 + file), known);
        rows.push(Row::of(&entry));
        let mut bytes = header.encode().to_vec();
        bytes.resize(FIRST_RECORD, 0);
        bytes.extend_from_slice(&records);
        bytes.extend_from_slice(&encode_end(&header, (FIRST_RECORD + records.len()) as u64, &rows));
        fs::write(folder.join(format!("{file:016x}-00000001-{file:016x}.vks")), bytes).unwrap();
    }
    run(root.path());
    assert_eq!(segments(root.path()).len(), 1);
    let all: Vec<u8> = segments(root.path()).iter().flat_map(|file| fs::read(file).unwrap()).collect();
    let kept = all.windows(15).filter(|bytes| bytes == b"from the future").count();
    assert_eq!(kept, 4);
    let stash = open(root.path());
    assert_eq!(count_good(stash.portable(), Kind::Recipe, 10..14), 4);
}

#[test]
fn a_damaged_record_gives_way_to_the_one_that_it_superseded() {
    let root = root();
    for round in 1..=4_u8 {
        one_run(root.path(), |stash| {
            for number in 0..4 {
                let payload = vec![round * 16 + number as u8; 500].into_boxed_slice();
                assert!(stash.device(&header()).unwrap().put(Kind::Artifact, &key(number), payload));
            }
        });
    }
    let newest = device_files(root.path(), &header()).pop().unwrap();
    let mut bytes = fs::read(&newest).unwrap();
    let at = bytes.windows(100).position(|window| window == [4 * 16 + 2; 100]).unwrap();
    bytes[at + 50] ^= 1;
    fs::write(&newest, bytes).unwrap();
    run(root.path());
    assert!(device_files(root.path(), &header()).len() <= 2);
    let stash = open(root.path());
    let (part, mut buffer) = (stash.device(&header()).unwrap(), Vec::new());
    for number in 0..4 {
        assert!(part.read(Kind::Artifact, &key(number), &mut buffer));
        let round = if number == 2 { 3 } else { 4 };
        assert_eq!(buffer, vec![round * 16 + number as u8; 500]);
    }
}

#[test]
fn an_interrupted_merge_leaves_everything_as_it_was() {
    for stop_after in 0..60 {
        let root = root();
        for number in 0..5 {
            one_run(root.path(), |stash| {
                put_all(stash.portable(), Kind::Recipe, number * 10..number * 10 + 10)
            });
        }
        let asked = AtomicU32::new(0);
        let interrupted = || asked.fetch_add(1, Ordering::Relaxed) >= stop_after;
        let folder = Arc::new(Folder::root(root.path(), false).unwrap());
        let progress = &|_, _| {};
        let work =
            Work { application: None, at_shutdown: false, interrupted: &interrupted, progress, modules_of };
        maintenance::run::maintain(&folder, &work);
        let stopped = asked.load(Ordering::Relaxed) > stop_after;
        assert_eq!(segments(root.path()).len(), if stopped { 5 } else { 1 }, "{stop_after}");
        let temporary = fs::read_dir(segments(root.path())[0].parent().unwrap()).unwrap();
        assert!(!temporary.into_iter().any(|e| e.unwrap().file_name().to_str().unwrap().starts_with(".tmp")));
        let stash = open(root.path());
        assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..50), 50);
    }
}

/// Parts that were not read would be evicted whole.
#[test]
fn maintenance_that_is_interrupted_evicts_nothing_that_it_has_not_read() {
    for stop_at in 0..12 {
        let root = root();
        for name in ["one", "two"] {
            let application = AppName::new(Some(name.as_bytes()), b"/bin/any");
            let stash = Stash::open_patiently(root.path(), &application).unwrap();
            let device = stash.device(&header()).unwrap();
            for record in 0..100 {
                assert!(device.put(Kind::Artifact, &key(record), noise(record, 9000)));
            }
        }
        set(root.path(), "limit = 1700KiB\n");
        let asked = AtomicU32::new(0);
        let interrupted = || asked.fetch_add(1, Ordering::Relaxed) == stop_at;
        let folder = Arc::new(Folder::root(root.path(), false).unwrap());
        let progress = &|_, _| {};
        let work =
            Work { application: None, at_shutdown: false, interrupted: &interrupted, progress, modules_of };
        let outcome = maintenance::run::maintain(&folder, &work);
        assert!(outcome.evicted_records < 40, "{stop_at}: {outcome:?}");
        for name in ["one", "two"] {
            let application = AppName::new(Some(name.as_bytes()), b"/bin/any");
            let stash = Stash::open_patiently(root.path(), &application).unwrap();
            let device = stash.device(&header()).unwrap();
            let left = (0..100).filter(|&record| device.contains(Kind::Artifact, &key(record))).count();
            assert!(left > 50, "{stop_at} {name}: {left} left");
        }
    }
}

#[test]
fn a_reader_misses_nothing_while_others_write_and_merge() {
    let root = root();
    let written = std::sync::atomic::AtomicU64::new(0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..120 {
                one_run(root.path(), |stash| {
                    put_all(stash.portable(), Kind::Recipe, number * 20..number * 20 + 20);
                });
                written.store(number * 20 + 20, Ordering::SeqCst);
            }
            done.store(true, Ordering::SeqCst);
        });
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                run(root.path());
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let stash = open(root.path());
                let began = Instant::now();
                while !done.load(Ordering::SeqCst) && began.elapsed() < LONG / 10 {
                    let there = written.load(Ordering::SeqCst);
                    // What is known to be there is found at once, or with a later look: the next one comes after
                    // 100 ms, and on a busy machine it may leave files to the helper.
                    let is_found = || count_good(stash.portable(), Kind::Recipe, 0..there) == there;
                    await_that("what was written is found", is_found);
                }
                assert_eq!(stash.report().damaged_records, 0);
            });
        }
    });
    let stash = open(root.path());
    assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..2400), 2400);
}

/// A stash of several segments with so many recipes, none of which this process keeps open: it has so many others open
/// already.
fn several_segments() -> (TempDir, u64, Vec<Arc<Stash>>) {
    let root = root();
    let kept = (0..MAX_OPEN).map(|number| {
        one_run(root.path(), |stash| put_all(stash.portable(), Kind::Module, 0..1));
        let stash = open(root.path());
        assert_eq!(count_good(stash.portable(), Kind::Module, 0..1), 1, "{number}");
        stash
    });
    let kept = kept.collect();
    for number in 0..5 {
        one_run(root.path(), |stash| put_all(stash.portable(), Kind::Recipe, number * 3..number * 3 + 3));
    }
    (root, 15, kept)
}

/// The recipes that are listed, each once, and whether that is all.
fn listed(part: &Part) -> (u64, bool) {
    let mut keys = HashSet::new();
    let is_whole = part.for_each(Kind::Recipe, &mut |key, _| assert!(keys.insert(*key)));
    (keys.len() as u64, is_whole)
}

#[test]
fn what_others_have_merged_away_is_neither_damaged_nor_missing() {
    in_a_child("what_others_have_merged_away_is_neither_damaged_nor_missing", &[], || {
        let (root, count, _kept) = several_segments();
        let stashes = [(); 4].map(|()| open(root.path()));
        let [lists, lists_by_index, reads, reads_by_index] = stashes.each_ref().map(|stash| stash.portable());
        // Looks into all indexes, which stay in memory.
        assert!([lists_by_index, reads_by_index].iter().all(|part| part.contains(Kind::Recipe, &key(0))));
        assert!([lists, reads].iter().all(|part| part.has_any(Kind::Recipe)));
        assert!(run(root.path()).freed > 0);
        for part in [lists, lists_by_index] {
            assert_eq!(listed(part), (count, true));
        }
        for part in [reads, reads_by_index] {
            let reads_all = || count_good(part, Kind::Recipe, 0..count) == count;
            await_that("a later look finds them", reads_all);
        }
        assert!(stashes.iter().all(|stash| stash.report().damaged_records == 0));
    });
}

/// A program at its limit of descriptors.
#[test]
fn what_cannot_be_read_for_now_is_not_damaged() {
    in_a_child("what_cannot_be_read_for_now_is_not_damaged", &[], || {
        let (root, count, _kept) = several_segments();
        for n in 1..12 {
            let stash = open(root.path());
            let part = stash.portable();
            assert!(part.has_any(Kind::Recipe));
            let fault = Fault::Error(Errno::MFILE);
            faults::begin(Plan::Nth { fault, op: Some(Op::Open), n, on: true });
            let (found, is_whole) = listed(part);
            let good = count_good(part, Kind::Recipe, 0..count);
            assert!(!faults::end().is_empty(), "{n}");
            assert_eq!(is_whole, found == count, "{n}: {found}");
            assert!(good < count, "{n}: {good}");
            assert_eq!(stash.report().damaged_records, 0, "{n}");
            assert_eq!(listed(part), (count, true), "{n}");
            assert_eq!(count_good(part, Kind::Recipe, 0..count), count, "{n}");
        }
    });
}

#[test]
fn modules_that_were_written_uncompressed_are_compressed_when_they_are_merged() {
    let root = root();
    one_run(root.path(), |stash| put_all(stash.portable(), Kind::Recipe, 0..1));
    let folder = root.path().join(app().folder).join("portable");
    let words = |number: u64| -> Vec<u8> {
        (0..5000_u32).flat_map(|at| (at % 7 + number as u32).to_le_bytes()).collect()
    };
    for file in 0..4_u64 {
        let identity = PartIdentity::Portable;
        let header = FileHeader { identity, created_unix_ms: 1, serial: file };
        let mut bytes = header.encode().to_vec();
        bytes.resize(FIRST_RECORD, 0);
        let tag = header.identity.tag();
        let payload = words(file);
        let entry =
            encode_record(&mut bytes, 0, tag, Kind::Module as u8, &key(file), Stored::plain(&payload));
        assert_eq!(entry.codec, Codec::Plain.number());
        let end = bytes.len() as u64;
        bytes.extend_from_slice(&encode_end(&header, end, &[Row::of(&entry)]));
        fs::write(folder.join(format!("{file:016x}-00000001-{file:016x}.vks")), bytes).unwrap();
    }
    run(root.path());
    assert!(bytes_below(root.path()) < 30_000, "of 80,000");
    let stash = open(root.path());
    let mut buffer = Vec::new();
    for file in 0..4 {
        assert!(stash.portable().read(Kind::Module, &key(file), &mut buffer));
        assert_eq!(buffer, words(file));
    }
}

/// One read of the disk brings what a program needs next.
#[test]
fn a_packed_stash_has_one_file_a_part_in_the_order_of_the_first_use() {
    let root = root();
    let order = [4, 2, 0, 3, 1];
    for numbers in [0..3, 3..5] {
        one_run(root.path(), |stash| {
            let device = stash.device(&header()).unwrap();
            numbers.for_each(|number| assert!(device.put(Kind::Artifact, &key(number), noise(number, 900))));
        });
    }
    one_run(root.path(), |stash| order.iter().for_each(|&number| note_use(stash, &key(number))));
    crate::maintenance::pack::pack(root.path()).unwrap();
    let device = open(root.path()).device(&header()).unwrap();
    let files: Vec<_> = device.folder().unwrap().all_names().unwrap();
    let [segment] = &files[..] else { panic!("{files:?}") };
    let bytes = std::fs::read(device.folder().unwrap().path().join(segment)).unwrap();
    let place = |number: &u64| bytes.windows(900).position(|window| *window == *noise(*number, 900)).unwrap();
    let places: Vec<usize> = order.iter().map(place).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert_eq!(order.map(|number| device.contains(Kind::Artifact, &key(number))), [true; 5]);
}
