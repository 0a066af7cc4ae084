//! Tests of accepted manifests that are not valid any more: after the next pull programs do not open what they name,
//! whether the pull succeeds or fails.

use std::time::Duration;

use vkstash_remote::accepted;
use vkstash_remote::bucket::Bucket;
use vkstash_remote::key::Signer;
use vkstash_remote::manifest::Content;
use vkstash_remote::pull::{self, Failure};
use vkstash_remote::trust::Trust;

use crate::support::*;

/// A machine that has pulled three artifacts.
fn pulled(world: &World) -> Machine {
    world.published(0..3);
    let other = world.machine("other");
    other.pull(world, NOW);
    assert_eq!(other.served(0..9), [0, 1, 2]);
    other
}

/// The store, which answers nothing but errors.
fn offline(world: &World) -> Bucket {
    Faulty::new(&world.store(), Fault::Errors, true).bucket(Duration::from_secs(60))
}

#[test]
fn a_signer_that_is_not_trusted_any_more_serves_nothing_also_where_the_store_cannot_be_reached() {
    let world = World::new();
    let other = pulled(&world);
    // What this machine has of another store is not looked at.
    let elsewhere = world.machine("elsewhere");
    elsewhere.pull(&world, NOW);
    let stranger = trust(&Signer::generate().unwrap(), "*", Content::Artifacts);
    assert_eq!(accepted::doubts(&other.home, &world.trust(), NOW), Vec::<String>::new());
    for trust in [Trust::default(), stranger, trust(&world.signer, "another game", Content::Artifacts)] {
        let told = accepted::doubts(&other.home, &trust, NOW);
        assert!(told.iter().all(|line| line.contains("no pinned signer has signed it; programs use it")));
        let failed = other.pull_from(&offline(&world), &trust, NOW + 1).unwrap();
        assert_eq!(failed.failures, [Failure::Offline]);
        assert!(files(&other.home.base()).is_empty(), "{}", other.lines.all());
        let told = accepted::doubts(&other.home, &trust, NOW);
        assert!(!told.is_empty() && told.iter().all(|line| line.ends_with("; put aside")), "{told:?}");
        // Trusted again, it is there again, and nothing is downloaded twice.
        let regained = other.pull(&world, NOW + 2);
        assert_eq!((regained.updated, regained.segments, regained.failures), (1, 0, vec![]));
        assert_eq!(other.served(0..9), [0, 1, 2]);
    }
    let said = other.lines.all();
    assert_eq!(said.matches("; put aside, so that programs do not use it").count(), 3, "{said}");
    assert!(!said.contains("what was there stays"), "{said}");
    assert_eq!(elsewhere.served(0..9), [0, 1, 2]);
}

#[test]
fn what_other_signers_made_stays_and_so_does_what_the_signer_may_still_give() {
    let world = World::new();
    let other = pulled(&world);
    // Another application, by another signer.
    let second = World { signer: Signer::generate().unwrap(), folder: world.folder };
    let publisher = second.machine("second");
    fill(&publisher.stash(), "other", 5..7);
    publisher.push(&second, &second.bucket(), NOW).unwrap();
    let first = trust(&world.signer, "*", Content::Artifacts);
    let both = first.clone().and(second.trust());
    let request = pull::Request { applications: Vec::new(), all: true, ..pull_request(NOW) };
    let bucket = second.bucket();
    wait(pull::pull(&bucket, &other.home, &both, &request, other.lines.clone())).unwrap();
    let before = files(&other.home.base());
    let portable = second.trust().and(trust(&world.signer, "*", Content::Portable));
    assert!(other.pull_from(&offline(&second), &portable, NOW + 1).is_err());
    assert!(other.served(0..9).is_empty());
    assert_eq!(served(&other.home.base(), "other", 0..9), [5, 6]);
    let mut left = files(&other.home.base());
    let artifacts = |path: &std::path::Path| path.to_string_lossy().contains("/device-");
    assert_eq!(before.len(), left.len() + 1, "the modules of the game stay");
    left.retain(|path, _| artifacts(path));
    assert_eq!(left.len(), 1);
    assert!(other.pull_from(&offline(&second), &second.trust(), NOW + 1).is_err());
    assert!(files(&other.home.base()).keys().all(|path| path.starts_with(app("other").folder)));
    assert_eq!(served(&other.home.base(), "other", 0..9), [5, 6]);
}

#[test]
fn what_has_expired_is_put_aside_unless_the_clock_has_jumped() {
    let world = World::new();
    let other = pulled(&world);
    let pull = |now| other.pull_from(&offline(&world), &world.trust(), now).unwrap().failures;
    // The clock jumps, and is right again.
    pull(NOW + 5000 * DAY);
    pull(NOW + 1);
    assert_eq!(other.served(0..9), [0, 1, 2], "{}", other.lines.all());
    for days in [20, 40, 60, 89] {
        pull(NOW + days * DAY);
    }
    assert_eq!(other.served(0..9), [0, 1, 2], "{}", other.lines.all());
    let told = accepted::doubts(&other.home, &world.trust(), NOW + 91 * DAY);
    assert!(told[0].ends_with("it has expired; programs use it until the next pull"), "{told:?}");
    assert_eq!(pull(NOW + 91 * DAY), [Failure::Offline]);
    assert!(other.served(0..9).is_empty());
    assert!(other.lines.all().contains("it has expired; put aside"), "{}", other.lines.all());
    // The store has the same one still.
    let still = other.pull(&world, NOW + 91 * DAY);
    assert_eq!((still.failures, still.segments), (vec![Failure::Refused], 0));
    assert!(files(&other.home.base()).is_empty());
    // It is signed anew.
    fill(&world.folder.path().join("publisher/stash"), "game", 3..4);
    let publisher = world.machine("publisher");
    let mut request = push_request(&publisher, NOW + 91 * DAY);
    request.replace = true;
    let (bucket, trust, told) = (world.bucket(), world.trust(), publisher.lines.clone());
    let pushed = vkstash_remote::push::push(&bucket, &publisher.home, &trust, &world.signer, &request, told);
    wait(pushed).unwrap();
    other.pull(&world, NOW + 91 * DAY);
    assert_eq!(other.served(0..9), [0, 1, 2, 3], "{}", other.lines.all());
}
