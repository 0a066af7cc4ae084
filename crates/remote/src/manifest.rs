//! Manifests: what there is for one application on one device (docs/remote.md). What is read here is signed, and still
//! bounded: a signer may have been deceived.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use vkstash_store::format::device::DeviceHeader;

use crate::names::{self, Digest, Target};

/// The longest manifest, in bytes.
pub const LONGEST: u64 = 1 << 20;
/// The most segments in one manifest.
pub const MOST_SEGMENTS: usize = 4096;
/// The largest segment.
pub const LARGEST_SEGMENT: u64 = 1_250 << 20;
/// Smaller than any segment.
pub const SMALLEST_SEGMENT: u64 = 448;
/// The largest counter: it grows by one with each publication.
pub const LARGEST_COUNTER: u64 = 1 << 40;
/// What the text begins with.
const FORMAT: &str = "vkstash manifest 1";
/// A later time is no time. The year 2242, in seconds.
const LATEST: u64 = 1 << 33;

/// Why a manifest is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// The file is longer than any manifest.
    #[error("it is too long")]
    TooLong,
    /// The file is not JSON of a manifest's form.
    #[error("it is not a manifest: {0}")]
    Form(String),
    /// A value that no manifest of this program has.
    #[error("it has an impossible {0}")]
    Value(&'static str),
    /// The manifest is for another application.
    #[error("it is for another application")]
    Application,
    /// The manifest is for another device.
    #[error("it is for another device")]
    Device,
}

/// What segments hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Content {
    /// What fits every driver.
    Portable,
    /// What a driver has made.
    Artifacts,
}

/// A manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The folder of the application.
    pub application: String,
    /// The device. None: the manifest is for devices that have none of their own.
    pub device: Option<DeviceHeader>,
    /// Grows with each publication.
    pub counter: u64,
    /// When it was signed, in seconds since 1970.
    pub created: u64,
    /// When it is refused, in seconds since 1970.
    pub expires: u64,
    /// What there is.
    pub segments: Vec<Segment>,
    /// The list of revoked artifacts that was valid then.
    pub revocations: Option<Reference>,
}

/// A segment in a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// Of the whole file.
    #[serde(with = "digest")]
    pub sha256: Digest,
    /// The length of the file.
    pub bytes: u64,
    /// What it holds.
    pub content: Content,
    /// When it was made, in milliseconds since 1970.
    pub age: u64,
}

/// A list of revocations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// The counter of the file that is referred to.
    pub counter: u64,
    /// Of the whole object.
    #[serde(with = "digest")]
    pub sha256: Digest,
}

/// The device header, as JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Device {
    vendor_id: u32,
    device_id: u32,
    driver_id: u32,
    driver_version: u32,
    pointer_width: u8,
    schema: u32,
    #[serde(with = "hex::serde")]
    pipeline_cache_uuid: [u8; 16],
    #[serde(with = "hex::serde")]
    features_digest: [u8; 32],
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    format: String,
    application: String,
    device: Option<Device>,
    counter: u64,
    created: u64,
    expires: u64,
    revocations: Option<Reference>,
    segments: Vec<Segment>,
}

pub(crate) mod digest {
    //! A digest as 64 hexadecimal digits.

    use serde::{Deserialize as _, Deserializer, Serializer};

    use crate::names::Digest;

    pub(crate) fn serialize<S: Serializer>(digest: &Digest, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(digest)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Digest, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        Digest::parse(&text).ok_or_else(|| serde::de::Error::custom("not a SHA-256"))
    }
}

impl Device {
    fn of(header: &DeviceHeader) -> Device {
        Device {
            vendor_id: header.vendor_id,
            device_id: header.device_id,
            driver_id: header.driver_id,
            driver_version: header.driver_version,
            pointer_width: header.pointer_width,
            schema: header.schema,
            pipeline_cache_uuid: header.pipeline_cache_uuid,
            features_digest: header.features_digest,
        }
    }

    fn header(&self) -> DeviceHeader {
        DeviceHeader {
            vendor_id: self.vendor_id,
            device_id: self.device_id,
            pipeline_cache_uuid: self.pipeline_cache_uuid,
            driver_id: self.driver_id,
            driver_version: self.driver_version,
            pointer_width: self.pointer_width,
            schema: self.schema,
            features_digest: self.features_digest,
        }
    }
}

impl Manifest {
    /// For whom it is.
    pub fn target(&self) -> Target {
        self.device.as_ref().map_or(Target::Portable, |header| Target::Device(header.short_digest()))
    }

    /// The text that is signed.
    pub fn encode(&self) -> Vec<u8> {
        let text = Text {
            format: FORMAT.to_owned(),
            application: self.application.clone(),
            device: self.device.as_ref().map(Device::of),
            counter: self.counter,
            created: self.created,
            expires: self.expires,
            revocations: self.revocations.clone(),
            segments: self.segments.clone(),
        };
        let mut bytes = serde_json::to_vec_pretty(&text).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// Reads the manifest that stands at this place.
    pub fn decode(bytes: &[u8], application: &str, target: &Target) -> Result<Manifest, ManifestError> {
        if bytes.len() as u64 > LONGEST {
            return Err(ManifestError::TooLong);
        }
        let text: Text =
            serde_json::from_slice(bytes).map_err(|error| ManifestError::Form(error.to_string()))?;
        if text.format != FORMAT {
            return Err(ManifestError::Form("another version".to_owned()));
        }
        if names::application(&text.application).is_none() {
            return Err(ManifestError::Value("application"));
        }
        if text.application != application {
            return Err(ManifestError::Application);
        }
        let manifest = Manifest {
            application: text.application,
            device: text.device.as_ref().map(Device::header),
            counter: text.counter,
            created: text.created,
            expires: text.expires,
            segments: text.segments,
            revocations: text.revocations,
        };
        if manifest.target() != *target {
            return Err(ManifestError::Device);
        }
        manifest.check()?;
        Ok(manifest)
    }

    /// Whether the values are possible.
    pub(crate) fn check(&self) -> Result<(), ManifestError> {
        let counters = [Some(self.counter), self.revocations.as_ref().map(|list| list.counter)];
        if counters.into_iter().flatten().any(|counter| !(1..=LARGEST_COUNTER).contains(&counter)) {
            return Err(ManifestError::Value("counter"));
        }
        if self.expires > LATEST || self.created > self.expires {
            return Err(ManifestError::Value("time"));
        }
        if self.segments.len() > MOST_SEGMENTS {
            return Err(ManifestError::Value("number of segments"));
        }
        let mut known = HashSet::new();
        for segment in &self.segments {
            if !(SMALLEST_SEGMENT..=LARGEST_SEGMENT).contains(&segment.bytes) {
                return Err(ManifestError::Value("size of a segment"));
            }
            if segment.age > LATEST * 1000 {
                return Err(ManifestError::Value("age of a segment"));
            }
            if segment.content == Content::Artifacts && self.device.is_none() {
                return Err(ManifestError::Value("segment without a device"));
            }
            if !known.insert(segment.sha256) {
                return Err(ManifestError::Value("second mention of a segment"));
            }
        }
        Ok(())
    }
}
