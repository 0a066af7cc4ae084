//! The limits of the drivers' own caches, which programs use beside the stash.

use super::finding::Finding;
use crate::driver_limits::{DriverLimit, planned};
use crate::units::size;

pub(super) fn examine(findings: &mut Vec<Finding>) {
    findings.extend(planned().iter().map(tell));
}

fn tell(limit: &DriverLimit) -> Finding {
    let DriverLimit { vendor, variable, .. } = limit;
    match (limit.raised_to_bytes, limit.kept) {
        (Some(bytes), _) => Finding::good(format!(
            "`vkstash run` raises the limit of {vendor}'s own cache to {} ({variable})",
            size(bytes)
        )),
        (None, Some("environment")) => {
            Finding::good(format!("the environment sets the limit of {vendor}'s own cache, which stays"))
        }
        (None, _) => Finding::note(
            format!("the limit of {vendor}'s own cache stays at its default: the disk has no room for more"),
            format!("make room where that cache is, or set {variable}"),
        ),
    }
}
