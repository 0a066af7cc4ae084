//! What machines without a key offer, what a builder makes of it, and what is revoked.

use std::fs;
use std::sync::Arc;

use vkstash_remote::build;
use vkstash_remote::push;
use vkstash_store::format::record::{CRASH_LIMIT, Kind};
use vkstash_store::stash::open::Stash;

use crate::support::*;

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
    let request = build::Request { root: builder.stash(), applications: Vec::new(), now: NOW };
    let taken = wait(build::take(&bucket, &builder.home, &request, builder.lines.clone())).unwrap();
    assert_eq!((taken.objects.len(), taken.records, taken.refused), (1, 5, 3), "{}", builder.lines.all());
    assert_eq!(taken.applications, [app("game").folder]);
    assert_eq!(files(&inbox).len(), 2, "nothing good is removed before it is published");
    let stash = Stash::open_patiently(&builder.stash(), &app("game")).unwrap();
    assert_eq!(stash.portable().len(Kind::Module), 5);
    drop(stash);
    builder.push(&world, &bucket, NOW).unwrap();
    wait(build::remove(&bucket, &taken)).unwrap();
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
    // It is kept, and nothing new is one request again.
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
