//! Tests of the inbox: offers of machines without a key, their publication by a builder, and revocations.

use std::fs;
use std::sync::Arc;

use vkstash_model::record::{CRASH_LIMIT, Kind};
use vkstash_remote::build;
use vkstash_remote::names::Digest;
use vkstash_remote::push;
use vkstash_remote::revocations::{self, Revocations, Revoked};
use vkstash_store::stash::open::Stash;

use crate::support::*;

fn build_request(builder: &Machine) -> build::Request {
    build::Request { root: builder.stash(), applications: Vec::new(), new_applications: 50, now: NOW }
}

#[test]
fn what_is_offered_without_a_key_reaches_everybody_through_a_builder() {
    let world = World::new();
    let player = world.machine("player");
    fill(&player.stash(), "game", 0..5);
    let (bucket, progress) = (world.bucket(), player.lines.clone());
    let offer = || {
        let request = push_request(&player, NOW);
        wait(push::offer(&bucket, &player.home, &request, progress.clone())).unwrap()
    };
    let offered = offer();
    // Modules alone: artifacts of strangers are nobody's.
    assert_eq!((offered.segments, offered.records), (1, 5));
    assert_eq!(offer().segments, 0, "what was offered before is not offered again");
    // Strangers may offer anything.
    let inbox = world.store().join("v1/inbox").join(app("game").folder);
    for bytes in [noise(1, 5000), vec![]] {
        let digest = vkstash_remote::names::Digest::of(&bytes).to_string();
        fs::write(inbox.join(digest), &bytes).unwrap();
    }
    fs::write(inbox.join("0".repeat(64)), noise(2, 5000)).unwrap();
    fs::write(inbox.join("other"), "x").unwrap();

    let builder = world.machine("builder");
    let request = build_request(&builder);
    let taken = wait(build::take(&bucket, &builder.home, &request, builder.lines.clone())).unwrap();
    assert_eq!((taken.objects.len(), taken.records, taken.refused), (1, 5, 3), "{}", builder.lines.all());
    assert_eq!(taken.applications, [app("game").folder]);
    assert_eq!(files(&inbox).len(), 2, "nothing good is removed before it is published");
    let stash = Stash::open_patiently(&builder.stash(), &app("game")).unwrap();
    assert_eq!(stash.portable().len(Kind::Module), 5);
    drop(stash);
    builder.push(&world, &bucket, NOW).unwrap();
    wait(build::remove(&bucket, &taken, &[])).unwrap();
    assert_eq!(files(&inbox).len(), 1);
    let other = world.machine("other");
    let pulled = other.pull(&world, NOW);
    assert_eq!((pulled.records, pulled.failures.len()), (5, 0), "{}", other.lines.all());
}

#[test]
fn what_is_revoked_is_not_served_any_more() {
    let world = World::new();
    let publisher = world.published(0..4);
    let other = world.machine("other");
    other.pull(&world, NOW);
    assert_eq!(other.served(0..4), [0, 1, 2, 3]);
    // A program died of it twice.
    let stash = Stash::open_patiently(&publisher.stash(), &app("game")).unwrap();
    assert!(stash.device(&header()).unwrap().put(Kind::CrashCount, &key(2), Box::new([CRASH_LIMIT])));
    drop(stash);
    let (bucket, trust) = (world.bucket(), world.trust());
    let revoke = || {
        let request = push_request(&publisher, NOW + 1);
        let progress: Arc<Lines> = publisher.lines.clone();
        wait(push::revoke(&bucket, &publisher.home, &trust, &world.signer, &request, progress)).unwrap()
    };
    assert_eq!((revoke().records, revoke().records), (1, 0));
    let pulled = other.pull(&world, NOW + 2);
    assert_eq!((pulled.updated, pulled.segments, pulled.failures.len()), (1, 0, 0), "{}", other.lines.all());
    assert_eq!(other.served(0..4), [0, 1, 3]);
    // The pulled base is kept, and a pull that finds nothing new costs one request again.
    let counted = Faulty::new(&world.store(), Fault::None, false);
    let again =
        other.pull_from(&counted.bucket(std::time::Duration::from_secs(60)), &trust, NOW + 2).unwrap();
    assert_eq!((again.unchanged, again.updated), (1, 0));
    assert_eq!(counted.requests.load(std::sync::atomic::Ordering::Relaxed), 1);
    // Nor is it published again, nor served where it comes together with the list.
    fill(&publisher.stash(), "game", 4..5);
    publisher.push(&world, &bucket, NOW + 3).unwrap();
    let third = world.machine("third");
    third.pull(&world, NOW + 3);
    assert_eq!(third.served(0..9), [0, 1, 3, 4], "{}", third.lines.all());
    other.pull(&world, NOW + 3);
    assert_eq!(other.served(0..9), [0, 1, 3, 4], "{}", other.lines.all());
    // Without the list that the manifest names nothing is taken.
    fs::remove_dir_all(world.store().join("v1/revocations")).unwrap();
    let fourth = world.machine("fourth");
    assert_eq!(fourth.pull(&world, NOW + 3).failures.len(), 1);
    assert!(fourth.served(0..9).is_empty());
}

