//! Lists of artifacts that must not reach a driver any more (docs/remote.md).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::manifest::{LARGEST_COUNTER, ManifestError};
use crate::names::{self, Digest, Target};

/// The longest list, in bytes.
pub const LONGEST: u64 = 4 << 20;
/// The most artifacts in one list of revocations.
pub const MOST: usize = 32_768;
const FORMAT: &str = "vkstash revocations 1";

/// What is revoked of one application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocations {
    /// The folder of the application.
    pub application: String,
    /// Grows with each publication.
    pub counter: u64,
    /// The artifacts.
    pub artifacts: BTreeSet<Revoked>,
}

/// An artifact.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revoked {
    /// The digits of the device.
    pub device: String,
    /// The key.
    #[serde(with = "crate::manifest::digest")]
    pub key: Digest,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    format: String,
    application: String,
    counter: u64,
    artifacts: Vec<Revoked>,
}

impl Revocations {
    /// The text that is signed.
    pub fn encode(&self) -> Vec<u8> {
        let text = Text {
            format: FORMAT.to_owned(),
            application: self.application.clone(),
            counter: self.counter,
            artifacts: self.artifacts.iter().cloned().collect(),
        };
        let mut bytes = serde_json::to_vec(&text).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// Reads the list of this application.
    pub fn decode(bytes: &[u8], application: &str) -> Result<Revocations, ManifestError> {
        if bytes.len() as u64 > LONGEST {
            return Err(ManifestError::TooLong);
        }
        let text: Text =
            serde_json::from_slice(bytes).map_err(|error| ManifestError::Form(error.to_string()))?;
        if text.format != FORMAT {
            return Err(ManifestError::Form("another version".to_owned()));
        }
        if text.application != application || names::application(application).is_none() {
            return Err(ManifestError::Application);
        }
        if !(1..=LARGEST_COUNTER).contains(&text.counter) {
            return Err(ManifestError::Value("counter"));
        }
        if text.artifacts.len() > MOST {
            return Err(ManifestError::Value("number of artifacts"));
        }
        let is_device = |device: &str| matches!(Target::parse(device), Some(Target::Device(_)));
        if !text.artifacts.iter().all(|artifact| is_device(&artifact.device)) {
            return Err(ManifestError::Value("device"));
        }
        let artifacts = text.artifacts.into_iter().collect();
        Ok(Revocations { application: text.application, counter: text.counter, artifacts })
    }
}
