//! The store is a folder.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

use vkstash_host::program::Program;
use vkstash_model::app_name::{AppName, Identity};
use vkstash_remote::manifest::Content;
use vkstash_remote::pull::{self, Failure};
use vkstash_store::format::device::DeviceHeader;

use crate::support::*;

#[test]
fn where_the_store_has_none_of_an_installation_another_one_counts() {
    let world = World::new();
    world.published(0..3);
    let program = Program::of(b"game", &[]);
    let own = AppName::of(&Identity { application: b"", program: &program, steam: Some(620) });
    let machine = world.machine("user");
    let pull = |applications: Vec<(String, Vec<DeviceHeader>)>| {
        let request = pull::Request { applications, ..pull_request(NOW) };
        wait(pull::pull(&world.bucket(), &machine.home, &world.trust(), &request, machine.lines.clone()))
            .unwrap()
    };
    let other = app("another game").folder;
    assert_eq!(pull(vec![(other, vec![header()])]).updated, 0, "{}", machine.lines.all());
    let pulled = pull(vec![(own.folder.clone(), vec![header()])]);
    assert_eq!((pulled.updated, pulled.failures.len()), (1, 0), "{}", machine.lines.all());
    assert_eq!(served_to(&machine.home.base(), &own, 0..4), [0, 1, 2]);
    // Of all devices nothing else is known.
    for devices in [vec![header()], Vec::new()] {
        let again = pull(vec![(own.folder.clone(), devices)]);
        assert_eq!((again.updated, again.failures.len()), (0, 0), "{again:?}");
        assert!(again.unchanged > 0, "{again:?}");
        assert_eq!(served_to(&machine.home.base(), &own, 0..4), [0, 1, 2]);
    }
    // What is withdrawn goes with the next pull, also where it was another installation's.
    std::fs::remove_dir_all(world.store().join("v1/manifests")).unwrap();
    pull(vec![(own.folder.clone(), vec![header()])]);
    assert_eq!(served_to(&machine.home.base(), &own, 0..4), [0_u64; 0]);
}

#[test]
fn what_one_machine_publishes_another_one_serves() {
    let world = World::new();
    world.published(0..20);
    let other = world.machine("other");
    let pulled = other.pull(&world, NOW);
    assert_eq!((pulled.updated, pulled.segments, pulled.records), (1, 2, 40), "{}", other.lines.all());
    assert!(pulled.failures.is_empty(), "{}", other.lines.all());
    assert_eq!(other.served(0..25), (0..20).collect::<Vec<_>>());
    // Other users may read the base, and nobody but its owner may write to it.
    for (path, mode) in [("", 0o755), (app("game").folder.as_str(), 0o755)] {
        let found = other.home.base().join(path).metadata().unwrap();
        assert_eq!(found.permissions().mode() & 0o777, mode);
    }
}

#[test]
fn a_pull_that_finds_nothing_new_is_one_request_and_changes_nothing() {
    let world = World::new();
    world.published(0..5);
    let other = world.machine("other");
    other.pull(&world, NOW);
    let before = files(&other.dir);
    let counted = Faulty::new(&world.store(), Fault::None, false);
    let bucket = counted.bucket(Duration::from_secs(60));
    let pulled = other.pull_from(&bucket, &world.trust(), NOW + 1).unwrap();
    assert_eq!((pulled.asked, pulled.unchanged, pulled.updated), (1, 1, 0));
    assert_eq!(counted.requests.load(Ordering::Relaxed), 1);
    assert!(files(&other.dir) == before);
}

#[test]
fn a_second_push_sends_what_is_new_alone() {
    let world = World::new();
    let machine = world.published(0..10);
    let again = machine.push(&world, &world.bucket(), NOW + 1).unwrap();
    assert_eq!((again.segments, again.manifests), (0, 0));
    fill(&machine.stash(), "game", 8..13);
    let more = machine.push(&world, &world.bucket(), NOW + 2).unwrap();
    // Three modules, three artifacts.
    assert_eq!((more.segments, more.records, more.manifests), (2, 6, 2));
    let other = world.machine("other");
    other.pull(&world, NOW + 3);
    assert_eq!(other.served(0..20), (0..13).collect::<Vec<_>>());
}

