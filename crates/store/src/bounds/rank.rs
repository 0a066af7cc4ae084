//! The order of eviction. It does not depend on any size limit, and eviction takes its front, so a larger limit never
//! evicts more.

use crate::bounds::clock;
use crate::bounds::clock::Runs;
use crate::bounds::eviction::Target;
use crate::bounds::inventory::{ApplicationInventory, Inventory, Listing, PartInventory, Record};
use crate::bounds::limits::Limits;
use crate::bounds::modules::KeptModules;
use vkstash_host::sort;
use vkstash_model::record::{Key, Kind};

/// Classes of what can be evicted, the least valuable first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Parts of devices or drivers that are gone.
    Foreign,
    /// What is left of an application that nobody used for longer than the age limit, application by application.
    Abandoned,
    /// Modules: large, and needed for compiling again only.
    Module,
    /// Artifacts and references to them: they make calls fast.
    Artifact,
    /// Recipes, uses, identifier pairs, verified artifacts and costs: small. Without recipes nothing can be rebuilt
    /// after a driver update; a use without its artifact shows that a miss was caused by eviction.
    Description,
    /// Records that many recipes name. Their use is not noted.
    Shared,
    /// Crash counts and failures: without the record the call would be tried again.
    Warning,
}

impl Class {
    fn of(kind: Kind) -> Class {
        match kind {
            Kind::Module => Class::Module,
            Kind::Artifact | Kind::Same => Class::Artifact,
            Kind::Recipe | Kind::Use | Kind::IdentifierPair | Kind::Verified | Kind::Cost | Kind::Found => {
                Class::Description
            }
            Kind::Layout | Kind::RenderPass | Kind::DeviceConfiguration | Kind::Estimates => Class::Shared,
            Kind::CrashCount | Kind::Failed => Class::Warning,
        }
    }
}

/// The class. For abandoned applications also the last use, the place and the class within the application.
type Worth = (Class, u64, usize, Class);
/// The believed time, the run, the noted time, and the place in the run.
type Recency = (u64, u64, u64, u32);

/// A part or record that can be evicted. Candidates compare by the order of eviction; the target decides among equal
/// ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Candidate {
    worth: Worth,
    recency: Recency,
    key: Key,
    pub(crate) target: Target,
    pub(crate) bytes: u64,
    /// A part that has reached its age limit.
    pub(crate) expired: bool,
    /// A module that the policy does not keep.
    pub(crate) unwanted: bool,
}

/// Everything that may be evicted, in the order of eviction.
pub(crate) fn candidates(inventory: &Inventory, limits: &Limits, now: u64) -> Vec<Candidate> {
    let reference = clock::reference(inventory, now);
    let mut found = Vec::new();
    for (index, app) in inventory.applications.iter().enumerate() {
        of_application(index, app, limits, now, reference, &mut found);
    }
    sort::sort(&mut found);
    found
}

fn of_application(
    index: usize,
    app: &ApplicationInventory,
    limits: &Limits,
    now: u64,
    reference: u64,
    found: &mut Vec<Candidate>,
) {
    let records = app.parts.iter().flat_map(PartInventory::records);
    let runs = Runs::of(records.map(|record| record.last_use), now);
    let kept = KeptModules::of(app.modules.unwrap_or(limits.module_policy), app);
    // Without a noted use there is no age.
    let aged = |last_use: u64| last_use != 0 && reference.saturating_sub(last_use) > limits.device_age;
    let abandoned = !app.current && aged(app.last_use);
    let worth = |class| match class {
        Class::Foreign => (class, 0, 0, class),
        _ if abandoned => (Class::Abandoned, app.last_use, index, class),
        _ => (class, 0, 0, class),
    };
    for (place, part) in app.parts.iter().enumerate() {
        let class = match &part.listing {
            Listing::Foreign => Class::Foreign,
            Listing::Unlisted => Class::Artifact,
            Listing::Listed(records) => {
                let evictable = records.iter().enumerate().filter(|(_, record)| !record.current);
                found.extend(evictable.map(|(at, record)| Candidate {
                    worth: worth(Class::of(record.kind)),
                    recency: recency(&runs, record),
                    key: record.key,
                    target: Target { application: index, part: place, record: Some(at) },
                    bytes: record.bytes,
                    expired: false,
                    unwanted: record.kind == Kind::Module && !kept.keeps(record.last_use),
                }));
                continue;
            }
        };
        if part.current {
            continue;
        }
        found.push(Candidate {
            worth: worth(class),
            recency: (part.last_use.min(now), 0, part.last_use, 0),
            key: [0; 32],
            target: Target { application: index, part: place, record: None },
            bytes: part.bytes,
            expired: class == Class::Foreign && aged(part.last_use),
            unwanted: false,
        });
    }
}

fn recency(runs: &Runs, record: &Record) -> Recency {
    let used = record.last_use;
    (runs.time(used), used.run, used.unix_ms, used.order)
}
