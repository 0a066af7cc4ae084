//! Mode of background work, which settings, the environment and the C API choose.

/// What the layer's background work may do. docs/process.md describes the modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackgroundMode {
    /// Background work that does not slow the program down.
    #[default]
    Allowed,
    /// Rich measurements matter more than a smooth run.
    Intrusive,
    /// No background work.
    Disabled,
    /// No background work, and no behaviour that adapts to measurements.
    Profiling,
}

impl BackgroundMode {
    /// All modes.
    pub const ALL: [BackgroundMode; 4] = [
        BackgroundMode::Allowed,
        BackgroundMode::Intrusive,
        BackgroundMode::Disabled,
        BackgroundMode::Profiling,
    ];

    /// The mode's name in files, in the environment and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            BackgroundMode::Allowed => "allowed",
            BackgroundMode::Intrusive => "intrusive",
            BackgroundMode::Disabled => "disabled",
            BackgroundMode::Profiling => "profiling",
        }
    }

    /// The mode of this name.
    pub fn of_name(name: &str) -> Option<BackgroundMode> {
        BackgroundMode::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Whether background work may be queued.
    pub const fn allows_work(self) -> bool {
        matches!(self, BackgroundMode::Allowed | BackgroundMode::Intrusive)
    }
}