/// Revokes what is quarantined on this machine.
fn revoke(world: &World, publisher: &Machine, now: u64) -> Result<push::Pushed, push::PushError> {
    let (bucket, trust, progress) = (world.bucket(), world.trust(), publisher.lines.clone());
    let request = push_request(publisher, now);
    wait(push::revoke(&bucket, &publisher.home, &trust, &world.signer, &request, progress))
}

fn quarantine(publisher: &Machine, number: u64) {
    let stash = Stash::open_patiently(&publisher.stash(), &app("game")).unwrap();
    assert!(stash.device(&header()).unwrap().put(Kind::CrashCount, &key(number), Box::new([CRASH_LIMIT])));
}

#[test]
fn a_new_manifest_names_the_list_that_is_there() {
    let world = World::new();
    let publisher = world.published(0..4);
    quarantine(&publisher, 2);
    revoke(&world, &publisher, NOW + 1).unwrap();
    let trust = world.trust();
    let is_named = |name: &str| {
        let other = world.machine(name);
        let pulled = other.pull_from(&world.bucket(), &trust, NOW + 3).unwrap();
        assert_eq!(pulled.failures, [], "{}", other.lines.all());
        assert!(other.dir.join("remote/state").join(app("game").folder).join("revocations").exists());
    };
    // The first manifest of a device; all that the stash has was published before.
    fs::remove_file(world.manifest()).unwrap();
    publisher.push(&world, &world.bucket(), NOW + 2).unwrap();
    is_named("one");
    // A manifest that takes the place of a file that nobody believes.
    fs::write(world.manifest(), "junk").unwrap();
    let request = push::Request { replace: true, ..push_request(&publisher, NOW + 3) };
    let progress = publisher.lines.clone();
    wait(push::push(&world.bucket(), &publisher.home, &trust, &world.signer, &request, progress)).unwrap();
    is_named("two");
    // A list that is older than the one that this machine knows is not signed again, and one that has vanished is put
    // back.
    publisher.pull(&world, NOW + 3);
    let list = world.store().join("v1/revocations").join(app("game").folder);
    let old = fs::read(&list).unwrap();
    quarantine(&publisher, 3);
    revoke(&world, &publisher, NOW + 4).unwrap();
    publisher.pull(&world, NOW + 4);
    fs::write(&list, old).unwrap();
    let refused = revoke(&world, &publisher, NOW + 5).unwrap_err();
    assert!(refused.to_string().contains("the list of revocations that is there is older"), "{refused}");
    fs::remove_file(&list).unwrap();
    revoke(&world, &publisher, NOW + 5).unwrap();
    is_named("three");
    publisher.pull(&world, NOW + 6);
    assert_eq!(served(&world.machine("three").home.base(), "game", 0..9), [0, 1]);
}

#[test]
fn a_list_that_nobody_could_read_is_not_published() {
    let world = World::new();
    let publisher = world.published(0..1);
    let folder = app("game").folder;
    let revoked = |number: u64| Revoked { device: header().short_digest(), key: Digest(key(number)) };
    let artifacts = (0..revocations::MOST as u64).map(|number| revoked(number + 1000)).collect();
    let full = Revocations { application: folder.clone(), counter: 1, artifacts };
    let signed = world.signer.sign(&full.encode()).unwrap();
    assert!((signed.len() as u64) < revocations::LONGEST, "{} bytes", signed.len());
    let list = world.store().join("v1/revocations").join(&folder);
    fs::create_dir_all(list.parent().unwrap()).unwrap();
    fs::write(&list, &signed).unwrap();
    quarantine(&publisher, 0);
    let refused = revoke(&world, &publisher, NOW + 1).unwrap_err();
    assert!(refused.to_string().contains("longer than anybody reads"), "{refused}");
    assert!(fs::read(&list).unwrap() == signed);
}