#[test]
fn pushes_at_the_same_time_lose_nothing() {
    let world = World::new();
    std::thread::scope(|scope| {
        for number in 0..6 {
            let world = &world;
            scope.spawn(move || {
                let machine = world.machine(&format!("machine {number}"));
                fill(&machine.stash(), "game", number * 10..number * 10 + 10);
                machine.push(world, &world.bucket(), NOW).unwrap();
            });
        }
    });
    let other = world.machine("other");
    let pulled = other.pull(&world, NOW);
    assert!(pulled.failures.is_empty(), "{}", other.lines.all());
    assert_eq!(pulled.segments, 12);
    assert_eq!(other.served(0..70), (0..60).collect::<Vec<_>>());
}

#[test]
fn small_segments_are_merged_and_programs_that_have_the_old_ones_open_go_on() {
    let world = World::new();
    let machine = world.machine("publisher");
    for number in 0..5 {
        fill(&machine.stash(), "game", number..number + 1);
        machine.push(&world, &world.bucket(), NOW + number).unwrap();
    }
    assert_eq!(machine.pull(&world, NOW + 10).segments, 10);
    let request = vkstash_remote::push::Request { compact: true, ..push_request(&machine, NOW + 11) };
    let trust = world.trust();
    let progress = machine.lines.clone();
    let bucket = world.bucket();
    let merged =
        wait(vkstash_remote::push::push(&bucket, &machine.home, &trust, &world.signer, &request, progress));
    assert_eq!(merged.unwrap().segments, 2);
    let pulled = machine.pull(&world, NOW + 12);
    assert_eq!((pulled.segments, pulled.updated), (2, 1), "{}", machine.lines.all());
    assert_eq!(machine.served(0..6), (0..5).collect::<Vec<_>>());
    let files = files(&machine.home.base());
    assert_eq!(files.len(), 2, "{files:?}");
}

#[test]
fn two_pulls_at_once_wait_for_each_other() {
    let world = World::new();
    world.published(0..10);
    let other = world.machine("other");
    std::thread::scope(|scope| {
        let pulls: Vec<_> = (0..4).map(|_| scope.spawn(|| other.pull(&world, NOW))).collect();
        let pulls: Vec<_> = pulls.into_iter().map(|pull| pull.join().unwrap()).collect();
        assert_eq!(pulls.iter().map(|pulled| pulled.updated).sum::<u64>(), 1);
        assert!(pulls.iter().all(|pulled| pulled.failures.is_empty()));
    });
    assert_eq!(other.served(0..10).len(), 10);
    // A pull that may not wait says that another one is at work.
    let _locked = wait(other.home.lock(Duration::ZERO)).unwrap().unwrap();
    let request = vkstash_remote::pull::Request { patience: Duration::ZERO, ..pull_request(NOW) };
    let (bucket, trust) = (world.bucket(), world.trust());
    let busy = wait(vkstash_remote::pull::pull(&bucket, &other.home, &trust, &request, other.lines.clone()));
    assert_eq!(busy.unwrap_err().failure(), Failure::Busy);
}

#[test]
fn artifacts_of_a_signer_that_may_give_portable_records_only_are_left_out() {
    let world = World::new();
    world.published(0..4);
    let other = world.machine("other");
    let portable = trust(&world.signer, "*", Content::Portable);
    let pulled = other.pull_from(&world.bucket(), &portable, NOW).unwrap();
    assert_eq!((pulled.segments, pulled.records), (1, 4));
    assert!(other.lines.all().contains("1 segments with artifacts left out"), "{}", other.lines.all());
    assert!(other.served(0..4).is_empty());
    // Once it may give more, the rest is fetched although the manifest is the same.
    let pulled = other.pull(&world, NOW);
    assert_eq!((pulled.unchanged, pulled.segments), (1, 1));
    assert_eq!(other.served(0..4).len(), 4);
    // And the other way round.
    other.pull_from(&world.bucket(), &portable, NOW).unwrap();
    assert!(other.served(0..4).is_empty());
}

