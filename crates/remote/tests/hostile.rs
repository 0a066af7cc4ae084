//! Tests of hostile stores: whatever a store holds, the existing base stays as it was, as long as its signer is
//! trusted.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use vkstash_model::check;
use vkstash_model::failed::Refusals;
use vkstash_model::payload::{self, ShaderBinaries};
use vkstash_model::record::{CRASH_LIMIT, Kind};
use vkstash_remote::key::Signer;
use vkstash_remote::manifest::{Content, Manifest, Segment};
use vkstash_remote::names::{Digest, Target};
use vkstash_remote::pull::{Failure, Pulled};
use vkstash_remote::push;
use vkstash_remote::segment::{Unknown, verify};
use vkstash_remote::trust::Trust;
use vkstash_store::stash::open::Stash;

use crate::support::*;

/// A machine with a base of three artifacts, and a store that has four.
struct Scene {
    world: World,
    other: Machine,
    before: BTreeMap<PathBuf, Vec<u8>>,
}

impl Scene {
    fn new() -> Scene {
        let world = World::new();
        let publisher = world.published(0..3);
        let other = world.machine("other");
        other.pull(&world, NOW);
        let before = files(&other.home.base());
        fill(&publisher.stash(), "game", 3..4);
        publisher.push(&world, &world.bucket(), NOW + 1).unwrap();
        Scene { world, other, before }
    }

    fn manifest(&self) -> Manifest {
        let bytes = fs::read(self.world.manifest()).unwrap();
        let folder = app("game").folder;
        let trust = self.world.trust();
        let (body, _) = trust.verify(&bytes, &folder).unwrap();
        Manifest::decode(body, &folder, &Target::Device(header().short_digest())).unwrap()
    }

    /// Puts a signed text in the place of the manifest.
    fn sign(&self, text: &[u8]) {
        fs::write(self.world.manifest(), self.world.signer.sign(text).unwrap()).unwrap();
    }

    /// A pull is refused for that reason, the base stays, and a pull of the true manifest works afterwards.
    fn is_refused(&self, reason: &str) -> Pulled {
        let pulled = self.other.pull(&self.world, NOW + 2);
        self.stayed(&pulled, Failure::Refused, reason);
        pulled
    }

    fn stayed(&self, pulled: &Pulled, failure: Failure, reason: &str) {
        let lines = self.other.lines.all();
        assert_eq!(pulled.failures, [failure], "{lines}");
        assert!(lines.contains(reason), "{lines}");
        assert!(lines.lines().all(|line| !line.contains('\u{1b}')) && lines.lines().count() == 1, "{lines}");
        assert!(files(&self.other.home.base()) == self.before);
    }

    /// What is refused now is what the base was made by.
    fn is_put_aside(&self, pulled: &Pulled) {
        let lines = self.other.lines.all();
        assert_eq!(pulled.failures, [Failure::Refused], "{lines}");
        assert_eq!(lines.matches("no pinned signer has signed it").count(), 2, "{lines}");
        assert!(files(&self.other.home.base()).is_empty());
    }

    /// The segment that is new, as a file of the store.
    fn new_segment(&self) -> (Segment, PathBuf) {
        let manifest = self.manifest();
        let segment =
            manifest.segments.iter().rfind(|segment| segment.content == Content::Artifacts).unwrap();
        (segment.clone(), self.world.store().join("v1/segments").join(segment.sha256.to_string()))
    }

    /// Publishes this file as a segment.
    fn publish(&self, bytes: &[u8], content: Content) {
        let sha256 = Digest::of(bytes);
        fs::write(self.world.store().join("v1/segments").join(sha256.to_string()), bytes).unwrap();
        let mut manifest = self.manifest();
        manifest.counter += 1;
        manifest.segments.push(Segment { sha256, bytes: bytes.len() as u64, content, age: 1 });
        self.sign(&manifest.encode());
    }
}

#[test]
fn what_the_tests_begin_with_works() {
    let scene = Scene::new();
    assert_eq!(scene.other.pull(&scene.world, NOW + 2).updated, 1);
    assert_eq!(scene.other.served(0..9), [0, 1, 2, 3]);
}

#[test]
fn a_segment_with_another_digest_is_refused() {
    let scene = Scene::new();
    let (_, path) = scene.new_segment();
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    scene.is_refused("is not what its name says");
}

