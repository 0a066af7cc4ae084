//! The drivers' own caches, which programs use beside the stash: what they hold, and what they may hold.

use super::finding::Finding;
use crate::drivers::caches::limits::{DriverLimit, assignments, planned};
use crate::drivers::caches::on_disk::{self, OnDisk};
use crate::term::units::size;

/// A cache that is fuller than this share of its limit, in percent, removes what programs may ask for next.
const FULL: u64 = 90;

pub(super) fn examine(findings: &mut Vec<Finding>) {
    // A driver may have left an empty folder of another kind of cache.
    findings.extend(on_disk::all().iter().filter(|cache| cache.bytes > 0).map(tell));
    let limits = planned();
    findings.extend(limits.iter().map(tell_limit));
    findings.extend(assignments(&limits).as_deref().map(tell_line));
}

fn tell(cache: &OnDisk) -> Finding {
    let OnDisk { vendor, folder, bytes, limit, variable } = cache;
    let place = folder.display();
    let Some(limit) = limit else {
        return Finding::good(format!(
            "{vendor}'s own cache has {} in {place}; its limit is the driver's",
            size(*bytes)
        ));
    };
    let text = format!("{vendor}'s own cache has {} of at most {} in {place}", size(*bytes), size(*limit));
    if bytes / 100 >= limit / 100 * FULL / 100 && *bytes > 0 {
        return Finding::note(
            format!("{text}: the driver removes what was not used for longest"),
            format!("`vkstash run` lets it grow, and so does a larger {variable}"),
        );
    }
    Finding::good(text)
}

fn tell_limit(limit: &DriverLimit) -> Finding {
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

/// `assignments`: what sets the limits that `vkstash run` raises.
fn tell_line(assignments: &str) -> Finding {
    Finding::note(
        "VKSTASH=1 alone raises no limit of the drivers' own caches, which only `vkstash run` does",
        format!(
            "in Steam's launch options: `VKSTASH=1 {assignments} %command%`; in a shell: `export {assignments}`"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_cache_that_is_nearly_full_is_named() {
        let of = |bytes, limit| {
            let folder = "/c/mesa_shader_cache".into();
            tell(&OnDisk { vendor: "Mesa", folder, bytes, limit, variable: "MESA_SHADER_CACHE_MAX_SIZE" })
        };
        const GIB: u64 = 1 << 30;
        assert_eq!(of(0, Some(GIB)).level, Level::Good);
        assert_eq!(of(GIB / 2, Some(GIB)).level, Level::Good);
        assert_eq!(of(3 * GIB, None).level, Level::Good);
        for bytes in [GIB / 100 * 95, GIB, 2 * GIB] {
            let full = of(bytes, Some(GIB));
            assert_eq!(full.level, Level::Note, "{}", full.text);
            assert!(full.text.contains("of at most 1.0 GiB in /c/mesa_shader_cache"), "{}", full.text);
            assert!(full.next.unwrap().contains("MESA_SHADER_CACHE_MAX_SIZE"));
        }
    }
}
