//! Pinned signers: whom this machine believes, and what (docs/remote.md). The file that names them must be as hard to
//! change as a program of the user.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use minisign_verify::PublicKey;
use rustix::fs::{CWD, Mode, OFlags};
use serde::Deserialize;

use vkstash_model::app_name::AppName;

use crate::envelope::{Envelope, EnvelopeError};
use crate::manifest::Content;

/// The longest file.
const LONGEST: u64 = 64 << 10;
/// The most signers in one file.
const MOST: usize = 64;

/// Why a file with signers is refused.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another user could have written the file.
    #[error("{} is not used: {reason}", path.display())]
    Unsafe {
        /// The file or its folder.
        path: PathBuf,
        /// What is wrong.
        reason: &'static str,
    },
    /// The file does not say who is trusted.
    #[error("{}: {reason}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// The signers whose manifests are believed.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// In the order of the files.
    pub signers: Vec<Signer>,
}

/// A pinned signer.
#[derive(Clone, Debug)]
pub struct Signer {
    /// What the user calls it.
    pub name: String,
    /// The signer's public key.
    pub key: PublicKey,
    /// Patterns of the folders or names of applications; `*` and `?` stand for other characters.
    pub applications: Vec<String>,
    /// What is taken from it.
    pub content: Content,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(default)]
    signer: Vec<SignerText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignerText {
    #[serde(default)]
    name: String,
    key: String,
    applications: Vec<String>,
    content: Content,
}

impl Trust {
    /// Reads a file that must belong to root or to the user, in a folder for which that is so.
    pub fn read(path: &Path) -> Result<Trust, TrustError> {
        let failed = |source: io::Error| TrustError::File { path: path.to_owned(), source };
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        is_safe(&folder.metadata().map_err(failed)?, folder)?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = rustix::fs::openat(CWD, path, flags, Mode::empty());
        let file = File::from(file.map_err(|error| failed(error.into()))?);
        let found = file.metadata().map_err(failed)?;
        if !found.is_file() {
            return Err(TrustError::Unsafe { path: path.to_owned(), reason: "it is not a file" });
        }
        is_safe(&found, path)?;
        let mut text = String::new();
        file.take(LONGEST + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > LONGEST {
            return Err(TrustError::Unsafe { path: path.to_owned(), reason: "it is too long" });
        }
        Trust::parse(&text).map_err(|reason| TrustError::Form { path: path.to_owned(), reason })
    }

    /// Reads what such a file says.
    pub fn parse(text: &str) -> Result<Trust, String> {
        let text: Text = toml::from_str(text).map_err(|error| error.to_string())?;
        if text.signer.len() > MOST {
            return Err("it names too many signers".to_owned());
        }
        let signers = text.signer.into_iter().map(|signer| {
            let key = PublicKey::from_base64(&signer.key)
                .map_err(|error| format!("a key is none of minisign: {error}"))?;
            let (applications, content) = (signer.applications, signer.content);
            Ok(Signer { name: signer.name, key, applications, content })
        });
        Ok(Trust { signers: signers.collect::<Result<_, String>>()? })
    }

    /// The signers of several files.
    pub fn and(mut self, other: Trust) -> Trust {
        self.signers.extend(other.signers);
        self
    }

    /// What is signed for this application, and the most that its signers may give.
    pub fn verify<'a>(
        &self,
        bytes: &'a [u8],
        application: &str,
    ) -> Result<(&'a [u8], Content), EnvelopeError> {
        let signers: Vec<&Signer> = self.signers.iter().filter(|signer| signer.is_for(application)).collect();
        let keys: Vec<&PublicKey> = signers.iter().map(|signer| &signer.key).collect();
        let (body, at) = Envelope::decode(bytes)?.verify(&keys)?;
        // A key may be named twice.
        let same = signers.iter().filter(|signer| signer.key == signers[at].key);
        Ok((body, same.map(|signer| signer.content).max().unwrap_or(Content::Portable)))
    }
}

impl Signer {
    fn is_for(&self, application: &str) -> bool {
        let display = AppName::of_folder(application).map(|name| name.display).unwrap_or_default();
        let fits = |pattern: &String| {
            let pattern = pattern.as_bytes();
            matches(pattern, application.as_bytes()) || matches(pattern, display.as_bytes())
        };
        self.applications.iter().any(fits)
    }
}

/// Whether nobody but root and the user can change it.
fn is_safe(found: &std::fs::Metadata, path: &Path) -> Result<(), TrustError> {
    let user = rustix::process::geteuid().as_raw();
    let reason = if found.uid() != 0 && found.uid() != user {
        "it belongs to somebody else"
    } else if found.mode() & 0o022 != 0 {
        "others may write to it"
    } else {
        return Ok(());
    };
    Err(TrustError::Unsafe { path: path.to_owned(), reason })
}

/// Whether the text has the form of the pattern.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where the last star was, and up to where it reaches.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte == text[t] => (p, t) = (p + 1, t + 1),
            _ => {
                let Some((at, reach)) = star else { return false };
                star = Some((at, reach + 1));
                (p, t) = (at + 1, reach + 1);
            }
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_applications() {
        for (pattern, text, is_so) in [
            ("*", "", true),
            ("*", "game-0123", true),
            ("game*", "game-0123", true),
            ("game*", "a game", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "xxaxxbx", false),
            ("g?me", "game", true),
            ("game", "games", false),
            ("", "x", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), is_so, "{pattern} {text}");
        }
    }
}
