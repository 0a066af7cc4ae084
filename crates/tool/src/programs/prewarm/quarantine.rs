//! Keys of which a worker died, hung or grew too large: named, and not tried again on this driver version.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use vkstash_model::failed::{Event, Failed, WorkerEnd};
use vkstash_model::recipe;
use vkstash_model::record::{CRASH_LIMIT, Key, Kind};

use super::plan::{Group, Planned};
use crate::term::units::size;

/// How long the record of a culprit may take to be written.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a worker did.
#[derive(Clone, Debug)]
pub(crate) enum Cause {
    /// The worker ended, in these words.
    Died(String),
    /// The worker took longer than this.
    Hung(Duration),
    /// The worker had more bytes of memory than this.
    Memory(u64),
}

impl Cause {
    fn end(&self) -> WorkerEnd {
        match self {
            Cause::Died(_) => WorkerEnd::Died,
            Cause::Hung(_) => WorkerEnd::Hung,
            Cause::Memory(_) => WorkerEnd::Memory,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Died(how) => write!(to, "{how}"),
            Cause::Hung(time) => write!(to, "did not answer within {} s", time.as_secs()),
            Cause::Memory(bytes) => write!(to, "used more than {} of memory", size(*bytes)),
        }
    }
}

/// A pipeline of which a worker died, hung or grew too large.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Culprit {
    /// The application's name.
    pub(crate) application: String,
    /// The device's name.
    pub(crate) device: String,
    /// The name of the device part that has the record.
    pub(crate) part: String,
    /// The pipeline's key, 64 hexadecimal digits.
    pub(crate) key: String,
    /// The identities of its shader modules.
    pub(crate) modules: Vec<String>,
    /// What the worker did, in words.
    pub(crate) reason: String,
    /// The record could be written: on this version of the driver the pipeline is not tried again.
    pub(crate) recorded: bool,
}

impl fmt::Display for Culprit {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            to,
            "quarantined: {} of {} on {}: the worker {}",
            self.key, self.application, self.device, self.reason
        )?;
        if !self.modules.is_empty() {
            write!(to, "; modules {}", self.modules.join(", "))?;
        }
        if !self.recorded {
            write!(to, "; this could not be recorded")?;
        }
        Ok(())
    }
}

/// Records a culprit. `of_artifact`: the worker was only asking for the artifact. An artifact that a driver does not
/// survive gets the crash count that keeps it from every program; a recipe whose compile a driver does not survive is
/// kept from workers only: a program that asks for it is no worse off than without the stash.
pub(crate) fn put(planned: &Planned, group: &Group, key: &Key, cause: Cause, of_artifact: bool) -> Culprit {
    let mut modules = Vec::new();
    let mut record = Vec::new();
    if planned.stash.portable().read(Kind::Recipe, key, &mut record) {
        recipe::modules_of(&record, &mut |module| modules.push(hex::encode(module)));
    }
    let part = planned.stash.device(&group.header);
    let recorded = part.as_ref().is_ok_and(|part| {
        let put = match Failed::Nothing.after(Event::WorkerEnded(cause.end())).record() {
            Some(record) if !of_artifact => part.put(Kind::Failed, key, record),
            _ => part.put(Kind::CrashCount, key, Box::new([CRASH_LIMIT])),
        };
        put && planned.stash.flush(PATIENCE)
    });
    Culprit {
        application: planned.name.display.clone(),
        device: group.device_name.clone(),
        part: group.header.short_digest(),
        key: hex::encode(key),
        modules,
        reason: cause.to_string(),
        recorded,
    }
}
