//! Failing file operations in what the store does now and then: merging, folding, sealing, making a file, and a single
//! write.

use crate::format::file::PartIdentity;
use crate::format::sizes::FIRST_RECORD;
use crate::reports::totals;
use crate::segment::append::Appender;
use crate::segment::append::{Payload, RecordId};
use crate::segment::load;
use crate::segment::load::State;
use crate::tests::faults::*;
use vkstash_host::disk::folder::Folder;

/// Files of several runs, in which records take each other's place and which are to be merged.
fn many_files(root: &Path) -> Vec<Record> {
    for number in 0..5 {
        let stash = open(root);
        put_all(stash.portable(), Kind::Recipe, number * 3..number * 3 + 5);
        put_all(&stash.device(&header()).unwrap(), Kind::Artifact, number * 3..number * 3 + 5);
        note_use(&stash, &key(number));
        stash.flush(LONG);
        drop(stash);
    }
    let kinds = [(false, Kind::Recipe), (true, Kind::Artifact)];
    kinds.iter().flat_map(|&(part, kind)| (0..17).map(move |number| (part, kind, number))).collect()
}

#[test]
fn merging_and_eviction_may_fail_at_every_call() {
    in_a_child("merging_and_eviction_may_fail_at_every_call", &[], || {
        say_the_plan();
        let model = root();
        let all = many_files(model.path());
        let began = std::time::Instant::now();
        // What is free is looked at in any case; only the second of these asks for evictions.
        for (settings, evicts) in [("free-space = 1\n", false), ("limit = '8KiB'\nfree-space = 1\n", true)] {
            for fault in every_fault() {
                let mut iterations = 0;
                for plan in each_call(fault, false, step(fault)) {
                    let root = root();
                    copy(model.path(), root.path());
                    fs::write(root.path().join("config.toml"), settings).unwrap();
                    SAY.with(|say| *say.borrow_mut() = format!("{settings:?} {plan:?}"));
                    faults::begin(plan);
                    let outcome = maintenance::run(root.path(), |_, _| {}).unwrap_or_default();
                    let hit = faults::end();
                    let there = read(&open(root.path()), &all) as u64;
                    assert!(
                        there + outcome.evicted_records >= all.len() as u64,
                        "{there} {hit:?} {outcome:?}"
                    );
                    if !evicts {
                        assert_eq!(outcome.evicted_records, 0, "{outcome:?}");
                        check(root.path(), &all);
                    }
                    if hit.is_empty() {
                        assert_eq!(outcome.evicted_records > 0, evicts, "{outcome:?}");
                        break;
                    }
                    iterations += 1;
                }
                assert!(iterations > 0, "{fault:?}");
                eprintln!("{settings:?} {fault:?}: {iterations} iterations, {:?}", began.elapsed());
            }
        }
    });
}

#[test]
fn folding_reports_may_fail_at_every_call() {
    in_a_child("folding_reports_may_fail_at_every_call", &[], || {
        say_the_plan();
        let model = root();
        let fold = |root: &Path| totals::fold(&Folder::shared(root, false).unwrap());
        for number in 0..90 {
            let application = number.to_string();
            // No process has this number.
            let run =
                RunReport { application, pid: 0x7fff_ffff, started_unix_ms: number, ..RunReport::default() };
            write_report(model.path(), &run);
            if number == 67 {
                fold(model.path()).unwrap();
            }
        }
        assert_eq!(totals::read(model.path()).runs, 90);
        for fault in every_fault() {
            let mut iterations = 0;
            for plan in each_call(fault, false, step(fault)) {
                let root = root();
                copy(model.path(), root.path());
                let folder = Folder::shared(root.path(), false).unwrap();
                SAY.with(|say| *say.borrow_mut() = format!("{plan:?}"));
                faults::begin(plan);
                let _ = totals::fold(&folder);
                let hit = faults::end();
                assert_eq!(totals::read(root.path()).runs, 90, "{hit:?}");
                fold(root.path()).unwrap();
                assert_eq!(totals::read(root.path()).runs, 90, "{hit:?}");
                assert!((48..=64).contains(&files(root.path(), "vkr").len()), "{hit:?}");
                if hit.is_empty() {
                    break;
                }
                iterations += 1;
            }
            eprintln!("{fault:?}: {iterations} iterations");
        }
    });
}

