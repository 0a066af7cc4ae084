//! Records are read as they were put.

use crate::tests::*;
use vkstash_model::background_mode::BackgroundMode;
use vkstash_model::budgets::QUEUED;
use vkstash_model::record::{RunDevices, UseRecord};
use vkstash_model::variables::CONFIG_FILE;

#[test]
fn a_record_can_be_read_before_and_after_it_is_written_and_after_reopening() {
    let root = root();
    let stash = open(root.path());
    let device = stash.device(&header()).unwrap();
    put_all(stash.portable(), Kind::Recipe, 0..300);
    put_all(&device, Kind::Artifact, 0..300);
    assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..301), 300);
    stash.flush(LONG);
    assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..301), 300);
    assert_eq!(count_good(&device, Kind::Artifact, 0..301), 300);
    assert_eq!(stash.report().written_records, 600);
    drop((stash, device));

    let stash = open(root.path());
    let device = stash.device(&header()).unwrap();
    assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..301), 300);
    assert_eq!(count_good(&device, Kind::Artifact, 0..301), 300);
    assert_eq!((stash.portable().len(Kind::Recipe), device.len(Kind::Artifact)), (300, 300));
    assert!(!device.contains(Kind::Recipe, &key(0)));
    assert_eq!(stash.report().damaged_records, 0);
}

#[test]
fn the_newest_record_of_a_key_counts() {
    let root = root();
    for round in 0..3u8 {
        let stash = open(root.path());
        let part = stash.portable();
        for value in [round * 2, round * 2 + 1] {
            assert!(part.put(Kind::DeviceConfiguration, &key(1), Box::new([value])));
        }
        drop(stash);
        let stash = open(root.path());
        let mut buffer = Vec::new();
        assert!(stash.portable().read(Kind::DeviceConfiguration, &key(1), &mut buffer));
        assert_eq!(buffer, [round * 2 + 1]);
        assert_eq!(stash.portable().len(Kind::DeviceConfiguration), 1);
    }
}

#[test]
fn kinds_with_the_same_key_are_kept_apart() {
    let root = root();
    let stash = open(root.path());
    for kind in Kind::ALL {
        assert!(stash.portable().put(kind, &key(1), Box::new([kind as u8])));
    }
    stash.flush(LONG);
    for kind in Kind::ALL {
        let mut seen = Vec::new();
        stash.portable().for_each(kind, &mut |key, payload| seen.push((*key, payload.to_vec())));
        assert_eq!(seen, [(key(1), vec![kind as u8])]);
    }
}

#[test]
fn an_empty_payload_is_a_record_too() {
    let root = root();
    let stash = open(root.path());
    assert!(stash.portable().put(Kind::DeviceConfiguration, &key(1), Box::new([])));
    drop(stash);
    let mut buffer = vec![1];
    assert!(open(root.path()).portable().read(Kind::DeviceConfiguration, &key(1), &mut buffer));
    assert!(buffer.is_empty());
}

#[test]
fn nothing_is_created_in_a_part_to_which_nothing_is_written() {
    let root = root();
    let stash = open(root.path());
    stash.device(&header()).unwrap();
    drop(stash);
    assert!(segments(root.path()).is_empty());
}

