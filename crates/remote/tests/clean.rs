//! `clean`: what no manifest names is removed, and nothing else, also while others push.

use std::fs;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use vkstash_remote::bucket::Bucket;
use vkstash_remote::clean::{self, CleanError, Cleaned};
use vkstash_remote::key::Signer;
use vkstash_remote::pull::Failure;

use crate::support::*;

const LONG: Duration = Duration::from_secs(60);

fn clean(world: &World, bucket: &Bucket, days: u64, removes: bool) -> Result<Cleaned, CleanError> {
    let request = clean::Request { older_than: days * DAY, removes, now: now() };
    wait(clean::clean(bucket, &world.signer, &request, Arc::new(Lines::default())))
}

fn now() -> u64 {
    std::time::UNIX_EPOCH.elapsed().unwrap().as_secs()
}

/// A store with segments that manifests name, and two that none does.
fn world() -> World {
    let world = World::new();
    let publisher = world.published(0..5);
    // Another machine has published since, and what it has merged is what is named.
    let other = world.machine("other");
    fill(&other.stash(), "game", 5..9);
    other.push(&world, &world.bucket(), NOW + 1).unwrap();
    publisher.pull(&world, NOW + 2);
    let request = vkstash_remote::push::Request { compact: true, ..push_request(&publisher, NOW + 2) };
    let (bucket, trust) = (world.bucket(), world.trust());
    let pushed = vkstash_remote::push::push(
        &bucket,
        &publisher.home,
        &trust,
        &world.signer,
        &request,
        publisher.lines.clone(),
    );
    assert_eq!(wait(pushed).unwrap().manifests, 2);
    world
}

fn segments(world: &World) -> usize {
    files(&world.store().join("v1/segments")).len()
}

/// A new machine gets these, and nothing else.
fn serves(world: &World, numbers: impl IntoIterator<Item = u64>) {
    let machine = world.machine("new");
    let pulled = machine.pull(world, NOW + 3);
    assert!(pulled.failures.is_empty(), "{}", machine.lines.all());
    assert_eq!(machine.served(0..99), numbers.into_iter().collect::<Vec<_>>());
}

#[test]
fn what_no_manifest_names_is_removed_once_it_is_old_enough() {
    let world = world();
    let (bucket, before) = (world.bucket(), segments(&world));
    let counted = clean(&world, &bucket, 0, false).unwrap();
    assert_eq!((counted.segments, counted.named, counted.kept), (4, 2, 0));
    assert_eq!(segments(&world), before, "nothing is removed unless that is asked for");
    assert_eq!(clean(&world, &bucket, 1, true).unwrap(), Cleaned { kept: 4, named: 2, ..Cleaned::default() });
    let bytes =
        |world: &World| -> usize { files(&world.store().join("v1/segments")).values().map(Vec::len).sum() };
    let all = bytes(&world);
    assert_eq!(clean(&world, &bucket, 0, true).unwrap(), counted);
    assert_eq!((segments(&world), all - bytes(&world)), (2, counted.bytes as usize));
    serves(&world, 0..9);
    assert_eq!(clean(&world, &bucket, 0, true).unwrap(), Cleaned { named: 2, ..Cleaned::default() });
    // Nothing of it is left in the store.
    for folder in ["v1/removing", "v1/pushing"] {
        assert!(files(&world.store().join(folder)).is_empty(), "{folder}");
    }
}

#[test]
fn where_it_is_not_known_what_is_named_nothing_is_removed() {
    let refused = |world: &World, bucket: &Bucket, signer: &Signer, reason: &str| {
        let before = segments(world);
        let request = clean::Request { older_than: 0, removes: true, now: now() };
        let error = wait(clean::clean(bucket, signer, &request, Arc::new(Lines::default()))).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
        assert_eq!((error.failure(), segments(world)), (Failure::Refused, before));
        assert!(files(&world.store().join("v1/removing")).is_empty());
    };
    let world = world();
    let bucket = world.bucket();
    let stranger = Signer::generate().unwrap();
    refused(&world, &bucket, &stranger, "this key has signed no manifest");
    let endless = Faulty::new(&world.store(), Fault::EndlessList, true);
    refused(&world, &endless.bucket(LONG), &world.signer, "longer than it may be");
    // What somebody else has signed counts.
    let manifest = world.manifest();
    let bytes = fs::read(&manifest).unwrap();
    let body = bytes.iter().position(|&byte| byte == b'{').unwrap();
    fs::write(&manifest, stranger.sign(&bytes[body..]).unwrap()).unwrap();
    assert_eq!(clean(&world, &bucket, 0, false).unwrap().named, 2);
    fs::write(&manifest, "nonsense").unwrap();
    refused(&world, &bucket, &world.signer, "cannot be read");
    fs::remove_dir_all(world.store().join("v1/manifests")).unwrap();
    refused(&world, &bucket, &world.signer, "there is no manifest");
}

/// The push has sent its segments, and no manifest names them yet.
#[test]
fn what_a_push_has_announced_stays() {
    let world = world();
    let machine = world.machine("late");
    fill(&machine.stash(), "game", 20..25);
    let gated = Faulty::gated(&world.store(), "put", "v1/manifests");
    std::thread::scope(|scope| {
        let pushing = scope.spawn(|| machine.push(&world, &gated.bucket(LONG), NOW + 2));
        while !gated.gate.is_reached() {
            assert!(!pushing.is_finished(), "{}", machine.lines.all());
            std::thread::sleep(Duration::from_millis(2));
        }
        let cleaned = clean(&world, &world.bucket(), 0, true).unwrap();
        assert_eq!((cleaned.segments, cleaned.kept), (4, 1));
        gated.gate.open();
        assert_eq!(pushing.join().unwrap().unwrap().manifests, 2);
    });
    serves(&world, (0..9).chain(20..25));
}

