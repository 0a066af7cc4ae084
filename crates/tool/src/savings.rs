//! Time that the stash has saved, in words.

use crate::term::time::span;

/// Time that serving has saved. An upper bound: the driver's own disk cache might have saved some of it too. `ahead`:
/// so much of it was spent by workers in the same run, so that the program had other things done meanwhile, at best.
pub(crate) fn saved(nanos: u64, ahead: u64) -> String {
    match (nanos.saturating_sub(ahead), ahead) {
        (0, 0) => "nothing saved".to_owned(),
        (0, ahead) => format!("{} of compiling done ahead", span(ahead)),
        (saved, 0) => format!("up to {} saved", span(saved)),
        (saved, ahead) => format!("up to {} saved, {} of compiling done ahead", span(saved), span(ahead)),
    }
}