#[test]
fn a_file_of_a_dead_writer_is_not_sealed_while_it_cannot_be_read() {
    in_a_child("a_file_of_a_dead_writer_is_not_sealed_while_it_cannot_be_read", &[], || {
        say_the_plan();
        let built = build(60, 1000, false).bytes;
        let mut unreadable = 0;
        for (fault, n) in
            [Errno::IO, Errno::NOMEM].into_iter().flat_map(|fault| (1..40).map(move |n| (fault, n)))
        {
            let root = root();
            let file = with_a_file(root.path());
            fs::write(&file, &built).unwrap();
            let folder = Arc::new(Folder::root(file.parent().unwrap(), false).unwrap());
            let name = file.file_name().unwrap().to_str().unwrap();
            let plan = Plan::Nth { fault: Fault::Error(fault), op: Some(Op::Read), n, on: false };
            SAY.with(|say| *say.borrow_mut() = format!("{plan:?}"));
            faults::begin(plan);
            let loaded = load::load(&folder, name, Some(&PartIdentity::Portable));
            let hit = faults::end();
            if let Ok(loaded) = loaded {
                let whole = loaded.segment.known_rows().len() == 60;
                assert!(whole || loaded.state == State::Unreadable, "{:?}", loaded.state);
                assert!(!hit.is_empty() || loaded.state == State::Orphaned);
                unreadable += u64::from(loaded.state == State::Unreadable);
            }
            // Opened with the fault, and written to without it.
            faults::begin(plan);
            let stash = Stash::open(root.path(), &app());
            faults::end();
            if let Ok(stash) = stash {
                put_all(stash.portable(), Kind::DeviceConfiguration, 0..1);
                drop(stash);
            }
            let read = fs::read(&file).unwrap();
            assert!(read[FIRST_RECORD..].starts_with(&built[FIRST_RECORD..]), "nothing of it is cut off");
            assert_eq!(count_good(open(root.path()).portable(), Kind::Recipe, 0..60), 60);
        }
        assert!(unreadable > 2, "{unreadable}");
        eprintln!("{unreadable} times unreadable");
    });
}

#[test]
fn a_file_that_cannot_be_locked_is_not_made() {
    in_a_child("a_file_that_cannot_be_locked_is_not_made", &[], || {
        for error in ERRORS {
            let root = root();
            let folder = Folder::root(root.path(), false).unwrap();
            faults::begin(Plan::Nth { fault: Fault::Error(error), op: Some(Op::Lock), n: 1, on: false });
            let made = folder.create_locked("new");
            assert_eq!(faults::end().len(), 1);
            // What is only interrupted is tried again.
            assert_eq!(made.is_ok(), error == Errno::INTR, "{error}");
            let seen = folder.open_file("new");
            assert_eq!(
                seen.is_ok_and(|(seen, _)| vkstash_host::disk::locks::is_locked(&seen)),
                made.is_ok(),
                "{error}"
            );
            assert_eq!(folder.all_names().unwrap().len(), usize::from(made.is_ok()), "{error}");
        }
    });
}

#[test]
fn what_a_failed_write_has_left_is_cut_off() {
    in_a_child("what_a_failed_write_has_left_is_cut_off", &[], || {
        let root = root();
        let folder = Arc::new(Folder::root(root.path(), false).unwrap());
        let mut appender = Appender::create(folder, PartIdentity::Portable, 1).unwrap();
        let length = || fs::metadata(&files(root.path(), "vks")[0]).unwrap().len();
        let item =
            |number| (RecordId { kind: Kind::Recipe, key: key(number) }, Arc::new(Payload(payload(number))));
        for fault in TORN {
            let before = length();
            let plan = Plan::Nth { fault, op: Some(Op::Write), n: 1, on: false };
            faults::begin(plan);
            let (locations, bytes, outcome) = appender.append(&[item(1), item(2)], false);
            assert_eq!(faults::end().len(), 1);
            assert!(outcome.is_err() && locations.is_empty() && bytes == 0, "{fault:?}");
            assert_eq!(length(), before, "{fault:?}");
            appender.append(&[item(3)], false).2.unwrap();
        }
    });
}