/// The process that removes segments may be about to remove what the push is about to find.
#[test]
fn a_push_waits_for_whoever_removes_segments_and_says_so() {
    let world = world();
    let machine = world.machine("late");
    fill(&machine.stash(), "game", 20..25);
    let gated = Faulty::gated(&world.store(), "delete", "v1/segments");
    std::thread::scope(|scope| {
        let cleaning = scope.spawn(|| clean(&world, &gated.bucket(LONG), 0, true));
        while !gated.gate.is_reached() {
            assert!(!cleaning.is_finished());
            std::thread::sleep(Duration::from_millis(2));
        }
        let before = segments(&world);
        let pushing = scope.spawn(|| machine.push(&world, &world.bucket(), NOW + 2));
        while !machine.lines.all().contains("waiting: somebody removes segments") {
            assert!(!pushing.is_finished(), "{}", machine.lines.all());
            std::thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(segments(&world), before, "nothing is sent");
        gated.gate.open();
        assert_eq!(cleaning.join().unwrap().unwrap().segments, 4);
        assert_eq!(pushing.join().unwrap().unwrap().manifests, 2);
    });
    serves(&world, (0..9).chain(20..25));
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_vkstash-remote");

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Two programs at a time, again and again: what was published can be pulled in the end.
#[test]
fn programs_that_push_and_remove_at_once_lose_nothing() {
    let world = World::new();
    let (folder, url) = (world.folder.path(), format!("file://{}", world.store().display()));
    let (key, signers) = (folder.join("key"), folder.join("signers.toml"));
    let made = Command::new(PROGRAM).args(["key", "--no-password"]).arg(&key).output().unwrap();
    fs::write(&signers, made.stdout).unwrap();
    let push = |number: u64, extra: &[&str]| {
        let name = format!("machine {}", number % 2);
        let stash = folder.join(&name).join("stash");
        fill(&stash, "game", number..number + 1);
        let mut command = Command::new(PROGRAM);
        command
            .args(["push", "--to", &url])
            .args(extra)
            .arg("--key")
            .arg(&key)
            .arg("--signers")
            .arg(&signers);
        command.arg("--dir").arg(&stash).arg("--into").arg(folder.join(name).join("remote"));
        let told = command.output().unwrap();
        assert_eq!(told.status.code(), Some(0), "{}", said(&told));
    };
    let clean = || {
        let mut command = Command::new(PROGRAM);
        command.args(["clean", "--to", &url, "--older-than", "0", "--remove"]).arg("--key").arg(&key);
        let told = command.output().unwrap();
        assert_eq!(told.status.code(), Some(0), "{}", said(&told));
        said(&told)
    };
    push(0, &[]);
    std::thread::scope(|scope| {
        let pushing = [0, 1].map(|odd| scope.spawn(move || (1..7).for_each(|at| push(at * 2 + odd, &[]))));
        while pushing.iter().any(|pushing| !pushing.is_finished()) {
            clean();
        }
    });
    let mut command = Command::new(PROGRAM);
    command.args(["pull", "--from", &url]).arg("--signers").arg(&signers).arg("--dir").arg(folder.join("no"));
    let told = command.arg("--into").arg(folder.join("new")).output().unwrap();
    assert_eq!(told.status.code(), Some(0), "{}", said(&told));
    let found = served(&folder.join("new/base"), "game", 0..20);
    assert_eq!(found, [0].into_iter().chain(2..14).collect::<Vec<_>>());
    assert!(clean().contains("0 segments"));
    // Without the word nothing is removed.
    let left = world.store().join("v1/segments").join("0".repeat(64));
    fs::write(&left, "of a push that was killed").unwrap();
    for (arguments, stays) in [(&[][..], true), (&["--dry-run"], true), (&["--remove"], false)] {
        let mut command = Command::new(PROGRAM);
        command.args(["clean", "--to", &url, "--older-than", "0"]).args(arguments).arg("--key").arg(&key);
        let told = command.output().unwrap();
        assert!(told.status.success() && said(&told).contains("1 segments, 25 B, "), "{}", said(&told));
        assert_eq!(left.exists(), stays);
    }
}

/// A mistake in the address, or a disk that is not mounted, must not look like a store that is clean.
#[test]
fn a_folder_that_is_not_there_is_an_error_and_is_not_made() {
    let world = World::new();
    let (key, missing) = (world.folder.path().join("key"), world.folder.path().join("missing"));
    let made = Command::new(PROGRAM).args(["key", "--no-password"]).arg(&key).output().unwrap();
    assert!(made.status.success(), "{}", said(&made));
    for arguments in [&[][..], &["--remove"]] {
        let mut command = Command::new(PROGRAM);
        command.args(["clean", "--to", &format!("file://{}", missing.display())]).args(arguments);
        let told = command.arg("--key").arg(&key).output().unwrap();
        assert_eq!(told.status.code(), Some(3), "{}", said(&told));
        assert!(said(&told).contains("cannot be reached"), "{}", said(&told));
        assert!(!missing.exists());
    }
}