#[test]
fn a_segment_that_is_missing_changes_nothing() {
    let scene = Scene::new();
    fs::remove_file(scene.new_segment().1).unwrap();
    let pulled = scene.other.pull(&scene.world, NOW + 2);
    scene.stayed(&pulled, Failure::Offline, "is not there");
}

/// The bytes of the one segment of a part of a new stash.
fn segment(portable: bool, fill: impl FnOnce(&Stash)) -> Vec<u8> {
    let root = scratch();
    let stash = Stash::open_patiently(root.path(), &app("game")).unwrap();
    fill(&stash);
    drop(stash);
    let found = files(&root.path().join(app("game").folder));
    let prefix = if portable { "portable" } else { "device-" };
    let of_part = |path: &&PathBuf| {
        path.to_str().unwrap().starts_with(prefix) && path.extension().is_some_and(|e| e == "vks")
    };
    let path = found.keys().find(of_part).unwrap();
    found[path].clone()
}

#[test]
fn segments_whose_content_is_hostile_are_refused_although_their_digest_is_right() {
    let module = |key: [u8; 32]| {
        segment(true, |stash| assert!(stash.portable().put(Kind::Module, &key, vec![0; 64].into())))
    };
    let device = |kind: Kind, payload: Vec<u8>| {
        segment(false, |stash| {
            assert!(stash.device(&header()).unwrap().put(kind, &key(1), payload.into()));
        })
    };
    let mut torn = device(Kind::Artifact, artifact(1));
    torn.truncate(torn.len() - 8);
    let mut flipped = device(Kind::Artifact, artifact(1));
    let middle = 192 + 64 + 40;
    flipped[middle] ^= 1;
    let other_device = segment(false, |stash| {
        let other = vkstash_store::format::device::DeviceHeader { driver_version: 1, ..header() };
        assert!(stash.device(&other).unwrap().put(Kind::Artifact, &key(1), artifact(1).into()));
    });
    for (what, bytes, content, reason) in [
        ("another module", module([5; 32]), Content::Portable, "not what its key says"),
        ("artifacts as portable", device(Kind::Artifact, artifact(1)), Content::Portable, "part"),
        ("portable as artifacts", module([5; 32]), Content::Artifacts, "part"),
        ("another device", other_device, Content::Artifacts, "driver version"),
        ("too short an artifact", device(Kind::Artifact, vec![1; 5]), Content::Artifacts, "(artifact)"),
        ("crash counts", device(Kind::CrashCount, vec![9]), Content::Artifacts, "crash"),
        ("a verdict", device(Kind::Verified, vec![]), Content::Artifacts, "verified"),
        ("a torn file", torn, Content::Artifacts, "not sealed"),
        ("a damaged record", flipped, Content::Artifacts, "damaged"),
        ("noise", noise(1, 5000), Content::Artifacts, "segment"),
        ("zeros", vec![0; 5000], Content::Artifacts, "segment"),
    ] {
        let scene = Scene::new();
        scene.publish(&bytes, content);
        scene.is_refused(reason);
        let part = format!("{}.part", Digest::of(&bytes));
        assert!(!scene.other.dir.join("remote/tmp").join(part).exists(), "{what}");
    }
}

/// The file is that of crates/store/src/tests/golden.rs.
#[test]
fn records_of_a_later_version_cost_nothing_where_a_trusted_signer_answers_for_them() {
    let scene = Scene::new();
    let later = include_bytes!("../../store/tests/golden/later-v2.vks");
    scene.publish(later, Content::Artifacts);
    let pulled = scene.other.pull(&scene.world, NOW + 2);
    assert_eq!((pulled.updated, pulled.failures.len()), (1, 0), "{}", scene.other.lines.all());
    assert_eq!(scene.other.served(0..9), [0, 1, 2, 3], "the other segments serve");
    let folder = scratch();
    fs::write(folder.path().join("x.vks"), later).unwrap();
    let verify = |unknown| verify(folder.path(), "x.vks", Some(&header()), u64::MAX, unknown);
    assert_eq!(verify(Unknown::Taken).unwrap().records, 3);
    assert!(verify(Unknown::Refused).unwrap_err().to_string().contains("(unknown)"));

    // Who does not know all records of a segment does not replace it.
    let publisher = scene.world.machine("publisher");
    publisher.pull(&scene.world, NOW + 3);
    let request = push::Request { compact: true, ..push_request(&publisher, NOW + 4) };
    let (bucket, trust) = (scene.world.bucket(), scene.world.trust());
    let progress = publisher.lines.clone();
    wait(push::push(&bucket, &publisher.home, &trust, &scene.world.signer, &request, progress)).unwrap();
    let named = scene.manifest().segments;
    assert!(named.iter().any(|segment| segment.sha256 == Digest::of(later)), "{named:?}");
}

