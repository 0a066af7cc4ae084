//! What is asked of [`mod@super::run`].

use crate::format::record::Key;

/// Calls its second argument for each module that an encoded recipe names. The store knows nothing of recipes.
pub type ModulesOf = fn(&[u8], &mut dyn FnMut(&Key));

/// So many files in one part are worth a look although the process is about to end.
pub(crate) const CROWDED: usize = 8;

/// How much may be done.
pub(crate) struct Work<'a> {
    /// The folder of the application whose segments are merged; None: of all of them.
    pub(crate) application: Option<&'a str>,
    /// The process is about to end: only what writes little, and only if it is due.
    pub(crate) hasty: bool,
    /// Where it says true, everything is left as it is then, which is always in order.
    pub(crate) interrupted: &'a dyn Fn() -> bool,
    pub(crate) modules_of: ModulesOf,
}