#[test]
fn a_device_of_which_there_is_nothing_gets_what_everybody_gets() {
    let world = World::new();
    world.published(0..3);
    let other = world.machine("other");
    let mut request = pull_request(NOW);
    request.applications[0].1[0].driver_version += 1;
    let (bucket, trust) = (world.bucket(), world.trust());
    let pulled =
        wait(vkstash_remote::pull::pull(&bucket, &other.home, &trust, &request, other.lines.clone()));
    assert_eq!((pulled.as_ref().unwrap().asked, pulled.unwrap().records), (2, 3));
}

#[test]
fn a_machine_that_knows_nothing_takes_everything() {
    let world = World::new();
    let publisher = world.machine("publisher");
    fill(&publisher.stash(), "game", 0..3);
    fill(&publisher.stash(), "tool", 3..6);
    publisher.push(&world, &world.bucket(), NOW).unwrap();
    let other = world.machine("other");
    let request = vkstash_remote::pull::Request { applications: Vec::new(), all: true, ..pull_request(NOW) };
    let (bucket, trust) = (world.bucket(), world.trust());
    let pulled =
        wait(vkstash_remote::pull::pull(&bucket, &other.home, &trust, &request, other.lines.clone()))
            .unwrap();
    assert_eq!((pulled.asked, pulled.updated), (4, 2), "{}", other.lines.all());
    assert_eq!(served(&other.home.base(), "tool", 0..9), [3, 4, 5]);
}

#[test]
fn a_base_that_was_removed_is_fetched_again() {
    let world = World::new();
    world.published(0..3);
    let other = world.machine("other");
    other.pull(&world, NOW);
    fs::remove_dir_all(other.home.base().join(app("game").folder)).unwrap();
    assert_eq!(other.pull(&world, NOW).segments, 2);
    assert_eq!(other.served(0..3).len(), 3);
}

#[test]
fn what_a_store_has_withdrawn_is_removed_from_the_base() {
    let world = World::new();
    let publisher = world.machine("publisher");
    fill(&publisher.stash(), "game", 0..3);
    fill(&publisher.stash(), "tool", 3..6);
    publisher.push(&world, &world.bucket(), NOW).unwrap();
    let (other, bystander) = (world.machine("other"), world.machine("bystander"));
    let request = |kept| vkstash_remote::pull::Request { kept, all: !kept, ..pull_request(NOW) };
    let pull = |machine: &Machine, kept| {
        let (bucket, trust, request) = (world.bucket(), world.trust(), request(kept));
        wait(vkstash_remote::pull::pull(&bucket, &machine.home, &trust, &request, machine.lines.clone()))
            .unwrap()
    };
    pull(&other, false);
    pull(&bystander, false);
    // A disk that is not mounted is no withdrawal.
    let (store, moved) = (world.store(), world.folder.path().join("moved"));
    fs::rename(&store, &moved).unwrap();
    fs::create_dir(&store).unwrap();
    pull(&other, true);
    assert_eq!(other.served(0..9), [0, 1, 2]);
    fs::remove_dir(&store).unwrap();
    fs::rename(&moved, &store).unwrap();

    let manifests = store.join("v1/manifests").join(app("game").folder);
    let withdrawn = world.folder.path().join("withdrawn");
    fs::rename(&manifests, &withdrawn).unwrap();
    let (base, old) =
        (other.home.base().join(app("game").folder), other.dir.join("remote/old").join(app("game").folder));
    let before = files(&base);
    assert_eq!(pull(&other, true).failures, [], "{}", other.lines.all());
    assert!(other.lines.all().contains("withdrawn from the store"), "{}", other.lines.all());
    assert!(!base.exists() && files(&old) == before, "programs that have it open go on");
    assert_eq!(served(&other.home.base(), "tool", 0..9), [3, 4, 5]);
    assert_eq!(bystander.served(0..9), [0, 1, 2]);
    pull(&other, true);
    assert!(!base.exists() && !old.exists());
    // The last one of a store, too.
    fs::remove_dir_all(store.join("v1/manifests")).unwrap();
    pull(&other, true);
    assert!(files(&other.home.base()).is_empty());
    // What is published again comes back.
    fs::create_dir(store.join("v1/manifests")).unwrap();
    fs::rename(&withdrawn, &manifests).unwrap();
    pull(&other, true);
    assert_eq!(other.served(0..9), [0, 1, 2]);
}

