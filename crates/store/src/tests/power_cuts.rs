//! A machine that loses its power: nothing that was on the disk is lost.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::process::Command;

use crate::maintenance;
use crate::maintenance::clear::clear;
use crate::reports::model::RunReport;
use crate::reports::totals;
use crate::settings::CacheKinds;
use crate::tests::disk::power;
use crate::tests::maintenance::{one_run, set};
use crate::tests::processes::in_a_child;
use crate::tests::*;
use vkstash_host::disk::folder::{Folder, write_all_at};

/// Whether it is in the device part, its kind and its number.
type Record = (bool, Kind, u64);

const NUMBERS: std::ops::Range<u64> = 0..40;

fn contents(root: &Path) -> BTreeMap<Record, Vec<u8>> {
    let stash = open(root);
    let device = stash.device(&header()).unwrap();
    let kinds = [(false, Kind::Recipe), (false, Kind::Module), (true, Kind::Artifact)];
    let mut found = BTreeMap::new();
    for (of_device, kind) in kinds {
        let part = if of_device { &device } else { stash.portable() };
        for number in NUMBERS {
            let mut buffer = Vec::new();
            if part.read(kind, &key(number), &mut buffer) {
                found.insert((of_device, kind, number), buffer);
            }
        }
    }
    assert_eq!(stash.report().damaged_records, 0, "{:?}", stash.report());
    found
}

/// Puts an image into a folder.
fn lay_out(image: &power::Image, root: &Path) {
    for (path, content) in image {
        let path = root.join(path);
        match content {
            Some(content) => fs::write(path, content).unwrap(),
            None => DirBuilder::new().mode(0o700).recursive(true).create(path).unwrap(),
        }
    }
}

/// Some runs whose files are to be merged.
fn runs_before(root: &Path) {
    for number in 0..5 {
        one_run(root, |stash| {
            put_all(stash.portable(), Kind::Recipe, number * 3..number * 3 + 5);
            put_all(stash.portable(), Kind::Module, number * 3..number * 3 + 2);
            put_all(&stash.device(&header()).unwrap(), Kind::Artifact, number * 3..number * 3 + 5);
            note_use(stash, &key(number));
        });
    }
}

/// What was there before and is there after `work` was there all the time, whenever the power was cut.
fn nothing_is_lost(root: &Path, work: impl FnOnce(&Path)) {
    let before = contents(root);
    power::begin(root);
    work(root);
    let images = power::end();
    let after = contents(root);
    let stays: Vec<_> = before.keys().filter(|record| after.contains_key(record)).collect();
    assert!(stays.len() > 10 && images.len() > 10, "{} records, {} images", stays.len(), images.len());
    for image in &images {
        let copy = super::root();
        lay_out(image, copy.path());
        let there = contents(copy.path());
        for record in &stays {
            let payload = there.get(record);
            let is_whole = payload.is_some() && [before.get(record), after.get(record)].contains(&payload);
            assert!(is_whole, "{record:?} is lost: {:?}", image.keys());
        }
    }
    eprintln!("{} records stay, {} images", stays.len(), images.len());
}

#[test]
fn the_model_keeps_what_was_synced_only() {
    in_a_child("the_model_keeps_what_was_synced_only", &[], || {
        let root = root();
        let folder = Folder::root(root.path(), false).unwrap();
        fs::write(root.path().join("old"), "old").unwrap();
        power::begin(root.path());
        let (temporary, fd) = folder.create_temporary("new").unwrap();
        write_all_at(&fd, b"new", 0).unwrap();
        vkstash_host::disk::ops::renameat(&folder, &temporary, "new").unwrap();
        folder.remove_file("old").unwrap();
        folder.create_file("last").unwrap();
        let images = power::end();
        let has = |names: &[(&str, &str)]| {
            images.iter().any(|image| {
                let files =
                    image.iter().filter_map(|(path, bytes)| Some((path.to_str()?, bytes.as_deref()?)));
                files.eq(names.iter().map(|(name, bytes)| (*name, bytes.as_bytes())))
            })
        };
        // The data is lost, with the name or without; and what was removed is gone.
        assert!(has(&[("new", ""), ("old", "old")]) && has(&[("old", "old")]), "{images:?}");
        assert!(has(&[("new", "")]) && has(&[]) && !has(&[("new", "new")]), "{images:?}");
    });
}

#[test]
fn a_merge_loses_nothing() {
    in_a_child("a_merge_loses_nothing", &[], || {
        let root = root();
        runs_before(root.path());
        nothing_is_lost(root.path(), |root| {
            let outcome = maintenance::run(root, |_, _| {}).unwrap();
            assert!(outcome.written > 0, "{outcome:?}");
        });
    });
}

