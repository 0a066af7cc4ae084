//! The limits that `vkstash run` raises for its command. Only limits are set, never paths: the drivers find what they
//! had, and without `vkstash run` they go back to their own limit.

use std::env;
use std::path::Path;
use std::process::Command;

use serde::Serialize;

use super::vendors::{VENDORS, Variable, Vendor, free_bytes};

/// The largest limit that is set; limits are whole GiB.
const MOST_BYTES: u64 = 10 << 30;

/// A driver's cache may take at most the free bytes divided by this number.
const SHARE_OF_FREE: u64 = 4;

/// No driver has a higher limit by default, so that what is set takes nothing away.
const DEFAULT_BYTES: u64 = 1 << 30;

/// What `vkstash run` does with the limit of one vendor's drivers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct DriverLimit {
    /// The vendor of the drivers.
    pub(crate) vendor: &'static str,
    /// The environment variable that sets the limit.
    pub(crate) variable: &'static str,
    /// The raised limit. Null: the driver's own, or the user's, stays.
    pub(crate) raised_to_bytes: Option<u64>,
    /// Why the limit stays: `environment` (the user set a size), or `free_space` (a quarter of the free space is no
    /// more than the drivers' default). Null: it is raised.
    pub(crate) kept: Option<&'static str>,
}

/// What is done with this environment and these disks.
pub(crate) fn planned() -> Vec<DriverLimit> {
    planned_with(&|name| env::var_os(name), free_bytes)
}

/// Sets the raised limits for `command`.
pub(crate) fn raise(command: &mut Command) {
    for (limit, vendor) in planned().iter().zip(VENDORS) {
        if let Some(bytes) = limit.raised_to_bytes {
            command.env(limit.variable, (vendor.value)(bytes));
        }
    }
}

/// What sets these limits where `vkstash run` is not used, for launch options and for a shell. None: nothing is raised.
pub(crate) fn assignments(limits: &[DriverLimit]) -> Option<String> {
    let assigned = |(limit, vendor): (&DriverLimit, Vendor)| {
        Some(format!("{}={}", limit.variable, (vendor.value)(limit.raised_to_bytes?)))
    };
    let all: Vec<_> = limits.iter().zip(VENDORS).filter_map(assigned).collect();
    (!all.is_empty()).then(|| all.join(" "))
}

