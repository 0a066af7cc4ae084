//! The desk at which the program's pipeline layouts are lent to workers.
//!
//! A pipeline is compatible with the program's descriptor sets only if its layout has the same sampler objects
//! (contract 3.9). So where a layout has immutable samplers, a worker uses one of the program's, which the program may
//! destroy meanwhile, and its samplers: such a destruction returns at once, and the worker that gives the layout back
//! does what was postponed.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_macros))]

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ash::vk;
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use crate::state::objects::described::{ImmutableSamplers, LiveSampler};
use vkstash_host::sync::Mutex;
use vkstash_model::record::Key;

/// The layouts that a device lends.
pub struct Lending {
    is_possible: bool,
    /// A layout with immutable samplers was created.
    is_in_use: AtomicBool,
    /// Not locked while a driver is called.
    desk: Mutex<Desk>,
}

/// A layout of the program's, in the hands of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LentLayout {
    /// The layout.
    pub handle: vk::PipelineLayout,
    /// Its immutable samplers.
    pub samplers: Arc<[LiveSampler]>,
}

/// What the program has destroyed while a worker used it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Postponed {
    /// A pipeline layout.
    Layout(vk::PipelineLayout),
    /// An immutable sampler.
    Sampler(vk::Sampler),
}

/// Keys of pipelines.
pub type Keys = HashSet<Key, FxBuildHasher>;

#[derive(Default)]
struct Desk {
    /// What may be lent, by the digest of its description. A handle that was created twice is there twice.
    layouts: HashMap<Key, Vec<LentLayout>, FxBuildHasher>,
    digests: HashMap<vk::PipelineLayout, Key, FxBuildHasher>,
    /// The keys of pipelines for which a layout of this digest is awaited.
    awaited: HashMap<Key, Keys, FxBuildHasher>,
    /// What workers have now, which are few.
    loans: Vec<LentLayout>,
    postponed: Vec<Postponed>,
}

impl Lending {
    /// Nothing is there yet. `is_possible`: a layout may be destroyed before the pipelines that were made with it
    /// (contract 3.8), because the program does not know of those that wait.
    pub fn new(is_possible: bool) -> Lending {
        Lending { is_possible, is_in_use: AtomicBool::new(false), desk: Mutex::default() }
    }

    /// Whether this device lends layouts at all.
    pub fn is_possible(&self) -> bool {
        self.is_possible
    }

    /// Whether the program has created a layout with immutable samplers.
    pub fn is_in_use(&self) -> bool {
        self.is_in_use.load(Ordering::Relaxed)
    }

    /// The program has created a layout. The keys of the pipelines for which one of this digest was awaited.
    pub fn offer(
        &self,
        digest: &Key,
        handle: vk::PipelineLayout,
        samplers: &ImmutableSamplers,
    ) -> Option<Keys> {
        let objects = samplers.objects.as_ref().filter(|_| self.is_possible)?;
        self.is_in_use.store(true, Ordering::Relaxed);
        if !samplers.may_be_lent {
            return None;
        }
        let mut desk = self.desk.lock();
        desk.layouts.entry(*digest).or_default().push(LentLayout { handle, samplers: objects.clone() });
        desk.digests.insert(handle, *digest);
        desk.awaited.remove(digest)
    }

    /// The program destroys a layout: nobody borrows it any more. True: a worker has it, and destroys it.
    pub fn withdraw(&self, handle: vk::PipelineLayout) -> bool {
        if !self.is_in_use() {
            return false;
        }
        let mut desk = self.desk.lock();
        desk.remove(handle);
        let is_lent = desk.loans.iter().any(|loan| loan.handle == handle);
        desk.postpone_if(is_lent, Postponed::Layout(handle))
    }

