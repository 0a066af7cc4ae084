//! The store is an S3 server.

use std::sync::atomic::Ordering;

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

/// Some servers have them and ignore them in silence.
#[test]
fn a_server_that_ignores_conditions_is_refused_before_anything_is_sent() {
    let world = World::new();
    let folder = world.folder.path().join("s3");
    let server = Server::careless(&folder);
    let machine = world.machine("publisher");
    fill(&machine.stash(), "game", 0..3);
    for _ in 0..2 {
        let error = machine.push(&world, &server.bucket(), NOW).unwrap_err();
        assert!(error.to_string().contains("lacks conditional puts"), "{error}");
    }
    let sent: Vec<_> = files(&folder.join("bucket/some/prefix")).into_keys().collect();
    assert_eq!(sent, [std::path::Path::new("v1/probe")]);
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
