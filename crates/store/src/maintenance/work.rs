//! Parameters of maintenance: the applications, the occasion, and the functions that interrupt it and follow its
//! progress.

use vkstash_model::record::Key;

/// Calls its second argument for each module that an encoded recipe names. The store does not know what recipes are.
pub type ModulesOf = fn(&[u8], &mut dyn FnMut(&Key));

/// A part with this many files is merged although the process is about to end.
pub(crate) const MANY_SEGMENTS: usize = 8;

/// What maintenance is to do.
pub(crate) struct Work<'a> {
    /// The application whose segments are merged; None: all of them.
    pub(crate) application: Option<&'a str>,
    /// The process is about to end: only work that is due and writes little.
    pub(crate) at_shutdown: bool,
    /// Maintenance stops when this says true. What is on disk is consistent at any time.
    pub(crate) interrupted: &'a dyn Fn() -> bool,
    /// Told how many applications are done with, and how many there are.
    pub(crate) progress: &'a dyn Fn(usize, usize),
    pub(crate) modules_of: ModulesOf,
}