/// What a program records is what others take: every kind, and every form of an artifact.
#[test]
fn whatever_a_machine_publishes_others_take() {
    let world = World::new();
    let publisher = world.machine("publisher");
    fill(&publisher.stash(), "game", 0..2);
    let stash = Stash::open_patiently(&publisher.stash(), &app("game")).unwrap();
    let device = stash.device(&header()).unwrap();
    let made_by = ShaderBinaries { uuid: [7; 16], version: 3, options: [0; 32] };
    let data = noise(5, 900);
    let shaders =
        payload::shaders_payload(Duration::from_millis(3), Refusals::NONE, &made_by, &[&data, &data])
            .unwrap();
    assert!(device.put(Kind::Artifact, &key(10), shaders.as_slice().into()));
    for kind in Kind::ALL.into_iter().filter(|kind| check::travel(*kind).is_of_a_device()) {
        let payload = match kind {
            // They are above, and follow from those.
            Kind::Artifact | Kind::Same => continue,
            Kind::IdentifierPair => vec![1; 32],
            Kind::CrashCount => vec![1],
            Kind::Estimates => vec![0; 40],
            _ => vec![4, 0, 0, 0],
        };
        assert!(device.put(kind, &key(20), payload.into()));
    }
    drop((device, stash));
    publisher.push(&world, &world.bucket(), NOW).unwrap();
    let other = world.machine("other");
    let pulled = other.pull(&world, NOW + 1);
    assert_eq!((pulled.updated, pulled.failures.len()), (1, 0), "{}", other.lines.all());
    let run = vkstash_store::stash::uses::Run::of_this_process();
    let long = Some(Duration::from_secs(600));
    let own = scratch();
    let stash =
        Stash::open_in_run(own.path(), vec![other.home.base()], &app("game"), run, long, long).unwrap();
    let part = stash.device(&header()).unwrap();
    let mut read = Vec::new();
    assert!(part.read(Kind::Artifact, &key(10), &mut read) && read == shaders);
}

/// Programs died of the data, whatever its keys are.
#[test]
fn data_of_a_quarantined_artifact_is_not_published_under_another_key() {
    let world = World::new();
    let publisher = world.machine("publisher");
    fill(&publisher.stash(), "game", 1..2);
    let one_run = |records: &[(Kind, u64, Vec<u8>)]| {
        let stash = Stash::open_patiently(&publisher.stash(), &app("game")).unwrap();
        let device = stash.device(&header()).unwrap();
        for (kind, number, payload) in records {
            assert!(device.put(*kind, &key(*number), payload.as_slice().into()));
        }
        device.len(Kind::Same)
    };
    one_run(&[(Kind::Artifact, 0, artifact(0)), (Kind::Artifact, 5, artifact(0))]);
    assert_eq!(one_run(&[(Kind::CrashCount, 0, vec![CRASH_LIMIT])]), 1);
    publisher.push(&world, &world.bucket(), NOW).unwrap();
    let other = world.machine("other");
    other.pull(&world, NOW + 1);
    assert_eq!(other.served(0..5), [1]);
    let bases = files(&other.home.base());
    let data = &artifact(0)[8..];
    assert!(!bases.values().any(|bytes| bytes.windows(data.len()).any(|found| found == data)));
}

#[test]
fn a_record_that_the_index_hides_is_refused() {
    let scene = Scene::new();
    let mut bytes = segment(true, |stash| {
        let code = noise(1, 400);
        let identity = vkstash_model::identifier::module_identity(Default::default(), &code);
        assert!(stash.portable().put(Kind::Module, &identity, [&[0; 4][..], &code].concat().into()));
    });
    // The row of the index: one record, and its block is not damaged.
    let end = bytes.len();
    let index = u64::from_le_bytes(bytes[end - 256 + 8..end - 256 + 16].try_into().unwrap()) as usize;
    let block = index + 64;
    bytes[block + 4..block + 8].copy_from_slice(&0_u32.to_le_bytes());
    bytes[block + 16..block + 36].fill(0);
    let sum = crc32c(&bytes[block + 4..block + 4096]);
    bytes[block..block + 4].copy_from_slice(&sum.to_le_bytes());
    scene.publish(&bytes, Content::Portable);
    scene.is_refused("more or less than its index says");
}