#[test]
fn the_first_use_of_a_key_in_a_run_is_written_once_and_in_order() {
    let root = root();
    for _run in 0..2 {
        let stash = open(root.path());
        for _again in 0..3 {
            for number in [5, 3, 4] {
                note_use(&stash, &key(number));
            }
            stash.flush(LONG);
        }
        assert_eq!(stash.report().written_records, 3);
        drop(stash);
        let stash = open(root.path());
        let mut uses = Vec::new();
        stash
            .portable()
            .for_each(Kind::Use, &mut |key, payload| uses.push((UseRecord::decode(payload).unwrap(), *key)));
        uses.sort();
        assert_eq!(uses.iter().map(|(used, _)| used.sequence).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(uses.iter().map(|(_, key)| *key).collect::<Vec<_>>(), [key(5), key(3), key(4)]);
    }
}

#[test]
fn a_process_is_one_run_however_often_it_opens_the_stash_and_its_devices_are_told_apart() {
    let root = root();
    let (none, both) = (RunDevices::default(), RunDevices::only(0).and(RunDevices::only(1)));
    let all = |stash: &Stash| {
        let mut noted = stash.noted_uses(&|| false).unwrap();
        noted.sort_by_key(|used| (used.run, used.sequence));
        noted
    };
    let mut numbers = Vec::new();
    for round in 0..2 {
        let run = Run::of_this_process();
        let open = || Stash::open_within(root.path(), &app(), run.clone(), WaitLimits::UNLIMITED).unwrap();
        let stash = open();
        let [first, second] = [0, 1].map(DeviceUses::of);
        assert_eq!(stash.run(), 0, "it has used nothing");
        assert!(stash.note_use(&first, &key(5)) && !stash.note_use(&first, &key(5)));
        drop(stash);
        let stash = open();
        if round == 1 {
            // Also what this run's use has replaced.
            let of_second = all(&stash).into_iter().filter(|used| used.devices.has(RunDevices::only(1)));
            assert_eq!(of_second.map(|used| used.key).collect::<Vec<_>>(), [key(5), key(3)]);
        }
        assert!(stash.note_use(&second, &key(3)) && stash.note_use(&second, &key(5)));
        drop(stash);
        let noted = all(&open());
        let own = noted.iter().filter(|used| used.run == open().run());
        let own: Vec<_> = own.map(|used| (used.sequence, used.key, used.devices)).collect();
        assert_eq!(own, [(0, key(5), both), (1, key(3), RunDevices::only(1))]);
        assert!(noted.iter().all(|used| used.devices != none));
        numbers.push(noted.last().unwrap().run);
    }
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
}

#[test]
fn what_several_devices_of_the_last_run_used_is_known_to_later_devices_of_this_one() {
    let root = root();
    let devices = [0, 1].map(RunDevices::only);
    let stash = open(root.path());
    for device in [0, 1] {
        stash.note_use(&DeviceUses::of(device), &key(7));
    }
    drop(stash);
    let stash = open(root.path());
    let last = stash.noted_uses(&|| false).unwrap();
    assert_eq!(last[0].devices, devices[0].and(devices[1]));
    stash.note_use(&DeviceUses::of(0), &key(7));
    assert!(stash.flush(LONG));
    let both = stash.noted_uses(&|| false).unwrap();
    assert_eq!(both.len(), 2, "this run's use, and the one that it has replaced");
    assert!(both.contains(&last[0]) && both.iter().any(|used| used.devices == devices[0]), "{both:?}");
    let next = open(root.path()).noted_uses(&|| false).unwrap();
    assert_eq!((next.len(), next[0].devices), (1, devices[0]));
}

#[test]
fn reading_all_records_of_a_kind_can_be_interrupted() {
    let root = root();
    let stash = open(root.path());
    for number in 0..9 {
        note_use(&stash, &key(number));
    }
    // As the writer's own records, and as those of an earlier run.
    stash.flush(LONG);
    let stashes = [stash, open(root.path())];
    for stash in stashes {
        let read = std::cell::Cell::new(0);
        let count = &mut |_: &Key, _: &[u8]| read.set(read.get() + 1);
        stash.portable().for_each_in_segments(Kind::Use, &|| read.get() == 4, count);
        assert_eq!(read.get(), 4);
    }
}

#[test]
fn a_forgotten_order_of_use_does_not_count_and_the_next_one_does() {
    let root = root();
    let stash = open(root.path());
    for number in [5, 3, 4] {
        note_use(&stash, &key(number));
    }
    stash.flush(LONG);
    // A later millisecond.
    std::thread::sleep(Duration::from_millis(2));
    assert!(stash.forget_order());
    for number in [4, 6, 4] {
        note_use(&stash, &key(number));
    }
    drop(stash);
    // Also in a file that was merged.
    for merged in [false, true] {
        if merged {
            crate::maintenance::run(root.path(), |_, _| ()).unwrap();
        }
        let stash = open(root.path());
        let mut uses = stash.noted_uses(&|| false).unwrap();
        uses.sort();
        let uses: Vec<_> = uses.iter().map(|used| used.key).collect();
        assert_eq!(uses, [key(4), key(6)], "merged: {merged}");
        assert_eq!(stash.portable().len(Kind::Use), 5, "evictions still know of the others");
        drop(stash);
    }
}

#[test]
fn an_applications_mode_of_background_work_comes_before_that_of_all() {
    let root = root();
    let stash = open(root.path());
    let folder = app().folder;
    assert_eq!(stash.background_mode(), None);
    let set = |text: &str| std::fs::write(root.path().join(CONFIG_FILE), text).unwrap();
    set("background = 'disabled'\n");
    assert_eq!(stash.background_mode(), Some(BackgroundMode::Disabled));
    set(&format!("background = 'disabled'\n[application.{folder}]\nbackground = 'allowed'\n"));
    assert_eq!(stash.background_mode(), Some(BackgroundMode::Allowed));
}

#[test]
fn uses_that_overflow_the_ring_are_dropped_and_counted() {
    let root = root();
    let stash = open(root.path());
    let count = 50_000;
    (0..count).for_each(|number| note_use(&stash, &key(number)));
    stash.flush(LONG);
    let report = stash.report();
    assert_eq!(report.written_records + report.dropped, count);
}

#[test]
fn a_record_that_is_too_long_is_dropped_and_counted() {
    let root = root();
    let stash = open(root.path());
    let long = vec![0; (64 << 20) + 1].into_boxed_slice();
    assert!(!stash.portable().put(Kind::Module, &key(1), long));
    assert_eq!(stash.report().dropped, 1);
    assert!(!stash.portable().contains(Kind::Module, &key(1)));
}

#[test]
fn records_that_do_not_fit_into_the_queue_are_dropped_and_counted_and_the_rest_is_kept() {
    let root = root();
    let stash = open(root.path());
    let mut kept = 0;
    for number in 0..200 {
        let record = vec![number as u8; 1 << 20].into_boxed_slice();
        kept += u64::from(stash.portable().put(Kind::Module, &key(number), record));
    }
    drop(stash);
    let stash = open(root.path());
    assert_eq!(stash.portable().len(Kind::Module) as u64, kept);
    let mut buffer = Vec::new();
    for number in 0..200 {
        let there = stash.portable().read(Kind::Module, &key(number), &mut buffer);
        assert!(!there || buffer == vec![number as u8; 1 << 20]);
    }
}

#[test]
fn a_full_queue_drops_records_and_counts_them() {
    let root = root();
    let stash = open(root.path());
    // Nobody writes yet: `enqueue` starts no writer.
    let enqueue = |number| stash.portable().enqueue(Kind::Module, &key(number), vec![0; 1 << 20].into());
    let kept = (0..200).filter(|&number| enqueue(number)).count();
    assert_eq!(kept, (QUEUED - 1) >> 20, "each costs a little more than its payload");
    assert_eq!(stash.report().dropped, 200 - kept as u64);
    assert!(!stash.portable().contains(Kind::Module, &key(199)), "what was dropped may come again");
    stash.touch();
    stash.flush(LONG);
    assert_eq!(stash.report().written_records, kept as u64);
    assert!(enqueue(199), "there is room again");
}

#[test]
fn many_threads_may_put_and_read_at_once() {
    let root = root();
    let stash = open(root.path());
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let stash = &stash;
            scope.spawn(move || {
                let mine = thread * 500..(thread + 1) * 500;
                for number in mine.clone() {
                    assert!(stash.portable().put(Kind::Recipe, &key(number), payload(number)));
                    assert_eq!(count_good(stash.portable(), Kind::Recipe, number..number + 1), 1);
                    note_use(stash, &key(number));
                    stash.touch();
                }
                assert_eq!(count_good(stash.portable(), Kind::Recipe, mine), 500);
            });
        }
    });
    drop(stash);
    let stash = open(root.path());
    assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..2000), 2000);
    assert_eq!(stash.portable().len(Kind::Use), 2000);
}

