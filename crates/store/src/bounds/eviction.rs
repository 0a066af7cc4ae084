//! Evictions: their targets, and their causes.

/// A part or a record in an [`super::Inventory`], by its places there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// The application.
    pub application: usize,
    /// The part of the application.
    pub part: usize,
    /// The record of the part; None: the whole part.
    pub record: Option<usize>,
}

/// Why something is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// A device part for another header, unused for longer than the age limit.
    Expired,
    /// A module that the module policy does not keep.
    ModulePolicy,
    /// The application's own limit.
    ApplicationLimit,
    /// The limit for all applications.
    TotalLimit,
    /// The user, or the program, has cleared its kind.
    Cleared,
}

impl Cause {
    /// The cause's name in reports and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Expired => "expired",
            Cause::ModulePolicy => "module_policy",
            Cause::ApplicationLimit => "application_limit",
            Cause::TotalLimit => "total_limit",
            Cause::Cleared => "cleared",
        }
    }
}

/// One eviction. Every version of a record is evicted, because an older one would come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// What is evicted.
    pub target: Target,
    /// The target's size in bytes.
    pub bytes: u64,
    /// The reason.
    pub cause: Cause,
}

pub(crate) fn clamp(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