#[test]
fn a_manifest_that_was_lost_is_followed_by_one_that_everybody_takes() {
    let world = World::new();
    let publisher = world.published(0..3);
    let other = world.machine("other");
    // Two publications within a second.
    fill(&publisher.stash(), "game", 3..4);
    publisher.push(&world, &world.bucket(), NOW).unwrap();
    other.pull(&world, NOW + 1);
    fs::remove_dir_all(world.store().join("v1/manifests")).unwrap();
    publisher.pull(&world, NOW + 1);
    fill(&publisher.stash(), "game", 4..5);
    publisher.push(&world, &world.bucket(), NOW + 2).unwrap();
    assert_eq!(other.pull(&world, NOW + 3).failures, [], "{}", other.lines.all());
    assert_eq!(other.served(0..9), [0, 1, 2, 3, 4]);
    // Nor does a clock that goes wrong matter to a machine that has seen the lost one.
    publisher.pull(&world, NOW + 3);
    fs::remove_dir_all(world.store().join("v1/manifests")).unwrap();
    publisher.push(&world, &world.bucket(), NOW - 1000).unwrap();
    assert_eq!(other.pull(&world, NOW + 3).failures, [], "{}", other.lines.all());
}

#[test]
fn nothing_is_signed_that_was_rolled_back_or_has_expired() {
    let world = World::new();
    let publisher = world.published(0..3);
    let old = fs::read(world.manifest()).unwrap();
    fill(&publisher.stash(), "game", 3..4);
    publisher.push(&world, &world.bucket(), NOW + 1).unwrap();
    publisher.pull(&world, NOW + 1);
    let new = fs::read(world.manifest()).unwrap();
    fs::write(world.manifest(), &old).unwrap();
    fill(&publisher.stash(), "game", 4..5);
    let refused = publisher.push(&world, &world.bucket(), NOW + 2).unwrap_err();
    assert!(refused.to_string().contains("older than what this machine has"), "{refused}");
    assert_eq!(refused.failure(), Failure::Refused);
    assert!(fs::read(world.manifest()).unwrap() == old);
    fs::write(world.manifest(), &new).unwrap();
    let refused = publisher.push(&world, &world.bucket(), NOW + 91 * DAY).unwrap_err();
    assert!(refused.to_string().contains("has expired"), "{refused}");
    // Somebody may decide otherwise, and loses nothing.
    let request = vkstash_remote::push::Request { replace: true, ..push_request(&publisher, NOW + 91 * DAY) };
    let (bucket, trust, progress) = (world.bucket(), world.trust(), publisher.lines.clone());
    wait(vkstash_remote::push::push(&bucket, &publisher.home, &trust, &world.signer, &request, progress))
        .unwrap();
    let other = world.machine("other");
    assert_eq!(other.pull(&world, NOW + 91 * DAY).failures, [], "{}", other.lines.all());
    assert_eq!(other.served(0..9), [0, 1, 2, 3, 4]);
}

#[test]
fn whoever_may_read_the_folder_can_wait_for_those_who_write() {
    let world = World::new();
    fs::create_dir(world.store()).unwrap();
    fs::set_permissions(world.store(), fs::Permissions::from_mode(0o777)).unwrap();
    world.published(0..1);
    let lock = world.store().join(".lock");
    assert_eq!(lock.metadata().unwrap().permissions().mode() & 0o777, 0o666);
}

#[test]
fn half_a_pair_of_keys_is_not_left_behind() {
    let folder = scratch();
    let key = folder.path().join("key");
    fs::write(folder.path().join("key.pub"), "of another one").unwrap();
    assert!(vkstash_remote::key::create(&key, None).is_err());
    assert!(!key.exists());
}