/// Bit by bit: the tests need no crate for it.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| (sum >> 1) ^ (0x82F6_3B78 & 0_u32.wrapping_sub(sum & 1)))
    })
}

#[test]
fn manifests_that_claim_what_cannot_be_are_refused() {
    let change = |change: &dyn Fn(&mut Manifest)| {
        let scene = Scene::new();
        let mut manifest = scene.manifest();
        manifest.counter += 1;
        change(&mut manifest);
        scene.sign(&manifest.encode());
        scene
    };
    change(&|manifest| manifest.segments[0].bytes = u64::MAX).is_refused("impossible size");
    change(&|manifest| manifest.segments[0].bytes = 0).is_refused("impossible size");
    change(&|manifest| manifest.segments[0].age = u64::MAX).is_refused("impossible age");
    change(&|manifest| manifest.counter = u64::MAX).is_refused("impossible counter");
    change(&|manifest| manifest.expires = u64::MAX).is_refused("impossible time");
    change(&|manifest| manifest.segments.push(manifest.segments[0].clone())).is_refused("second mention");
    change(&|manifest| manifest.application = "../../etc-01234567-89abcdef".to_owned())
        .is_refused("application");
    change(&|manifest| manifest.application = app("other").folder).is_refused("another application");
    change(&|manifest| manifest.device.as_mut().unwrap().driver_version += 1).is_refused("another device");
    change(&|manifest| manifest.device = None).is_refused("another device");
    let many = |count: u64| {
        move |manifest: &mut Manifest| {
            let segment = manifest.segments[0].clone();
            let each = |number: u64| Segment { sha256: Digest::of(&number.to_le_bytes()), ..segment.clone() };
            manifest.segments = (0..count).map(each).collect();
        }
    };
    change(&many(5000)).is_refused("impossible number of segments");
    change(&many(10_000)).is_refused("longer than it may be");
}

#[test]
fn texts_that_are_no_manifests_are_refused() {
    let scene = Scene::new();
    for text in ["", "{}", "[[[[", "null", "\u{1b}[2J"] {
        let scene = Scene::new();
        scene.sign(text.as_bytes());
        scene.is_refused("not a manifest");
    }
    fs::write(scene.world.manifest(), noise(5, 3000)).unwrap();
    scene.is_refused("not signed text");
    let scene = Scene::new();
    scene.sign(&vec![b'['; 900_000]);
    scene.is_refused("not a manifest");
}

#[test]
fn signatures_of_others_are_refused() {
    let scene = Scene::new();
    let stranger = Signer::generate().unwrap();
    let mut manifest = scene.manifest();
    manifest.counter += 1;
    fs::write(scene.world.manifest(), stranger.sign(&manifest.encode()).unwrap()).unwrap();
    scene.is_refused("no pinned signer");
    // A signer that is pinned for another application.
    let scene = Scene::new();
    let others = trust(&scene.world.signer, "other*", Content::Artifacts);
    let pulled = scene.other.pull_from(&scene.world.bucket(), &others, NOW + 2).unwrap();
    scene.is_put_aside(&pulled);
    // A signature that belongs to other bytes.
    let scene = Scene::new();
    let mut bytes = fs::read(scene.world.manifest()).unwrap();
    *bytes.last_mut().unwrap() = b' ';
    fs::write(scene.world.manifest(), bytes).unwrap();
    scene.is_refused("no pinned signer");
}

#[test]
fn a_replay_of_an_older_manifest_is_refused() {
    let scene = Scene::new();
    let today = fs::read(scene.world.manifest()).unwrap();
    scene.other.pull(&scene.world, NOW + 2);
    let before = files(&scene.other.home.base());
    let mut manifest = scene.manifest();
    manifest.counter -= 1;
    manifest.segments.pop();
    scene.sign(&manifest.encode());
    let scene = Scene { before, ..scene };
    scene.is_refused("it is older than what this machine has");
    // A manifest with the same counter that says something else.
    let scene = Scene { other: Machine { lines: Default::default(), ..scene.other }, ..scene };
    manifest.counter += 1;
    scene.sign(&manifest.encode());
    scene.is_refused("has the same counter");
    // The true one again, under another tag, is no news.
    fs::write(scene.world.manifest(), today).unwrap();
    let pulled = scene.other.pull(&scene.world, NOW + 2);
    assert_eq!((pulled.unchanged, pulled.failures.len()), (1, 0));
}