    /// The program destroys a sampler, which is not live any more. True: a worker has a layout with it, and destroys
    /// it.
    pub fn withdraw_sampler(&self, handle: vk::Sampler) -> bool {
        if !self.is_in_use() {
            return false;
        }
        let mut desk = self.desk.lock();
        let is_lent = desk.loans.iter().any(|loan| loan.has(handle));
        desk.postpone_if(is_lent, Postponed::Sampler(handle))
    }

    /// Whether there is no layout of this digest, which the pipeline of this key is made with. The key waits then: who
    /// offers one is told of it.
    pub fn awaits(&self, digest: &Key, key: &Key) -> bool {
        let mut desk = self.desk.lock();
        let is_missing = !desk.layouts.contains_key(digest);
        if is_missing {
            desk.wait(digest, key);
        }
        is_missing
    }

    /// Lends the newest layout of this digest whose samplers are all live, until [`Lending::give_back`]. If there is
    /// none the key waits, as in [`Lending::awaits`].
    pub fn borrow(
        &self,
        digest: &Key,
        key: &Key,
        is_live: &dyn Fn(&LiveSampler) -> bool,
    ) -> Option<LentLayout> {
        let mut desk = self.desk.lock();
        // A sampler that is destroyed after this look finds the loan, once the lock is released.
        let whole = |layout: &&LentLayout| layout.samplers.iter().all(is_live);
        let equal = desk.layouts.get(digest).map(Vec::as_slice).unwrap_or_default();
        let layout = equal.iter().rev().find(whole).cloned();
        match &layout {
            Some(layout) => desk.loans.push(layout.clone()),
            None => desk.wait(digest, key),
        }
        layout
    }

    /// The worker's call is over. The caller destroys what was postponed for it.
    #[must_use = "the program has destroyed it"]
    pub fn give_back(&self, layout: &LentLayout) -> SmallVec<[Postponed; 2]> {
        let mut desk = self.desk.lock();
        if let Some(at) = desk.loans.iter().position(|loan| loan == layout) {
            desk.loans.swap_remove(at);
        }
        let Desk { loans, postponed, .. } = &mut *desk;
        let mut due = SmallVec::new();
        postponed.retain(|object| {
            let is_lent = loans.iter().any(|loan| object.is_part_of(loan));
            if !is_lent {
                due.push(*object);
            }
            is_lent
        });
        due
    }
}

impl Desk {
    fn wait(&mut self, digest: &Key, key: &Key) {
        self.awaited.entry(*digest).or_default().insert(*key);
    }

    fn remove(&mut self, handle: vk::PipelineLayout) {
        let Some(digest) = self.digests.get(&handle) else { return };
        let Some(equal) = self.layouts.get_mut(digest) else { return };
        if let Some(at) = equal.iter().position(|layout| layout.handle == handle) {
            equal.remove(at);
        }
        let is_last = !equal.iter().any(|layout| layout.handle == handle);
        if equal.is_empty() {
            self.layouts.remove(digest);
        }
        if is_last {
            self.digests.remove(&handle);
        }
    }

    fn postpone_if(&mut self, is_lent: bool, object: Postponed) -> bool {
        if is_lent {
            self.postponed.push(object);
        }
        is_lent
    }
}

impl LentLayout {
    fn has(&self, sampler: vk::Sampler) -> bool {
        self.samplers.iter().any(|live| live.handle == sampler)
    }
}

impl Postponed {
    fn is_part_of(&self, layout: &LentLayout) -> bool {
        match self {
            Postponed::Layout(handle) => layout.handle == *handle,
            Postponed::Sampler(handle) => layout.has(*handle),
        }
    }
}

#[cfg(test)]
mod tests {
    use ash::vk::Handle;

    use super::*;

    const DIGEST: Key = [1; 32];

    fn samplers(numbers: &[u64]) -> ImmutableSamplers {
        let live = |number: &u64| LiveSampler { handle: vk::Sampler::from_raw(*number), creation: *number };
        ImmutableSamplers { objects: Some(numbers.iter().map(live).collect()), may_be_lent: true }
    }

