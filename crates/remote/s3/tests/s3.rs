//! The store is an S3 server.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use vkstash_remote::clean;

use crate::server::Server;
use crate::support::*;

#[test]
fn an_s3_server_is_a_store() {
    let world = World::new();
    let server = Server::start(&world.folder.path().join("s3"));
    let machine = world.machine("publisher");
    fill(&machine.stash(), "game", 0..10);
    let pushed = machine.push(&world, &server.bucket(), NOW).unwrap();
    assert_eq!((pushed.segments, pushed.manifests), (2, 2));
    let other = world.machine("other");
    let pulled = other.pull_from(&server.bucket(), &world.trust(), NOW).unwrap();
    assert_eq!((pulled.updated, pulled.records), (1, 20), "{}", other.lines.all());
    assert_eq!(other.served(0..10).len(), 10);
    // Nothing new is one request.
    let (bucket, before) = (server.bucket(), server.requests.load(Ordering::Relaxed));
    let pulled = other.pull_from(&bucket, &world.trust(), NOW).unwrap();
    assert_eq!((pulled.unchanged, pulled.failures.len()), (1, 0), "{}", other.lines.all());
    assert_eq!(server.requests.load(Ordering::Relaxed) - before, 1);
    assert_eq!(server.not_modified.load(Ordering::Relaxed), 1);
    // A part of a download goes on by a range.
    let third = world.machine("third");
    for (name, bytes) in files(&world.folder.path().join("s3/bucket/some/prefix/v1/segments")) {
        let part = third.dir.join("remote/tmp").join(format!("{}.part", name.display()));
        std::fs::write(part, &bytes[..bytes.len() / 2]).unwrap();
    }
    assert_eq!(third.pull_from(&bucket, &world.trust(), NOW).unwrap().updated, 1, "{}", third.lines.all());
    assert_eq!(third.served(0..10).len(), 10);
}

#[test]
fn pushes_to_an_s3_server_at_the_same_time_lose_nothing() {
    let world = World::new();
    push_at_once(&world, &Server::start(&world.folder.path().join("s3")));
}

/// Without conditional puts publishers take turns.
#[test]
fn pushes_to_a_server_that_ignores_conditions_lose_nothing_either() {
    let world = World::new();
    push_at_once(&world, &Server::careless(&world.folder.path().join("s3")));
    let announced = files(&world.folder.path().join("s3/bucket/some/prefix/v1/publishing"));
    assert!(announced.is_empty(), "{announced:?}");
}

fn push_at_once(world: &World, server: &Server) {
    std::thread::scope(|scope| {
        for number in 0..3 {
            scope.spawn(move || {
                let machine = world.machine(&format!("machine {number}"));
                fill(&machine.stash(), "game", number * 3..number * 3 + 3);
                machine.push(world, &server.bucket(), NOW).unwrap();
            });
        }
    });
    let other = world.machine("other");
    let pulled = other.pull_from(&server.bucket(), &world.trust(), NOW).unwrap();
    assert!(pulled.failures.is_empty(), "{}", other.lines.all());
    assert_eq!(other.served(0..12), (0..9).collect::<Vec<_>>());
}

/// A publisher that was killed while it wrote.
#[test]
fn whoever_waits_for_a_publisher_says_so() {
    let world = World::new();
    let folder = world.folder.path().join("s3");
    let server = Server::careless(&folder);
    let machine = world.machine("publisher");
    fill(&machine.stash(), "game", 0..3);
    let of_manifest = format!("some/prefix/v1/publishing/manifests/{}/portable", app("game").folder);
    let left = folder.join("bucket").join(of_manifest).join("0123456789abcdef0123456789abcdef");
    std::fs::create_dir_all(left.parent().unwrap()).unwrap();
    std::fs::write(&left, "").unwrap();
    std::thread::scope(|scope| {
        let pushing = scope.spawn(|| machine.push(&world, &server.bucket(), NOW));
        while !machine.lines.all().contains("waiting: somebody else writes") {
            assert!(!pushing.is_finished(), "{}", machine.lines.all());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        std::fs::remove_file(&left).unwrap();
        assert_eq!(pushing.join().unwrap().unwrap().manifests, 2);
    });
}

#[test]
fn an_s3_server_is_cleaned_too() {
    for careless in [false, true] {
        let world = World::new();
        let folder = world.folder.path().join("s3");
        let server = if careless { Server::careless(&folder) } else { Server::start(&folder) };
        let machine = world.machine("publisher");
        fill(&machine.stash(), "game", 0..5);
        machine.push(&world, &server.bucket(), NOW).unwrap();
        let left = folder.join("bucket/some/prefix/v1/segments");
        std::fs::write(left.join("0".repeat(64)), "of a push that was killed").unwrap();
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
        let request = clean::Request { older_than: 0, removes: true, now };
        let lines = Arc::new(Lines::default());
        let cleaned = wait(clean::clean(&server.bucket(), &world.signer, &request, lines)).unwrap();
        assert_eq!((cleaned.segments, cleaned.named), (1, 2));
        assert_eq!(files(&left).len(), 2);
    }
}