#[test]
fn an_expired_manifest_is_refused_whether_or_not_it_is_new() {
    let scene = Scene::new();
    let (bucket, trust) = (scene.world.bucket(), scene.world.trust());
    let pulled = scene.other.pull_from(&bucket, &trust, NOW + 91 * DAY).unwrap();
    scene.stayed(&pulled, Failure::Refused, "expired");
    let scene = Scene::new();
    scene.other.pull(&scene.world, NOW + 2);
    let scene = Scene { before: files(&scene.other.home.base()), ..scene };
    let (bucket, trust) = (scene.world.bucket(), scene.world.trust());
    let pulled = scene.other.pull_from(&bucket, &trust, NOW + 91 * DAY).unwrap();
    scene.stayed(&pulled, Failure::Refused, "expired");
    assert_eq!(scene.other.served(0..9), [0, 1, 2, 3]);
}

#[test]
fn servers_that_fail_change_nothing() {
    for (fault, everywhere, failure, reason) in [
        (Fault::Errors, false, Failure::Offline, "on fire"),
        (Fault::Errors, true, Failure::Offline, "on fire"),
        (Fault::Silence, false, Failure::Offline, "no answer in time"),
        (Fault::Silence, true, Failure::Offline, "no answer in time"),
        (Fault::Half, false, Failure::Offline, "ends before its end"),
        (Fault::Endless, false, Failure::Refused, "not what its name says"),
        (Fault::Endless, true, Failure::Refused, "longer than it may be"),
        (Fault::Huge, true, Failure::Refused, "longer than it may be"),
        (Fault::Trickle, false, Failure::Offline, "fewer than 512 bytes a second"),
    ] {
        let scene = Scene::new();
        let faulty = Faulty::new(&scene.world.store(), fault, everywhere);
        // Short, because it is waited for in vain.
        let bucket = faulty.bucket(Duration::from_millis(100));
        let pulled = scene.other.pull_from(&bucket, &scene.world.trust(), NOW + 2).unwrap();
        scene.stayed(&pulled, failure, reason);
        assert_eq!(scene.other.pull(&scene.world, NOW + 2).updated, 1, "{fault:?}");
    }
}

#[test]
fn a_download_goes_on_where_it_broke_off() {
    let world = World::new();
    world.published(0..40);
    let other = world.machine("other");
    let total: u64 = files(&world.store().join("v1/segments")).values().map(|file| file.len() as u64).sum();
    // The server breaks off for good, and the next pull goes on.
    let half = Faulty::new(&world.store(), Fault::Half, false);
    let pulled = other.pull_from(&half.bucket(Duration::from_secs(60)), &world.trust(), NOW).unwrap();
    assert_eq!(pulled.segments, 0);
    let kept: u64 = files(&other.dir.join("remote/tmp")).values().map(|file| file.len() as u64).sum();
    assert!(kept > total / 3, "{kept} of {total}");
    let rest = Faulty::new(&world.store(), Fault::Pieces(9000), false);
    let pulled = other.pull_from(&rest.bucket(Duration::from_secs(60)), &world.trust(), NOW).unwrap();
    assert_eq!((pulled.updated, pulled.failures.len()), (1, 0), "{}", other.lines.all());
    let sent = rest.bytes.load(std::sync::atomic::Ordering::Relaxed);
    assert!(sent < total - kept + 10_000, "{sent} bytes more after {kept} of {total}");
    assert_eq!(other.served(0..40).len(), 40);
}

