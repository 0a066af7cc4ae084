//! Names of objects in a bucket, and of files that are made of them. Every name that comes from a bucket passes here.

use object_store::path::Path;
use sha2::{Digest as _, Sha256};

use vkstash_model::app_name::AppName;

/// The longest name of an application's folder.
const LONGEST_APPLICATION: usize = 80;

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// From 64 hexadecimal digits in lower case.
    pub fn parse(text: &str) -> Option<Digest> {
        let mut bytes = [0; 32];
        let is_lower = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (is_lower && hex::decode_to_slice(text, &mut bytes).is_ok()).then_some(Digest(bytes))
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// The name of an application's folder, if it is one that this program makes.
pub fn application(name: &str) -> Option<AppName> {
    AppName::of_folder(name).filter(|_| name.len() <= LONGEST_APPLICATION)
}

/// Whom a manifest is for: a device, by the first 16 hexadecimal digits of its header's digest; or all devices without
/// a manifest of their own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// Everybody: portable records only.
    Portable,
    /// The digits.
    Device(String),
}

impl Target {
    /// From its name in the bucket.
    pub fn parse(name: &str) -> Option<Target> {
        if name == "portable" {
            return Some(Target::Portable);
        }
        let is_hex = name.len() == 16 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_hex.then(|| Target::Device(name.to_owned()))
    }

    /// Its name in the bucket.
    pub fn name(&self) -> &str {
        match self {
            Target::Portable => "portable",
            Target::Device(digits) => digits,
        }
    }

    /// The folder of its part in a stash.
    pub fn folder(&self) -> String {
        match self {
            Target::Portable => "portable".to_owned(),
            Target::Device(digits) => format!("device-{digits}"),
        }
    }
}

/// The place of a segment.
pub(crate) fn segment(sha256: &Digest) -> Path {
    Path::from_iter(["v1", "segments", &sha256.to_string()])
}

/// The folder of all manifests.
pub(crate) fn manifests() -> Path {
    Path::from_iter(["v1", "manifests"])
}

/// The place of a manifest.
pub(crate) fn manifest(application: &str, target: &Target) -> Path {
    Path::from_iter(["v1", "manifests", application, target.name()])
}

/// The place of an application's revocations.
pub(crate) fn revocations(application: &str) -> Path {
    Path::from_iter(["v1", "revocations", application])
}

/// The folder of what was pushed without a key.
pub(crate) fn inbox() -> Path {
    Path::from_iter(["v1", "inbox"])
}

/// The place of a segment that is pushed without a key.
pub(crate) fn in_inbox(application: &str, sha256: &Digest) -> Path {
    Path::from_iter(["v1", "inbox", application, &sha256.to_string()])
}

/// The name of a segment's file in a base: such names sort by age.
pub(crate) fn file(age: u64, sha256: &Digest) -> String {
    format!("{age:016x}-{sha256}.vks")
}

/// The digest in the name of such a file.
pub(crate) fn of_file(name: &str) -> Option<Digest> {
    Digest::parse(name.strip_suffix(".vks")?.split_once('-')?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_none() {
        let hostile =
            ["..", "../x-01234567-89abcdef", "a/b-01234567-89abcdef", "", ".", "x-01234567-89abcdeF", "/etc"];
        for name in hostile {
            assert!(application(name).is_none() && Target::parse(name).is_none(), "{name}");
        }
        assert!(application(&format!("{}-0123456789abcdef", "x".repeat(64))).is_none());
        assert!(application("game-01234567-89abcdef").is_some());
        assert_eq!(Target::parse("portable"), Some(Target::Portable));
        assert!(Target::parse("0123456789abcdef").is_some());
        assert!(Digest::parse(&"A".repeat(64)).is_none() && Digest::parse(&"a".repeat(63)).is_none());
        let digest = Digest::of(b"x");
        assert_eq!(of_file(&file(7, &digest)), Some(digest));
    }
}