#[test]
fn a_device_part_is_opened_once_and_another_device_has_its_own() {
    let root = root();
    let stash = open(root.path());
    let one = stash.device(&header()).unwrap();
    assert!(Arc::ptr_eq(&one, &stash.device(&header()).unwrap()));
    let other = stash.device(&DeviceHeader { device_id: 1, ..header() }).unwrap();
    assert_ne!(one.name(), other.name());
    put_all(&one, Kind::Artifact, 0..3);
    assert!(!other.contains(Kind::Artifact, &key(0)));
}

#[test]
fn thousands_of_segments_open_with_few_descriptors() {
    let root = root();
    let first = filled(root.path(), 3);
    for copy in 0..2000 {
        let name = format!("{copy:016x}-00000001-0000000000000001.vks");
        std::fs::copy(&first, first.with_file_name(name)).unwrap();
    }
    let stash = open(root.path());
    assert_eq!(count_good(stash.portable(), Kind::Recipe, 0..3), 3);
    assert_eq!(stash.report().refused.len(), 0);
}

#[test]
fn closing_leaves_no_thread_behind() {
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let name = |task: std::io::Result<std::fs::DirEntry>| {
            std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default()
        };
        tasks.map(name).filter(|name| name.trim().starts_with("vkstash-")).count()
    };
    // Alone in its process, because other tests have writers of their own.
    crate::tests::processes::in_a_child("closing_leaves_no_thread_behind", &[], || {
        let root = root();
        for _ in 0..10 {
            let stash = open(root.path());
            assert_eq!(threads(), 0);
            put_all(stash.portable(), Kind::Recipe, 0..3);
            stash.flush(LONG);
            assert!(threads() >= 1);
            drop(stash);
            // The system shows a thread for a while after it was joined.
            await_that("all threads are gone", || threads() == 0);
        }
    });
}

