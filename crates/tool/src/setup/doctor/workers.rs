//! The layer's workers, as the last runs found them: they need a processor that the program leaves free.

use std::thread::available_parallelism;

use vkstash_model::counters::Count;
use vkstash_store::stash::inspect::ApplicationInfo;

use super::finding::Finding;
use crate::reports::tally::Tally;
use crate::term::units::counted;

/// An application is named where so many percent of its last run's pipelines found no free processor.
const MANY: u64 = 10;

pub(super) fn examine(applications: &[ApplicationInfo], findings: &mut Vec<Finding>) {
    if available_parallelism().is_ok_and(|processors| processors.get() == 1) {
        findings.push(Finding::note(
            "programs that are started from here may use one processor: workers get it only while a program waits",
            "give it more, if the affinity (`taskset`) or the limit of a control group is not meant",
        ));
    }
    findings.extend(applications.iter().filter_map(of_last_run));
}

/// None: nothing to say.
fn of_last_run(application: &ApplicationInfo) -> Option<Finding> {
    let mut tally = Tally::default();
    application.runs.last.as_ref()?.devices.iter().for_each(|device| tally.add(device));
    let missed = tally.get(Count::NoProcessorFree);
    let requests = tally.requests();
    if missed == 0 || missed < requests / 100 * MANY {
        return None;
    }
    let name = &application.display;
    let pipelines = counted(requests, "pipeline");
    Some(Finding::note(
        format!("{name}: in its last run workers found no free processor for {missed} of {pipelines}"),
        format!("it uses every processor itself; `vkstash prewarm {name}` does the work before it starts"),
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use vkstash_store::reports::model::{DeviceReport, RunReport};

    use super::*;

    fn application(counters: &[(Count, u64)]) -> ApplicationInfo {
        let counters = counters.iter().map(|&(what, value)| (what.name().to_owned(), value)).collect();
        let devices = vec![DeviceReport { counters, ..Default::default() }];
        let mut application = ApplicationInfo {
            folder: "game-0".to_owned(),
            display: "game".to_owned(),
            parts: Vec::new(),
            runs: Default::default(),
            unusable: BTreeMap::new(),
        };
        application.runs.last = Some(RunReport { devices, ..Default::default() });
        application
    }

    #[test]
    fn workers_without_a_processor_are_told_of_where_they_are_many() {
        let of = |counters: &[(Count, u64)]| of_last_run(&application(counters)).map(|finding| finding.text);
        assert_eq!(of(&[(Count::Compiled, 400)]), None);
        assert_eq!(of(&[(Count::Compiled, 400), (Count::NoProcessorFree, 20)]), None);
        let said = of(&[(Count::Compiled, 400), (Count::NoProcessorFree, 320)]).unwrap();
        assert_eq!(said, "game: in its last run workers found no free processor for 320 of 400 pipelines");
    }
}
