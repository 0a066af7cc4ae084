//! The texts of docs/remote.md: golden files can be read, and what is written is the same.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use vkstash_remote::manifest::{Content, Manifest, Reference, Segment};
use vkstash_remote::names::{Digest, Target};
use vkstash_remote::revocations::{Revocations, Revoked};
use vkstash_remote::trust::Trust;

use crate::support::*;

const SIGNERS: &str = include_str!("golden/signers.toml");
const MANIFEST: &[u8] = include_bytes!("golden/manifest-1.txt");
const REVOCATIONS: &[u8] = include_bytes!("golden/revocations-1.txt");

/// An application's folder, as the files name it.
const APPLICATION: &str = "game-6c8682cc-ed736569";

fn manifest() -> Manifest {
    let segment = |byte: u8, content: Content| Segment {
        sha256: Digest([byte; 32]),
        bytes: 1000 + u64::from(byte),
        content,
        age: 1_800_000_000_123,
    };
    Manifest {
        application: APPLICATION.to_owned(),
        device: Some(header()),
        counter: 12,
        created: NOW,
        expires: NOW + 90 * DAY,
        segments: vec![segment(1, Content::Portable), segment(2, Content::Artifacts)],
        revocations: Some(Reference { counter: 3, sha256: Digest([3; 32]) }),
    }
}

fn revocations() -> Revocations {
    let revoked = |byte: u8| Revoked { device: header().short_digest(), key: Digest([byte; 32]) };
    let artifacts = [revoked(1), revoked(2)].into();
    Revocations { application: APPLICATION.to_owned(), counter: 3, artifacts }
}

/// Writes the files anew: `VKSTASH_GOLDEN=write`, for a new version alone.
#[test]
fn golden_files_are_read_and_written() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    if std::env::var_os("VKSTASH_GOLDEN").is_some_and(|value| value == "write") {
        let signer = vkstash_remote::key::Signer::read(&folder.join("signer.key"), || Ok(None)).unwrap();
        fs::write(folder.join("revocations-1.txt"), signer.sign(&revocations().encode()).unwrap()).unwrap();
        fs::write(folder.join("manifest-1.txt"), signer.sign(&manifest().encode()).unwrap()).unwrap();
        return;
    }
    let trust = Trust::parse(SIGNERS).unwrap();
    let (application, target) = (APPLICATION.to_owned(), Target::Device(header().short_digest()));
    let (body, content) = trust.verify(MANIFEST, &application).unwrap();
    assert_eq!(content, Content::Artifacts);
    assert_eq!(Manifest::decode(body, &application, &target), Ok(manifest()));
    assert_eq!(String::from_utf8_lossy(body), String::from_utf8_lossy(&manifest().encode()));
    let (body, _) = trust.verify(REVOCATIONS, &application).unwrap();
    assert_eq!(Revocations::decode(body, &application), Ok(revocations()));
    assert_eq!(String::from_utf8_lossy(body), String::from_utf8_lossy(&revocations().encode()));
    // A list that is full must not be longer than anybody reads.
    assert_eq!(body.iter().filter(|&&byte| byte == b'\n' || byte == b' ').count(), 3, "one line");
    // What is signed as one is not taken for the other.
    assert!(Manifest::decode(body, &application, &target).is_err());
}

#[test]
fn a_file_with_signers_must_be_as_hard_to_change_as_a_program() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("signers.toml");
    fs::write(&file, SIGNERS).unwrap();
    let mode =
        |path: &std::path::Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(&file, 0o644);
    assert_eq!(Trust::read(&file).unwrap().signers.len(), 1);
    for wrong in [0o666, 0o664] {
        mode(&file, wrong);
        assert!(Trust::read(&file).unwrap_err().to_string().contains("others may write"));
    }
    mode(&file, 0o600);
    mode(folder.path(), 0o777);
    assert!(Trust::read(&file).unwrap_err().to_string().contains("others may write"));
    mode(folder.path(), 0o755);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    assert!(Trust::read(&link).is_err());
    fs::write(&file, "x".repeat(70_000)).unwrap();
    assert!(Trust::read(&file).unwrap_err().to_string().contains("too long"));
    for wrong in [
        "[[signer]]\nkey = \"x\"\napplications = []\ncontent = \"portable\"",
        "[[signer]]",
        "signer = 1",
        "x = 2",
    ] {
        fs::write(&file, wrong).unwrap();
        assert!(Trust::read(&file).is_err(), "{wrong}");
    }
}