#[test]
fn a_merge_does_not_trust_what_another_process_has_not_synced() {
    in_a_child("a_merge_does_not_trust_what_another_process_has_not_synced", &[], || {
        for running in [false, true] {
            let root = root();
            runs_before(root.path());
            nothing_is_lost(root.path(), |root| {
                let stash = open(root);
                // Records with another content.
                NUMBERS.take(17).for_each(|number| {
                    assert!(stash.portable().put(Kind::Recipe, &key(number), noise(number, 300)));
                });
                stash.flush(LONG);
                let stash = Some(stash).filter(|_| running);
                let outcome = maintenance::run(root, |_, _| {}).unwrap();
                assert!(outcome.freed > 0, "{outcome:?}");
                drop(stash);
            });
        }
    });
}

#[test]
fn a_merge_at_the_end_of_a_program_loses_nothing() {
    in_a_child("a_merge_at_the_end_of_a_program_loses_nothing", &[], || {
        let root = root();
        (0..7).for_each(|number| {
            one_run(root.path(), |stash| put_all(stash.portable(), Kind::Recipe, number * 3..number * 3 + 5));
        });
        assert_eq!(segments(root.path()).len(), 7);
        nothing_is_lost(root.path(), |root| {
            one_run(root, |stash| put_all(stash.portable(), Kind::Recipe, 30..35));
            assert!(segments(root).len() < 7);
        });
    });
}

#[test]
fn clearing_loses_nothing_of_other_kinds() {
    in_a_child("clearing_loses_nothing_of_other_kinds", &[], || {
        let root = root();
        runs_before(root.path());
        nothing_is_lost(root.path(), |root| {
            let cleared = clear(root, None, CacheKinds::CONVERSIONS).unwrap();
            assert!(cleared.records > 0, "{cleared:?}");
        });
    });
}

#[test]
fn eviction_loses_nothing_else() {
    in_a_child("eviction_loses_nothing_else", &[], || {
        let root = root();
        runs_before(root.path());
        nothing_is_lost(root.path(), |root| {
            set(root, "limit = 14KiB\nfree-space = 1");
            let outcome = maintenance::run(root, |_, _| {}).unwrap();
            assert!(outcome.evicted_records > 0, "{outcome:?}");
        });
    });
}

#[test]
fn folding_loses_no_report() {
    in_a_child("folding_loses_no_report", &[], || {
        let root = root();
        for number in 0..100 {
            let application = number.to_string();
            // No process has this number.
            let run =
                RunReport { application, pid: 0x7fff_ffff, started_unix_ms: number, ..RunReport::default() };
            write_report(root.path(), &run);
        }
        power::begin(root.path());
        totals::fold(&Folder::shared(root.path(), false).unwrap()).unwrap();
        let images = power::end();
        assert!(files(root.path(), "vkr").len() < 65 && images.len() > 30, "{} images", images.len());
        for image in &images {
            let copy = super::root();
            lay_out(image, copy.path());
            assert_eq!(totals::read(copy.path()).runs, 100, "{:?}", image.keys());
        }
    });
}

/// An ext4 file system in a file.
struct Mounted {
    image: PathBuf,
    folder: PathBuf,
}

impl Mounted {
    /// None: this user or this machine cannot do that.
    fn new(image: PathBuf, folder: PathBuf) -> Option<Mounted> {
        fs::create_dir(&folder).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "ext4", "-o", "loop"]).args([&image, &folder]);
        let is_mounted = mount.output().is_ok_and(|output| output.status.success());
        is_mounted.then_some(Mounted { image, folder })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.folder).output();
    }
}

#[test]
fn a_merge_at_the_end_of_a_program_loses_nothing_on_ext4() {
    let test = "a_merge_at_the_end_of_a_program_loses_nothing_on_ext4";
    let place = root();
    let image = place.path().join("image");
    File::create(&image).unwrap().set_len(32 << 20).unwrap();
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
    let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image).env("PATH", path).output();
    let mounted = made.is_ok_and(|made| made.status.success());
    let mounted = mounted.then(|| Mounted::new(image, place.path().join("disk"))).flatten();
    let Some(Mounted { image, folder }) = &mounted else {
        return crate::skip::not_here(test, "no right to mount a file system");
    };
    let stash = folder.join("stash");
    for number in 0..7 {
        one_run(&stash, |stash| put_all(stash.portable(), Kind::Recipe, number * 3..number * 3 + 5));
    }
    rustix::fs::syncfs(File::open(folder).unwrap()).unwrap();
    one_run(&stash, |stash| put_all(stash.portable(), Kind::Recipe, 30..35));
    assert!(segments(&stash).len() < 7);
    // Makes the file system write its journal, which it does every few seconds, too.
    File::create(folder.join("other")).unwrap().sync_all().unwrap();
    let after = place.path().join("after");
    fs::copy(image, &after).unwrap();
    let after = Mounted::new(after, place.path().join("disk after")).unwrap();
    assert_eq!(count_good(open(&after.folder.join("stash")).portable(), Kind::Recipe, 0..23), 23);
}
