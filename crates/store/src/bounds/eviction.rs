//! What an eviction takes, and why.

/// Something in an [`super::Inventory`], by its places there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// Which application.
    pub application: usize,
    /// Which of its parts.
    pub part: usize,
    /// Which record of the part; None: the whole part.
    pub record: Option<usize>,
}

/// Why something is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// A device part for another header that nobody used for longer than the age limit.
    Expired,
    /// A module that the policy does not keep.
    ModulePolicy,
    /// The application's own limit.
    ApplicationLimit,
    /// The limit for all applications.
    TotalLimit,
    /// Too little is free on the file system.
    FreeSpace,
}

impl Cause {
    /// The cause's name in reports and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Expired => "expired",
            Cause::ModulePolicy => "module_policy",
            Cause::ApplicationLimit => "application_limit",
            Cause::TotalLimit => "total_limit",
            Cause::FreeSpace => "free_space",
        }
    }
}

/// One thing to evict. Every version of a record has to go, or an older one comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// What.
    pub target: Target,
    /// Its size.
    pub bytes: u64,
    /// Why.
    pub cause: Cause,
}

pub(crate) fn clamp(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
