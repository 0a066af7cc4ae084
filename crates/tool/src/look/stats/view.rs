//! Extent of the statistics that are shown.

/// How much is shown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct View {
    /// An application was named.
    pub(super) is_named: bool,
    /// All applications are listed.
    pub(super) all: bool,
    /// 0, 1 or 2.
    pub(super) verbosity: u8,
    /// Counters that are 0, too.
    pub(super) zero: bool,
    pub(super) now_unix_ms: u64,
    /// The columns of the terminal; None: no terminal.
    pub(super) width: Option<u16>,
}