#[test]
fn what_was_fetched_of_a_manifest_that_could_not_be_followed_is_not_fetched_again() {
    let world = World::new();
    let publisher = world.published(0..20);
    fill(&publisher.stash(), "game", 20..40);
    publisher.push(&world, &world.bucket(), NOW + 1).unwrap();
    // The smallest one is missing for a while.
    let segments = world.store().join("v1/segments");
    let all = files(&segments);
    let total: usize = all.values().map(Vec::len).sum();
    let (missing, bytes) = all.iter().min_by_key(|(_, bytes)| bytes.len()).unwrap();
    std::fs::remove_file(segments.join(missing)).unwrap();
    let other = world.machine("other");
    let pull = || {
        let store = Faulty::new(&world.store(), Fault::None, false);
        let pulled =
            other.pull_from(&store.bucket(Duration::from_secs(60)), &world.trust(), NOW + 1).unwrap();
        (pulled, store.bytes.load(std::sync::atomic::Ordering::Relaxed) as usize)
    };
    let (pulled, first) = pull();
    assert!(!pulled.failures.is_empty() && first > bytes.len(), "{first} {}", other.lines.all());
    std::fs::write(segments.join(missing), bytes).unwrap();
    let (pulled, second) = pull();
    assert_eq!((pulled.updated, pulled.failures.len()), (1, 0), "{}", other.lines.all());
    // Manifests are counted, too.
    assert!(first + second < total + bytes.len() / 2, "{first} + {second} of {total}");
    assert_eq!(other.served(0..40).len(), 40);
}

#[test]
fn a_part_of_a_download_that_was_changed_is_fetched_again() {
    let world = World::new();
    world.published(0..40);
    let other = world.machine("other");
    let half = Faulty::new(&world.store(), Fault::Half, false);
    other.pull_from(&half.bucket(Duration::from_secs(60)), &world.trust(), NOW).unwrap();
    for name in files(&other.dir.join("remote/tmp")).keys() {
        let path = other.dir.join("remote/tmp").join(name);
        fs::write(&path, vec![1; fs::metadata(&path).unwrap().len() as usize]).unwrap();
    }
    assert_eq!(other.pull(&world, NOW).updated, 1, "{}", other.lines.all());
    assert_eq!(other.served(0..40).len(), 40);
}

#[test]
fn a_server_that_sends_whole_objects_alone_is_asked_for_the_whole_after_an_interruption() {
    let world = World::new();
    world.published(0..40);
    let other = world.machine("other");
    let half = Faulty::new(&world.store(), Fault::Half, false);
    other.pull_from(&half.bucket(Duration::from_secs(60)), &world.trust(), NOW).unwrap();
    assert!(!files(&other.dir.join("remote/tmp")).is_empty());
    let other = Machine { lines: Default::default(), ..other };
    let whole = Faulty::new(&world.store(), Fault::NoParts, false);
    let pulled = other.pull_from(&whole.bucket(Duration::from_secs(60)), &world.trust(), NOW).unwrap();
    assert_eq!((pulled.updated, pulled.failures.len()), (1, 0), "{}", other.lines.all());
    // Each byte is told once, however often it came.
    let told = [&other.lines.more, &other.lines.done];
    assert_eq!(told.map(|bytes| bytes.load(std::sync::atomic::Ordering::Relaxed)), [pulled.bytes; 2]);
}

