//! Names of reports and timelines, which contain the start of their run.

use vkstash_host::sort;
use vkstash_host::util::{believed, unix_ms};

/// When the run of that file began, in Unix milliseconds. None: the name does not say it.
pub(crate) fn start_of(name: &str) -> Option<u64> {
    u64::from_str_radix(name.split('-').nth(1)?, 16).ok()
}

/// Sorts the names of runs' files by the start of the run. One that lies in the future is no later than the others.
pub(crate) fn oldest_first(names: &mut [String]) {
    let now = unix_ms();
    let place = |name: &str| believed(start_of(name).unwrap_or(0), now);
    sort::by(names, |one, other| (place(one), one).cmp(&(place(other), other)));
}
