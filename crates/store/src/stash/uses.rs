//! The uses that an application's runs have noted, for the order in which a program will ask again.

use crate::base::util::unix_ms;
use crate::bounds::{LastUse, Runs};
use crate::format::record::{FORGOTTEN, Key, Kind, UseRecord};
use crate::part::open::Part;

/// The run of uses that this process has noted and not written yet: no other is later.
const UNWRITTEN: u64 = u64::MAX;

/// The last use of a key that a run has noted. Uses compare by their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Noted {
    /// The time, in Unix milliseconds. It is not in the future, and no later than the run that followed.
    pub unix_ms: u64,
    /// The number of the run. Numbers rise from run to run whatever the clock says.
    pub run: u64,
    /// The place among the first uses of that run, from 0.
    pub sequence: u32,
    /// The key.
    pub key: Key,
}

/// The uses in a portable part since the order was forgotten, in no order. None: interrupted.
pub(crate) fn of(portable: &Part, interrupted: &dyn Fn() -> bool) -> Option<Vec<Noted>> {
    let mut uses = Vec::new();
    portable.for_each_in_segments(Kind::Use, interrupted, &mut |key, payload, age| {
        if let Some(used) = UseRecord::decode(payload) {
            let run = if used.run == 0 { age.unwrap_or(UNWRITTEN) } else { used.run };
            uses.push((*key, LastUse { unix_ms: used.unix_ms, run, order: used.sequence }));
        }
    });
    if interrupted() {
        return None;
    }
    let runs = Runs::of(uses.iter().map(|(_, used)| *used), unix_ms());
    let place = |used: LastUse| (runs.past(used), used.run, used.unix_ms);
    let mark = uses.iter().find(|(key, _)| *key == FORGOTTEN).map(|(_, mark)| place(*mark));
    let counts = |(key, used): &&(Key, LastUse)| *key != FORGOTTEN && Some(place(*used)) >= mark;
    let noted = |&(key, used): &(Key, LastUse)| Noted {
        unix_ms: runs.past(used),
        run: used.run,
        sequence: used.order,
        key,
    };
    Some(uses.iter().filter(counts).map(noted).collect())
}
