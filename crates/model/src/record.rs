//! Records: keys, kinds, and the payload of a use.

/// The key of a record: a module identity, the key of a recipe, or a digest.
pub type Key = [u8; 32];

/// An artifact with this crash count is quarantined.
pub const CRASH_LIMIT: u8 = 2;

/// The key of the crash count that stands for all calls of workers of background work.
pub const WORKERS: Key = [0; 32];

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// SPIR-V, by module identity. Portable part.
    Module = 1,
    /// An encoded pipeline layout, by its digest. Portable part.
    Layout = 2,
    /// An encoded render pass, by its digest. Portable part.
    RenderPass = 3,
    /// An encoded recipe, by its key. Portable part.
    Recipe = 4,
    /// What is needed to create an equal device, by its digest. Portable part.
    DeviceConfiguration = 5,
    /// The first use of a key in one run. Portable part.
    Use = 6,
    /// What a driver made of a recipe, by the recipe's key. Device part.
    Artifact = 16,
    /// The module identity of a driver's identifier, by the identifier's digest. Device part.
    IdentifierPair = 17,
    /// The driver has taken the artifact of this key. Device part.
    Verified = 18,
    /// The number of processes that died while a driver looked at the artifact of this key. Device part.
    CrashCount = 19,
    /// Whether the driver answers the call of this key with an error. Device part.
    Failed = 20,
    /// A reference: the artifact of this key has the data of another artifact ([`crate::same`]). Device part.
    Same = 21,
    /// Time that the driver needed to compile a pipeline of which it gives no artifact, by the recipe's key. Device
    /// part.
    Cost = 22,
    /// What asking the sources of pipelines has brought lately, by [`ESTIMATES`]. Device part.
    Estimates = 23,
    /// Time that the driver's call took that had the pipeline in the driver's own caches, by the recipe's key. Device
    /// part.
    Found = 24,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 15] = [
        Kind::Module,
        Kind::Layout,
        Kind::RenderPass,
        Kind::Recipe,
        Kind::DeviceConfiguration,
        Kind::Use,
        Kind::Artifact,
        Kind::IdentifierPair,
        Kind::Verified,
        Kind::CrashCount,
        Kind::Failed,
        Kind::Same,
        Kind::Cost,
        Kind::Estimates,
        Kind::Found,
    ];

    /// The kind's name in reports and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Module => "module",
            Kind::Layout => "layout",
            Kind::RenderPass => "render_pass",
            Kind::Recipe => "recipe",
            Kind::DeviceConfiguration => "device_configuration",
            Kind::Use => "use",
            Kind::Artifact => "artifact",
            Kind::IdentifierPair => "identifier_pair",
            Kind::Verified => "verified",
            Kind::CrashCount => "crash_count",
            Kind::Failed => "failed",
            Kind::Same => "same",
            Kind::Cost => "cost",
            Kind::Estimates => "estimates",
            Kind::Found => "found",
        }
    }

    /// The kind with that number in files. `None` for a kind of a newer program.
    pub fn from_number(number: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|&kind| kind as u8 == number)
    }

    /// The kind's place in [`Kind::ALL`], which is its code in an index.
    pub const fn position(self) -> usize {
        match self {
            Kind::Module => 0,
            Kind::Layout => 1,
            Kind::RenderPass => 2,
            Kind::Recipe => 3,
            Kind::DeviceConfiguration => 4,
            Kind::Use => 5,
            Kind::Artifact => 6,
            Kind::IdentifierPair => 7,
            Kind::Verified => 8,
            Kind::CrashCount => 9,
            Kind::Failed => 10,
            Kind::Same => 11,
            Kind::Cost => 12,
            Kind::Estimates => 13,
            Kind::Found => 14,
        }
    }
}

/// The key of the one [`Kind::Estimates`] record of a part that counts.
pub const ESTIMATES: Key = [0; 32];

/// The key of a [`Kind::Use`] record that is a mark: earlier uses do not count for the order of use.
pub const FORGOTTEN: Key = [0; 32];

/// The first use of a key in one run: the payload of a [`Kind::Use`] record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UseRecord {
    /// The time, in Unix milliseconds.
    pub unix_ms: u64,
    /// The place among the first uses of that run, from 0.
    pub sequence: u32,
    /// The devices of that run that have used the key.
    pub devices: RunDevices,
    /// The number of the run, not 0.
    pub run: u64,
}

/// Devices of one run, by the order in which the program created them: from 0 on. [`RunDevices::MOST`] are told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunDevices(u32);

impl RunDevices {
    /// The number of devices that are told apart: the last one stands for all later ones, too.
    pub const MOST: u32 = u32::BITS;
    /// All of them.
    pub const ALL: RunDevices = RunDevices(u32::MAX);

    /// This one.
    pub fn only(device: u32) -> RunDevices {
        RunDevices(1 << device.min(RunDevices::MOST - 1))
    }

    /// These and those.
    #[must_use]
    pub fn and(self, others: RunDevices) -> RunDevices {
        RunDevices(self.0 | others.0)
    }

    /// Whether these are among them.
    pub fn has(self, others: RunDevices) -> bool {
        self.0 & others.0 == others.0
    }

    /// Whether there is more than one.
    pub fn are_several(self) -> bool {
        self.0.count_ones() > 1
    }

    /// Whether one of them was created as late as the first of those, or later.
    pub fn reach(self, others: RunDevices) -> bool {
        self.0 >> others.0.trailing_zeros().min(RunDevices::MOST - 1) != 0
    }
}

impl UseRecord {
    /// The payload: 24 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(24);
        bytes.extend(self.unix_ms.to_le_bytes());
        bytes.extend(self.sequence.to_le_bytes());
        bytes.extend(self.devices.0.to_le_bytes());
        bytes.extend(self.run.to_le_bytes());
        bytes
    }

    /// `None`: a payload of another length, or without a run.
    pub fn decode(payload: &[u8]) -> Option<UseRecord> {
        let (unix_ms, rest) = payload.split_first_chunk()?;
        let (sequence, rest) = rest.split_first_chunk()?;
        let (devices, run) = rest.split_first_chunk()?;
        let used = UseRecord {
            unix_ms: u64::from_le_bytes(*unix_ms),
            sequence: u32::from_le_bytes(*sequence),
            devices: RunDevices(u32::from_le_bytes(*devices)),
            run: u64::from_le_bytes(run.try_into().ok()?),
        };
        (used.run != 0).then_some(used)
    }
}
