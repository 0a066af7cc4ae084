//! Deferred creation calls that the driver has not finished (VK_KHR_deferred_host_operations).
//!
//! Any thread may be told first that an operation is complete, and from then on what the program passed is the
//! program's again: it may be freed, and the operation may get its next work. So an entry is taken out under the
//! lock that every thread goes through before it tells, and whatever is read of the program's is read there.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry::Occupied;
use std::ptr::NonNull;
use std::time::Instant;

use ash::vk::{self, Handle};

use super::compiling::Compiling;
use crate::state::caches::program_cache::ProgramCache;
use crate::state::objects::described::LibraryObject;
use vkstash_host::sync::{Mutex, MutexGuard};
use vkstash_model::failed::Refusals;
use vkstash_model::record::Key;
use vkstash_model::shader_set::ShaderSet;

/// One pipeline of a deferred creation call.
#[derive(Default)]
pub struct Element {
    /// Its key and its shaders, where it could be described.
    pub key: Option<(Key, ShaderSet)>,
    /// Marks it while the driver compiles it.
    pub compiling: Option<Compiling>,
    /// What the pipeline is remembered as, where it will be a library.
    pub library: Option<LibraryObject>,
    /// The stash knows that the driver has answered it with an error.
    pub failed_before: bool,
    /// The driver has made it.
    pub made: bool,
    /// The program's structure for creation feedback, where it has to be put right; kept valid as `pipelines` is.
    pub feedback: Option<NonNull<Feedback>>,
}

/// The program's structure, which it keeps valid until it is told that the operation is complete.
pub type Feedback = vk::PipelineCreationFeedbackCreateInfo<'static>;

/// A deferred creation call that the driver has not finished.
pub struct DeferredCall {
    /// The layer's cache that the driver fills; null where nothing is recorded.
    pub cache: vk::PipelineCache,
    /// The pipelines.
    pub elements: Vec<Element>,
    /// The cache that the program passed.
    pub program_cache: ProgramCache,
    /// The driver is only watched.
    pub is_watched: bool,
    /// Where the driver writes the handles; the program keeps it valid until it is told that the operation is
    /// complete.
    pub pipelines: *mut vk::Pipeline,
    /// How often at most the driver has refused artifacts of these keys.
    pub refusals: Refusals,
    /// When the call was made.
    pub started: Instant,
}

// SAFETY: the pointers are read by the one call that takes the entry out, before any thread tells the program that
// the operation is complete, or before the creating call returns (contract 3.6).
unsafe impl Send for DeferredCall {}

/// One call that was deferred; an operation may see many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

struct Entry {
    ticket: Ticket,
    /// The driver has said that it deferred the call: what it says of the operation it says of this call.
    deferred: bool,
    /// A thread asked before that: the program may have been told that the operation is complete.
    asked: bool,
    deferred_call: DeferredCall,
}

#[derive(Default)]
struct State {
    entries: BTreeMap<u64, Entry>,
    calls: u64,
}

/// What is known of an operation that is said to be complete.
pub enum Taken {
    /// The call is over.
    Over(DeferredCall),
    /// Another call is under way in the same operation.
    Another,
    /// Another thread was told of the end of this call before.
    Gone,
}

/// The deferred calls of a device by operation.
#[derive(Default)]
pub struct Operations(Mutex<State>);

impl Operations {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// A call is about to go down with an operation; what the operation had before is complete (03678).
    pub fn begin(&self, operation: vk::DeferredOperationKHR, deferred_call: DeferredCall) -> Ticket {
        let mut state = self.state();
        state.calls += 1;
        let ticket = Ticket(state.calls);
        state
            .entries
            .insert(operation.as_raw(), Entry { ticket, deferred: false, asked: false, deferred_call });
        ticket
    }

    /// The driver has deferred the call. True: a thread has asked already and found nothing, so the creating call
    /// must ask the driver itself before it returns.
    #[must_use]
    pub fn deferred(&self, operation: vk::DeferredOperationKHR, ticket: Ticket) -> bool {
        let mut state = self.state();
        let entry = state.entries.get_mut(&operation.as_raw());
        entry.filter(|entry| entry.ticket == ticket).is_some_and(|entry| {
            entry.deferred = true;
            entry.asked
        })
    }

    /// The call of which the driver's next answer about this operation speaks. To be asked before the driver.
    pub fn under_way(&self, operation: vk::DeferredOperationKHR) -> Option<Ticket> {
        let mut state = self.state();
        let entry = state.entries.get_mut(&operation.as_raw())?;
        entry.asked |= !entry.deferred;
        entry.deferred.then_some(entry.ticket)
    }

    /// Takes a complete call out. `read` is where the program's memory is read: no thread has been told yet, and
    /// none is until it has returned.
    pub fn take(
        &self,
        operation: vk::DeferredOperationKHR,
        ticket: Ticket,
        read: impl FnOnce(&mut DeferredCall),
    ) -> Taken {
        let mut state = self.state();
        let Occupied(entry) = state.entries.entry(operation.as_raw()) else { return Taken::Gone };
        if entry.get().ticket != ticket {
            return Taken::Another;
        }
        let mut deferred_call = entry.remove().deferred_call;
        read(&mut deferred_call);
        Taken::Over(deferred_call)
    }

    /// Takes out the call that is left: the operation is complete, and no thread asked for its result.
    pub fn forget(&self, operation: vk::DeferredOperationKHR) -> Option<DeferredCall> {
        self.state().entries.remove(&operation.as_raw()).map(|entry| entry.deferred_call)
    }
}
