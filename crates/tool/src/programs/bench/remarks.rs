//! Remarks that a reader of the figures needs, each with the next step.

use serde::Serialize;

use crate::programs::bench::caches::{Caches, State};
use crate::programs::bench::figures::{Pipelines, Spread};
use crate::programs::bench::runs::Run;
use crate::term::units::size;

/// Runs without the layer that differ by more among themselves prove little.
const NOISE: f64 = 0.1;
/// Of a shorter program, in seconds, the start is measured.
const SHORT: f64 = 0.1;

/// A warning: what is the matter, and the next step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Remark {
    /// What is the matter, in words.
    pub(super) what: String,
    /// What to do, in words.
    pub(super) next: &'static str,
}

/// `first` is the run before those that count; `taken` are those without the layer, with an empty stash and with a
/// filled one.
pub(super) fn of(first: &Run, taken: &[Vec<Run>; 3], pipelines: &Pipelines, caches: &Caches) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let mut say = |what: String, next| remarks.push(Remark { what, next });
    let [without, empty, filled] = taken;
    if let Some((what, next)) = of_caches(caches) {
        say(what, next);
    }
    let other = empty.iter().chain(filled).find(|run| run.status != first.status);
    if let Some(other) = other {
        let what = format!("with the layer it ends with {}, without it with {}", other.status, first.status);
        say(what, "run it by itself, with and without `vkstash run`, and report the difference");
    } else if !first.status.success() {
        let what = format!("the command fails, with and without the layer: {}", first.status);
        say(what, "run it by itself: what is measured may be the way to its error");
    }
    if !pipelines.has_device {
        say(
            "the layer saw no device".to_owned(),
            "if the command uses Vulkan, `vkstash doctor` says why it runs without the layer",
        );
    } else if pipelines.requested == 0 {
        say("the command created no pipeline".to_owned(), "measure something that draws or computes");
    } else if pipelines.served < pipelines.driver_had {
        say(
            "the driver's own caches answer sooner than the stash, and are asked first".to_owned(),
            "--empty-driver-cache shows what the stash is worth after an update of the driver",
        );
    } else if pipelines.served == 0 {
        say(
            format!("of {} pipelines none was served", pipelines.requested),
            "`vkstash run` with the command, and then `vkstash stats`, say what became of them",
        );
    }
    let seconds = Spread::of(without.iter().map(|run| run.wall.as_secs_f64()));
    if seconds.relative() > NOISE {
        let what = format!(
            "the runs without the layer differ by {:.0} % among themselves",
            seconds.relative() * 100.0
        );
        say(what, "close other programs, or take more runs with --runs");
    }
    if seconds.median < SHORT {
        let what = format!("a run takes {:.0} ms only, most of which is its start", seconds.median * 1000.0);
        say(what, "measure something that takes longer");
    }
    let first = first.wall.as_secs_f64();
    if first > 2.0 * seconds.median {
        let what =
            format!("the first run took {:.1} times as long as the later ones", first / seconds.median);
        say(what, "it is not counted: the system and the driver had cached nothing then");
    }
    remarks
}

/// Where the drivers' own caches were not what a program has that ran before.
fn of_caches(caches: &Caches) -> Option<(String, &'static str)> {
    let grown: u64 =
        caches.caches.iter().map(|cache| cache.bytes_after - cache.bytes_before.min(cache.bytes_after)).sum();
    match caches.state {
        State::Filling => Some((
            format!("the drivers' own caches grew by {} during the runs that count", size(grown)),
            "run it once more: then they are warm, unless another program fills them or their limit is reached",
        )),
        State::NothingKept => Some((
            "the driver has a cache on disk by default, and nothing is there".to_owned(),
            "may this user write it (HOME, XDG_CACHE_HOME)? Without it every comparison is with cold runs",
        )),
        State::Warm | State::Empty | State::Disabled | State::Unknown => None,
    }
}