#[test]
fn pulls_add_no_files_while_one_device_is_refused() {
    let world = World::new();
    let publisher = world.published(0..4);
    quarantine(&publisher, 2);
    revoke(&world, &publisher, NOW + 1).unwrap();
    let mut request = pull_request(NOW + 2);
    let unknown = vkstash_store::format::device::DeviceHeader { driver_version: 1, ..header() };
    fs::write(world.manifest().with_file_name(unknown.short_digest()), "junk").unwrap();
    request.applications[0].1.push(unknown);
    let other = world.machine("other");
    let pull = || {
        let (bucket, trust, progress) = (world.bucket(), world.trust(), other.lines.clone());
        let pulled =
            wait(vkstash_remote::pull::pull(&bucket, &other.home, &trust, &request, progress)).unwrap();
        (pulled.updated, pulled.failures.len(), files(&other.home.base()).len())
    };
    assert_eq!([pull(), pull(), pull()], [(1, 1, 3), (0, 1, 3), (0, 1, 3)], "{}", other.lines.all());
    assert_eq!(other.served(0..4), [0, 1, 3]);
}

#[test]
fn strangers_cannot_block_the_inbox() {
    let world = World::new();
    let player = world.machine("player");
    for (name, number) in [("game", 0), ("tool", 1), ("third", 2)] {
        fill(&player.stash(), name, number..number + 1);
    }
    let request = push_request(&player, NOW);
    wait(push::offer(&world.bucket(), &player.home, &request, player.lines.clone())).unwrap();
    let inbox = world.store().join("v1/inbox");
    let game = inbox.join(app("game").folder);
    // An object that is larger than all that is taken at once, and sorts first; and names that hide others.
    fs::File::create(game.join("0".repeat(64))).unwrap().set_len(5 << 30).unwrap();
    for number in 0..10_100 {
        fs::File::create(game.join(format!("!{number}"))).unwrap();
    }
    let builder = world.machine("builder");
    let take = |builder: &Machine, new_applications| {
        let request = build::Request { new_applications, ..build_request(builder) };
        wait(build::take(&world.bucket(), &builder.home, &request, builder.lines.clone())).unwrap()
    };
    // Two applications that are new are taken, whatever their names are.
    let taken = take(&builder, 2);
    assert_eq!(taken.applications.len(), 2, "{}", builder.lines.all());
    assert!(builder.lines.all().contains("2 of 3 applications"), "{}", builder.lines.all());
    // Applications that the stash has already do not count.
    let taken = take(&builder, 1);
    assert_eq!((taken.applications.len(), taken.objects.len()), (3, 3), "{}", builder.lines.all());
    assert!(!game.join("0".repeat(64)).exists());
    assert!(builder.lines.all().contains(&format!("{} in the inbox is removed", "0".repeat(64))));
}

#[test]
fn an_application_that_cannot_be_published_keeps_no_other_one_back() {
    let world = World::new();
    let (player, builder) = (world.machine("player"), world.machine("builder"));
    let [game, tool] = ["game", "tool"].map(|name| app(name).folder);
    fill(&player.stash(), "game", 0..1);
    fill(&player.stash(), "tool", 1..2);
    let request = push_request(&player, NOW);
    wait(push::offer(&world.bucket(), &player.home, &request, player.lines.clone())).unwrap();
    fs::create_dir_all(world.manifest().parent().unwrap()).unwrap();
    fs::write(world.manifest().with_file_name("portable"), "junk").unwrap();
    let request = build_request(&builder);
    let taken = wait(build::take(&world.bucket(), &builder.home, &request, builder.lines.clone())).unwrap();
    let pushed = builder.push(&world, &world.bucket(), NOW).unwrap();
    assert_eq!((pushed.manifests, &pushed.refused[..]), (1, &[game.clone()][..]), "{}", builder.lines.all());
    wait(build::remove(&world.bucket(), &taken, &pushed.refused)).unwrap();
    let left = |application: &str| files(&world.store().join("v1/inbox").join(application)).len();
    assert_eq!((left(&game), left(&tool)), (1, 0));
}