fn planned_with(variable: Variable<'_>, free: impl Fn(&Path) -> Option<u64>) -> Vec<DriverLimit> {
    let plan = |vendor: &Vendor| {
        let [first, ..] = vendor.sizes else { return None };
        let kept = |reason| DriverLimit {
            vendor: vendor.name,
            variable: first,
            raised_to_bytes: None,
            kept: Some(reason),
        };
        // A variable without a value is a choice, too: the driver may read it as one.
        if vendor.sizes.iter().any(|name| variable(name).is_some()) {
            return Some(kept("environment"));
        }
        let share = vendor.place(variable).and_then(|(path, _)| free(&path)).unwrap_or(0) / SHARE_OF_FREE;
        let bytes = share.min(MOST_BYTES) >> 30 << 30;
        Some(if bytes > DEFAULT_BYTES {
            DriverLimit { raised_to_bytes: Some(bytes), kept: None, ..kept("") }
        } else {
            kept("free_space")
        })
    };
    VENDORS.iter().filter_map(plan).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use vkstash_model::variables;

    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn the_list_of_variables_has_the_numbers() {
        let is_it = |variable: &&variables::Variable| variable.name == variables::DRIVER_LIMITS;
        let meaning = variables::ALL.iter().find(is_it).unwrap().meaning;
        assert_eq!(SHARE_OF_FREE, 4);
        assert!(meaning.contains(&format!("to {} GiB, at most a quarter of the free", MOST_BYTES / GIB)));
    }

    fn with(variables: &'static [(&str, &str)], free: u64) -> Vec<DriverLimit> {
        let value =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
        planned_with(&value, move |_: &Path| Some(free))
    }

    fn raised(limits: &[DriverLimit]) -> Vec<Option<u64>> {
        limits.iter().map(|limit| limit.raised_to_bytes).collect()
    }

    #[test]
    fn with_much_free_space_both_limits_are_the_largest_one() {
        let limits = with(&[("HOME", "/home/u")], 400 * GIB);
        assert_eq!(raised(&limits), [Some(10 * GIB), Some(10 * GIB)]);
        assert_eq!((VENDORS[0].value)(10 * GIB), "10G");
        assert_eq!((VENDORS[1].value)(10 * GIB), "10737418240");
    }

    #[test]
    fn a_line_sets_what_a_run_would_set() {
        let line = |variables: &'static [_], free| assignments(&with(variables, free));
        assert_eq!(
            line(&[("HOME", "/home/u")], 400 * GIB).unwrap(),
            "MESA_SHADER_CACHE_MAX_SIZE=10G __GL_SHADER_DISK_CACHE_SIZE=10737418240"
        );
        assert_eq!(
            line(&[("HOME", "/home/u"), ("MESA_SHADER_CACHE_MAX_SIZE", "3G")], 8 * GIB).unwrap(),
            "__GL_SHADER_DISK_CACHE_SIZE=2147483648"
        );
        assert_eq!(line(&[("HOME", "/home/u")], GIB), None);
        let mut command = Command::new("true");
        raise(&mut command);
        let known = raised(&planned());
        let line = assignments(&planned()).unwrap_or_default();
        let said = line.split(' ').filter(|part| !part.is_empty());
        let set = said.filter(|part| {
            let (name, value) = part.split_once('=').unwrap();
            command.get_envs().any(|(set, to)| set == name && to.is_some_and(|to| to == value))
        });
        assert_eq!(set.count(), known.iter().flatten().count(), "{line}: {command:?}");
        assert_eq!(command.get_envs().count(), known.iter().flatten().count(), "{line}: {command:?}");
    }

    #[test]
    fn a_quarter_of_the_free_space_is_the_most_and_the_default_the_least() {
        assert_eq!(raised(&with(&[("HOME", "/home/u")], 8 * GIB)), [Some(2 * GIB); 2]);
        for free in [0, GIB, 4 * GIB, 4 * GIB + 5, 8 * GIB - 1] {
            let limits = with(&[("HOME", "/home/u")], free);
            assert!(limits.iter().all(|limit| limit.kept == Some("free_space")), "{limits:?}");
            assert_eq!(raised(&limits), [None, None]);
        }
    }

    #[test]
    fn what_the_user_chose_stays() {
        let mesa = with(&[("HOME", "/home/u"), ("MESA_SHADER_CACHE_MAX_SIZE", "")], 400 * GIB);
        assert_eq!((mesa[0].raised_to_bytes, mesa[0].kept), (None, Some("environment")));
        assert_eq!(mesa[1].raised_to_bytes, Some(10 * GIB));
        for name in ["MESA_GLSL_CACHE_MAX_SIZE", "__GL_SHADER_DISK_CACHE_SKIP_CLEANUP"] {
            let variables: &'static [(&str, &str)] = Box::leak(Box::new([("HOME", "/home/u"), (name, "1")]));
            assert_eq!(with(variables, 400 * GIB).iter().filter(|limit| limit.kept.is_some()).count(), 1);
        }
    }

    #[test]
    fn the_disk_is_that_of_the_cache() {
        let asked = |variables: &'static [(&str, &str)]| {
            let seen = std::cell::RefCell::new(Vec::new());
            let value =
                |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
            planned_with(&value, |path: &Path| {
                seen.borrow_mut().push(path.to_owned());
                None
            });
            seen.into_inner()
        };
        assert_eq!(asked(&[("HOME", "/h")]), [Path::new("/h/.cache"); 2]);
        assert_eq!(asked(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/c")]), [Path::new("/c"); 2]);
        let chosen = [("HOME", "/h"), ("MESA_SHADER_CACHE_DIR", "/m"), ("__GL_SHADER_DISK_CACHE_PATH", "/n")];
        assert_eq!(asked(Box::leak(Box::new(chosen))), [Path::new("/m"), Path::new("/n")]);
        assert_eq!(asked(&[]), Vec::<PathBuf>::new());
    }
}