#[test]
fn a_part_that_outlives_its_stash_reads_and_takes_nothing_more() {
    let root = root();
    let stash = open(root.path());
    let part = stash.portable().clone();
    put_all(&part, Kind::Recipe, 0..3);
    drop(stash);
    assert_eq!(count_good(&part, Kind::Recipe, 0..3), 3);
    assert!(!part.put(Kind::Recipe, &key(9), payload(9)));
    assert!(!part.contains(Kind::Recipe, &key(9)));
}

/// As much like SPIR-V as the filter needs, and as regular.
fn module(number: u64) -> Box<[u8]> {
    let mut words = vec![0, 0x0723_0203, 0x0001_0300, 0, 4000, 0];
    for step in 0..1000_u32 {
        words.extend([5 << 16 | 129, 6, 100 + step, 99 + step, number as u32]);
    }
    words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect()
}

#[test]
fn modules_are_stored_compressed_and_read_as_they_were() {
    let root = root();
    let stash = open(root.path());
    let reader = open(root.path());
    let all_there = |stash: &Stash| {
        let mut buffer = Vec::new();
        (0..20).all(|number| {
            stash.portable().read(Kind::Module, &key(number), &mut buffer) && *buffer == *module(number)
        })
    };
    (0..20).for_each(|number| assert!(stash.portable().put(Kind::Module, &key(number), module(number))));
    assert!(all_there(&stash), "queued");
    stash.flush(LONG);
    assert!(all_there(&stash), "written");
    await_that("what another has appended is found", || all_there(&reader));
    drop(stash);
    assert!(all_there(&open(root.path())), "sealed");
    let stored: u64 = segments(root.path()).iter().map(|path| path.metadata().unwrap().len()).sum();
    let raw: usize = (0..20).map(|number| module(number).len()).sum();
    assert!(stored * 5 < raw as u64, "{stored} {raw}");
    assert_eq!(reader.report().damaged_records, 0);
}

/// vkDestroyDevice and vkDestroyInstance share one limit, whatever is opened between them.
#[test]
fn waiting_at_rest_counts_until_the_program_has_another_device() {
    let root = root();
    let stash = open(root.path());
    let device = stash.device(&header()).unwrap();
    put_all(&device, Kind::Artifact, 0..3);
    let whole = device.shared.left_for_end();
    assert!(stash.rest());
    let left = device.shared.left_for_end();
    assert!(left < whole, "{left:?} of {whole:?}");
    stash.device(&header()).unwrap();
    assert_eq!(device.shared.left_for_end(), left);
    stash.wake();
    assert_eq!(device.shared.left_for_end(), whole);
}