/// The writer of a download that was given up may still be at work.
#[test]
fn a_part_of_a_download_that_somebody_writes_is_left_alone() {
    let world = World::new();
    world.published(0..3);
    let other = world.machine("other");
    let [one, _] =
        files(&world.store().join("v1/segments")).into_keys().collect::<Vec<_>>().try_into().unwrap();
    let part = other.dir.join("remote/tmp").join(format!("{}.part", one.display()));
    fs::write(&part, "of another one").unwrap();
    let writer = fs::File::open(&part).unwrap();
    rustix::fs::flock(&writer, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let store = Faulty::new(&world.store(), Fault::None, false);
    let pulled = other.pull_from(&store.bucket(Duration::from_millis(100)), &world.trust(), NOW).unwrap();
    assert_eq!(pulled.failures, [Failure::Local], "{}", other.lines.all());
    assert_eq!(fs::read(&part).unwrap(), b"of another one");
    drop(writer);
    assert_eq!(other.pull(&world, NOW).failures, [], "{}", other.lines.all());
    assert_eq!(other.served(0..3).len(), 3);
}

#[test]
fn what_its_new_signer_may_not_give_is_dropped_although_the_manifest_is_the_same() {
    let scene = Scene::new();
    scene.other.pull(&scene.world, NOW + 2);
    assert_eq!(scene.other.served(0..9), [0, 1, 2, 3]);
    let portable = Signer::generate().unwrap();
    let manifest = scene.manifest();
    fs::write(scene.world.manifest(), portable.sign(&manifest.encode()).unwrap()).unwrap();
    let both = scene.world.trust().and(trust(&portable, "*", Content::Portable));
    for _ in 0..2 {
        let pulled = scene.other.pull_from(&scene.world.bucket(), &both, NOW + 2).unwrap();
        assert_eq!(pulled.failures, [], "{}", scene.other.lines.all());
        assert!(scene.other.served(0..9).is_empty());
    }
}

#[test]
fn a_segment_that_is_much_longer_than_its_file_is_refused_where_that_is_asked_for() {
    let folder = scratch();
    let zeros = || {
        segment(true, |stash| {
            let code = vec![0; 1 << 20];
            let identity = vkstash_model::identifier::module_identity(Default::default(), &code);
            assert!(stash.portable().put(Kind::Module, &identity, [&[0; 4][..], &code].concat().into()));
        })
    };
    // A writer that is late, on a busy machine, writes the record as it is.
    let bytes = std::iter::repeat_with(zeros).find(|bytes| bytes.len() < 100_000).unwrap();
    fs::write(folder.path().join("x.vks"), bytes).unwrap();
    let verify = |most| verify(folder.path(), "x.vks", None, most, Unknown::Refused);
    assert_eq!(verify(2 << 20).unwrap().records, 1);
    assert!(verify(1 << 20).unwrap_err().to_string().contains("when decompressed"));
}

#[test]
fn without_signers_nothing_is_believed() {
    let scene = Scene::new();
    let pulled = scene.other.pull_from(&scene.world.bucket(), &Trust::default(), NOW + 2).unwrap();
    scene.is_put_aside(&pulled);
}

/// Without tags what is known cannot be asked for.
#[test]
fn a_store_without_tags_can_be_read() {
    let scene = Scene::new();
    let store = Faulty::new(&scene.world.store(), Fault::NoTags, true);
    let bucket = store.bucket(Duration::from_secs(60));
    for updated in [1, 0] {
        let pulled = scene.other.pull_from(&bucket, &scene.world.trust(), NOW + 2).unwrap();
        assert_eq!((pulled.updated, pulled.failures.len()), (updated, 0), "{}", scene.other.lines.all());
    }
    assert_eq!(scene.other.served(0..9), [0, 1, 2, 3]);
}

/// Publishers could not keep out of each other's way.
#[test]
fn a_store_without_conditional_puts_is_refused_before_anything_is_sent() {
    let scene = Scene::new();
    // The library has no conditions for folders, and nobody has its lock.
    let store = Faulty::new(&scene.world.store(), Fault::None, false);
    let bucket = store.bucket(Duration::from_secs(60));
    let before = files(&scene.world.store());
    let machine = scene.world.machine("publisher of another thing");
    fill(&machine.stash(), "game", 4..5);
    for _ in 0..2 {
        let error = machine.push(&scene.world, &bucket, NOW + 2).unwrap_err();
        assert!(error.to_string().contains("lacks conditional puts"), "{error}");
        assert_eq!(error.failure(), Failure::Local);
    }
    let mut after = files(&scene.world.store());
    assert!(after.remove(std::path::Path::new("v1/probe")).is_some_and(|probe| probe.is_empty()));
    assert!(after == before);
}

#[test]
fn a_list_that_has_no_end_is_read_to_a_bound() {
    let scene = Scene::new();
    let store = Faulty::new(&scene.world.store(), Fault::EndlessList, true);
    let request =
        vkstash_remote::pull::Request { all: true, applications: Vec::new(), ..pull_request(NOW + 2) };
    let (bucket, trust) = (store.bucket(Duration::from_secs(60)), scene.world.trust());
    let pulled = wait(vkstash_remote::pull::pull(
        &bucket,
        &scene.other.home,
        &trust,
        &request,
        scene.other.lines.clone(),
    ));
    let looked_at = store.bytes.load(std::sync::atomic::Ordering::Relaxed);
    assert!((100_000..1_100_000).contains(&looked_at), "{looked_at}");
    // What it has that is good counts.
    assert_eq!(pulled.unwrap().failures, []);
    assert_eq!(scene.other.served(0..9), [0, 1, 2, 3]);
}
