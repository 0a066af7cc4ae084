//! Search, at a program's end, for pipelines that the driver had in its own caches, and of which there is no artifact
//! yet (docs/prewarm.md).

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use vkstash_model::app_name::AppName;
use vkstash_model::failed::Event;
use vkstash_model::failed::Failed;
use vkstash_model::record::{Key, Kind};
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::part::open::Part;
use vkstash_store::stash::open::Stash;

use super::ended;
use super::plan::{Group, Plan};
use super::stop::{Reason, Stop};

/// How long the program may take to end.
const TO_END: Duration = Duration::from_secs(60);
/// After this time the rest is left to the next run: launchers that wait for all processes of a program wait no longer.
const MOST: Duration = Duration::from_secs(60);
/// How long it may take to write what was tried.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits for the end of the program, and from then on this process ends after [`MOST`]. False: the program goes on.
pub(crate) fn begin_after(pid: u32, stop: &Stop) -> bool {
    let has_ended = ended::wait(pid, Some(TO_END));
    if has_ended {
        let stop = stop.clone();
        std::thread::spawn(move || {
            std::thread::sleep(MOST);
            stop.end_soon(Reason::TimeOver);
        });
    }
    has_ended
}

/// What is to be recorded of one device.
pub(crate) struct Finish {
    root: PathBuf,
    header: DeviceHeader,
    /// The applications with what they have left.
    left: Vec<(AppName, HashSet<Key>)>,
}

impl Finish {
    pub(crate) fn of(plan: &Plan, root: &Path, header: DeviceHeader) -> Finish {
        let left = plan.applications.iter().map(|planned| {
            let part = planned.stash.device(&header);
            (planned.name.clone(), part.map(|part| left(&part)).unwrap_or_default())
        });
        Finish { root: root.to_owned(), left: left.collect(), header }
    }

    /// Leaves nothing else to do. What is recorded is checked, what was recorded before is not.
    pub(crate) fn restrict(&self, plan: &mut Plan) {
        for Group { application, header, tasks, checks, .. } in &mut plan.groups {
            let left = self.left.get(*application).filter(|_| *header == self.header);
            tasks.retain(|task| left.is_some_and(|(_, keys)| keys.contains(&task.key)));
            checks.clear();
        }
    }

    /// Notes what could not be recorded, whatever the reason: no second process is started for it for ever.
    pub(crate) fn note_tried(&self) {
        for (name, keys) in self.left.iter().filter(|(_, keys)| !keys.is_empty()) {
            let Ok(stash) = Stash::open_patiently(&self.root, name) else { continue };
            let Ok(part) = stash.device(&self.header) else { continue };
            for key in left(&part).intersection(keys) {
                let record = failed(&part, key).after(Event::NotRecorded).record();
                record.into_iter().for_each(|record| _ = part.put(Kind::Failed, key, record));
            }
            // What is not written is tried once more.
            stash.flush(PATIENCE);
        }
    }
}

/// What the driver had, and what no process has recorded nor tried in vain too often.
fn left(part: &Part) -> HashSet<Key> {
    let mut keys = HashSet::new();
    part.for_each(Kind::Found, &mut |key, _| _ = keys.insert(*key));
    keys.retain(|key| !part.contains(Kind::Artifact, key) && failed(part, key).may_be_recorded());
    keys
}

fn failed(part: &Part, key: &Key) -> Failed {
    let mut record = Vec::new();
    if part.read(Kind::Failed, key, &mut record) { Failed::of(&record) } else { Failed::Nothing }
}