    fn layout(number: u64) -> vk::PipelineLayout {
        vk::PipelineLayout::from_raw(number)
    }

    fn sampler(number: u64) -> vk::Sampler {
        vk::Sampler::from_raw(number)
    }

    fn borrow(lending: &Lending) -> Option<LentLayout> {
        lending.borrow(&DIGEST, &[5; 32], &|_| true)
    }

    #[test]
    fn what_is_destroyed_while_workers_use_it_is_destroyed_by_the_last_of_them() {
        let lending = Lending::new(true);
        assert_eq!(lending.offer(&DIGEST, layout(1), &samplers(&[7, 8])), None);
        let (one, other) = (borrow(&lending).unwrap(), borrow(&lending).unwrap());
        assert!(lending.withdraw(layout(1)) && lending.withdraw_sampler(sampler(8)));
        assert!(!lending.withdraw(layout(2)) && !lending.withdraw_sampler(sampler(9)), "others go at once");
        assert_eq!(borrow(&lending), None, "it is the program's no more");
        assert!(lending.give_back(&one).is_empty(), "another worker has it");
        let due = lending.give_back(&other);
        assert_eq!(due[..], [Postponed::Layout(layout(1)), Postponed::Sampler(sampler(8))]);
        assert!(!lending.withdraw(layout(1)), "the handle may be that of another layout now");
    }

    #[test]
    fn a_layout_whose_sampler_is_gone_is_not_lent() {
        let lending = Lending::new(true);
        for number in [1, 2] {
            lending.offer(&DIGEST, layout(number), &samplers(&[number]));
        }
        let lent = |gone: u64| {
            lending.borrow(&DIGEST, &[5; 32], &|live| live.creation != gone).map(|lent| lent.handle)
        };
        assert_eq!([lent(0), lent(2)], [Some(layout(2)), Some(layout(1))], "the newest that is whole");
        assert_eq!(lending.borrow(&DIGEST, &[5; 32], &|_| false), None);
        assert!(lending.offer(&DIGEST, layout(3), &samplers(&[3])).is_some(), "the key has waited");
    }

    #[test]
    fn who_waits_for_a_layout_is_told_once_it_is_there() {
        let lending = Lending::new(true);
        assert!(lending.awaits(&DIGEST, &[5; 32]) && lending.awaits(&DIGEST, &[5; 32]));
        assert_eq!(lending.offer(&[2; 32], layout(1), &samplers(&[7])), None);
        assert_eq!(lending.offer(&DIGEST, layout(2), &samplers(&[7])), Some([[5; 32]].into_iter().collect()));
        assert!(!lending.awaits(&DIGEST, &[6; 32]));
        lending.withdraw(layout(2));
        assert!(lending.awaits(&DIGEST, &[6; 32]));
    }

    /// Handles need not be unique (contract 7.2).
    #[test]
    fn a_layout_that_was_created_twice_is_lent_until_it_was_destroyed_twice() {
        let lending = Lending::new(true);
        (0..2).for_each(|_| assert_eq!(lending.offer(&DIGEST, layout(1), &samplers(&[7])), None));
        assert!(!lending.withdraw(layout(1)));
        let lent = borrow(&lending).unwrap();
        assert!(lending.withdraw(layout(1)) && borrow(&lending).is_none());
        assert_eq!(lending.give_back(&lent)[..], [Postponed::Layout(layout(1))]);
    }

    #[test]
    fn nothing_is_lent_that_was_made_with_an_allocator_or_must_outlive_its_pipelines() {
        let own_memory = ImmutableSamplers { may_be_lent: false, ..samplers(&[7]) };
        let none = ImmutableSamplers { objects: None, may_be_lent: true };
        for (is_possible, samplers) in [(true, own_memory), (true, none), (false, samplers(&[7]))] {
            let lending = Lending::new(is_possible);
            assert_eq!(lending.offer(&DIGEST, layout(1), &samplers), None);
            assert_eq!(borrow(&lending), None);
        }
    }
}
