//! What goes before what. The order does not depend on any size limit, and eviction always takes the front of
//! it: hence a larger limit never evicts more.

use crate::bounds::clock;
use crate::bounds::clock::Runs;
use crate::bounds::eviction::Target;
use crate::bounds::inventory::{Application, Contents, Inventory, Record};
use crate::bounds::limits::Limits;
use crate::bounds::modules::Kept;
use crate::format::record::{Key, Kind};

/// What is of least worth comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Parts of devices or drivers that are not here.
    Foreign,
    /// What is left of an application that nobody used for longer than the age limit, application by application.
    Abandoned,
    /// Large, and only needed to compile anew.
    Module,
    /// What makes a call fast.
    Artifact,
    /// Small, without them nothing can be rebuilt after a driver update, and a use without its artifact
    /// tells a miss that eviction caused. Identifier pairs and proofs are as small.
    Description,
    /// Digests that many recipes share, and whose use nobody notes.
    Shared,
    /// Deaths that an artifact caused: without the record it would be tried again.
    Warning,
}

impl Class {
    fn of(kind: Kind) -> Class {
        match kind {
            Kind::Module => Class::Module,
            Kind::Artifact | Kind::Same => Class::Artifact,
            Kind::Recipe | Kind::Use | Kind::IdentifierPair | Kind::Proven => Class::Description,
            Kind::Layout | Kind::RenderPass | Kind::Setup => Class::Shared,
            Kind::Deaths | Kind::Failed => Class::Warning,
        }
    }
}

/// The class, and for abandoned applications which one: when it was used, its place, and the class within.
type Worth = (Class, u64, usize, Class);
/// The time as the clock's mistakes let it be known, the run, the time as noted, and the place in the run.
type Recency = (u64, u64, u64, u32);

/// Something that can be evicted. Compares by what goes first; the target settles what is equal otherwise.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Candidate {
    worth: Worth,
    recency: Recency,
    key: Key,
    pub(crate) target: Target,
    pub(crate) bytes: u64,
    /// A part past its age limit.
    pub(crate) expired: bool,
    /// A module that the policy does not keep.
    pub(crate) unwanted: bool,
}

/// Everything that may be evicted, what goes first at the front.
pub(crate) fn candidates(inventory: &Inventory, limits: &Limits, now: u64) -> Vec<Candidate> {
    let reference = clock::reference(inventory, now);
    let mut found = Vec::new();
    for (index, app) in inventory.applications.iter().enumerate() {
        of_application(index, app, limits, now, reference, &mut found);
    }
    found.sort_unstable();
    found
}

fn of_application(
    index: usize,
    app: &Application,
    limits: &Limits,
    now: u64,
    reference: u64,
    found: &mut Vec<Candidate>,
) {
    let runs = Runs::of(app, now);
    let kept = Kept::of(app.modules.unwrap_or(limits.module_policy), app);
    // What was never noted has no age.
    let aged = |last_use: u64| last_use != 0 && reference.saturating_sub(last_use) > limits.device_age;
    let abandoned = !app.current && aged(app.last_use);
    let worth = |class| match class {
        Class::Foreign => (class, 0, 0, class),
        _ if abandoned => (Class::Abandoned, app.last_use, index, class),
        _ => (class, 0, 0, class),
    };
    for (place, part) in app.parts.iter().enumerate() {
        let class = match &part.contents {
            Contents::Foreign => Class::Foreign,
            Contents::Unlisted => Class::Artifact,
            Contents::Listed(records) => {
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
