//! The names of file operations.

/// What a file operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Open,
    MakeFolder,
    List,
    Stat,
    Space,
    #[cfg(test)]
    Read,
    #[cfg(test)]
    Write,
    Truncate,
    Sync,
    Stamp,
    Lock,
    Rename,
    Remove,
}
