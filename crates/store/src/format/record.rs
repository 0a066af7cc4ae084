//! What a record is: its key, its kind, and the payload of a use.

/// 32 bytes that name a record: a module identity, a key, or a digest.
pub type Key = [u8; 32];

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// SPIR-V, by module identity. Portable.
    Module = 1,
    /// An encoded pipeline layout, by its digest. Portable.
    Layout = 2,
    /// An encoded render pass, by its digest. Portable.
    RenderPass = 3,
    /// An encoded recipe, by key. Portable.
    Recipe = 4,
    /// What is needed to create an equal device, by digest. Portable.
    Setup = 5,
    /// The first use of a key in one run, in order; the payload is the time. Portable.
    Use = 6,
    /// What a driver made of a recipe, by key. Device part.
    Artifact = 16,
    /// The module identity that a driver's identifier (its digest is the key) stands for. Device part.
    IdentifierPair = 17,
    /// The driver has taken the artifact of this key under this header, and lived. Device part.
    Proven = 18,
    /// How many processes died while the driver was looking at the artifact of this key. Device part.
    Deaths = 19,
    /// Whether the driver answers the call of this key with an error. Device part.
    Failed = 20,
    /// Stands for the artifact of this key, whose data the artifact of another key has ([`crate::format::same`]). Device
    /// part.
    Same = 21,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 12] = [
        Kind::Module,
        Kind::Layout,
        Kind::RenderPass,
        Kind::Recipe,
        Kind::Setup,
        Kind::Use,
        Kind::Artifact,
        Kind::IdentifierPair,
        Kind::Proven,
        Kind::Deaths,
        Kind::Failed,
        Kind::Same,
    ];

    /// The kind's name in reports and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Module => "module",
            Kind::Layout => "layout",
            Kind::RenderPass => "render_pass",
            Kind::Recipe => "recipe",
            Kind::Setup => "setup",
            Kind::Use => "use",
            Kind::Artifact => "artifact",
            Kind::IdentifierPair => "identifier_pair",
            Kind::Proven => "proven",
            Kind::Deaths => "deaths",
            Kind::Failed => "failed",
            Kind::Same => "same",
        }
    }

    /// The kind of that number; `None` for one of a newer program.
    pub fn from_number(number: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|&kind| kind as u8 == number)
    }

    /// Where it stands in [`Kind::ALL`].
    pub(crate) const fn position(self) -> usize {
        match self {
            Kind::Module => 0,
            Kind::Layout => 1,
            Kind::RenderPass => 2,
            Kind::Recipe => 3,
            Kind::Setup => 4,
            Kind::Use => 5,
            Kind::Artifact => 6,
            Kind::IdentifierPair => 7,
            Kind::Proven => 8,
            Kind::Deaths => 9,
            Kind::Failed => 10,
            Kind::Same => 11,
        }
    }
}

/// The first use of a key in one run: the payload of a [`Kind::Use`] record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UseRecord {
    /// When, in milliseconds since the Unix epoch.
    pub unix_ms: u64,
    /// Its place among the first uses of that run, from 0.
    pub sequence: u32,
    /// Which run, as the age of the segment into which it wrote this; 0: the one in which this stands.
    pub run: u64,
}

impl UseRecord {
    /// The payload: 12 bytes, 20 with a run.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(20);
        bytes.extend(self.unix_ms.to_le_bytes());
        bytes.extend(self.sequence.to_le_bytes());
        if self.run != 0 {
            bytes.extend(self.run.to_le_bytes());
        }
        bytes
    }

    /// `None` for a payload of another length.
    pub fn decode(payload: &[u8]) -> Option<UseRecord> {
        let (unix_ms, rest) = payload.split_first_chunk()?;
        let (sequence, rest) = rest.split_first_chunk()?;
        let run = if rest.is_empty() { 0 } else { u64::from_le_bytes(rest.try_into().ok()?) };
        Some(UseRecord {
            unix_ms: u64::from_le_bytes(*unix_ms),
            sequence: u32::from_le_bytes(*sequence),
            run,
        })
    }
}
