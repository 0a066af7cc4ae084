//! Pipelines that were compiled for the drivers that are here because of their update.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::term::time;
use crate::term::units::{counted, plain};

/// Pipelines that `vkstash prewarm` has compiled for the drivers that are here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Prepared {
    /// The drivers, by their names and versions.
    pub(crate) drivers: BTreeSet<String>,
    /// Number of pipelines.
    pub(crate) pipelines: u64,
    /// The folders of the programs.
    pub(crate) programs: BTreeSet<String>,
    /// When the last of it was done, in Unix milliseconds.
    pub(crate) unix_ms: u64,
}

impl Prepared {
    pub(super) fn line(&self, now_ms: u64) -> String {
        let pipelines = counted(self.pipelines, "pipeline");
        let programs = counted(self.programs.len() as u64, "program");
        let when = time::age(self.unix_ms, now_ms);
        format!("prepared: {pipelines} of {programs} for {}, {when}", listed(&self.drivers))
    }
}

/// The names of drivers.
pub(super) fn listed<'a>(drivers: impl IntoIterator<Item = &'a String>) -> String {
    drivers.into_iter().map(|words| plain(words)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_was_prepared_and_when() {
        let prepared = Prepared {
            drivers: ["radv Mesa 25.1".to_owned()].into(),
            pipelines: 1,
            programs: ["a-0".to_owned()].into(),
            unix_ms: 0,
        };
        let expected = "prepared: 1 pipeline of 1 program for radv Mesa 25.1, 2 h ago";
        assert_eq!(prepared.line(2 * 60 * 60 * 1000), expected);
    }
}
