//! The background work of each device: what its tasks use of the device, and how it ends with the device or its
//! instance.

use std::sync::{Arc, Weak};

use ash::vk;

use super::objects::{DeviceTraits, OwnObjects};
use super::pool::{self, Owner, Producer};
use crate::state::devices::decided::IdentifierMode;
use crate::state::devices::device::Device;
use crate::state::process::instance::Instance;
use vkstash_host::forks::PerProcess;
use vkstash_host::sync::{Mutex, MutexGuard};
use vkstash_model::background_mode::BackgroundMode;
use vkstash_model::counters::Count;
use vkstash_recipe::rebuild::Limits;

/// Background work of one kind for one device.
pub(super) trait Work: Send + Sync + 'static {
    /// What the work uses of its device.
    fn context(&self) -> &Context;
    /// The program has shown all of its workload: what is worth doing is queued now.
    fn commit(self: Arc<Self>, _: &Device) {}
    /// What was measured so far means nothing any more.
    fn discard(&self, _: &Device) {}
    /// A task has panicked.
    fn failed(&self, _: &Device) {}
    /// The program destroys the device, and no task is in a driver or enters one: destroys what was made for the
    /// program.
    fn release(&self, _: &Device) {}
}

/// What background work uses of its device.
pub(super) struct Context {
    pub(super) device: Weak<Device>,
    instance: vk::Instance,
    pub(super) owner: Owner,
    /// Modules, layouts and render passes of the layer's own, which [`leave`] destroys.
    pub(super) own: OwnObjects,
}

impl Context {
    /// `immutable_samplers`: layouts with immutable samplers are made as well, with samplers of the layer's own. Then
    /// no pipeline is ever used with a descriptor set.
    pub(super) fn new(device: &Arc<Device>, immutable_samplers: bool) -> Context {
        let traits = DeviceTraits {
            algorithm: (device.decided.identifiers == IdentifierMode::Native)
                .then_some(device.physical.algorithm),
            advanced_blend: device.decided.advanced_blend(),
            limits: Limits::of(&device.physical.properties.limits),
            immutable_samplers,
        };
        Context {
            device: Arc::downgrade(device),
            instance: device.instance.handle,
            owner: Owner::new(),
            own: OwnObjects::new(device.handle, device.table, traits),
        }
    }
}

type Works = Mutex<Vec<Arc<dyn Work>>>;

/// The work for each device of this process. A forked child does none on its parent's devices.
static WORKS: PerProcess<Works> = PerProcess::empty();

fn works() -> MutexGuard<'static, Vec<Arc<dyn Work>>> {
    WORKS.get().lock()
}

/// Tasks of this work may be queued from now on, until [`leave`] or [`leave_instance`]. After these, which a worker may
/// come too late for, they are cancelled.
pub(super) fn enter<W: Work>(work: &Arc<W>, device: &Device) {
    let mut works = works();
    // Asked where those that leave have to wait, or see the work.
    if !device.is_left() && !device.instance.is_left() {
        pool::register(work.context().owner, Arc::new(AsProducer(Arc::downgrade(work))));
        works.push(work.clone());
    }
}

/// The program destroys an instance whose devices it may not have destroyed: nothing is done for them any more. False:
/// a worker may still be in the driver.
pub fn leave_instance(instance: &Instance) -> bool {
    instance.leave();
    let Some(works) = WORKS.known() else { return true };
    let works = works.lock();
    let of_instance = works.iter().filter(|work| work.context().instance == instance.handle);
    let owners: Vec<Owner> = of_instance.map(|work| work.context().owner).collect();
    drop(works);
    // Each is left, whatever came of the others.
    let stay = owners.into_iter().filter(|owner| !pool::leave(*owner)).count();
    pool::join() && stay == 0
}

/// The program destroys the device: nothing is done for it any more, and what was made for it and was not asked for is
/// destroyed. False: a driver call of a worker hangs, and what it uses must not be destroyed.
///
/// # Safety
/// The device is alive, and the pipelines of it that the program got are destroyed.
pub unsafe fn leave(device: &Device) -> bool {
    device.leave();
    let Some(works) = WORKS.known() else { return true };
    let is_of_device = |work: &Arc<dyn Work>| std::ptr::eq(work.context().device.as_ptr(), device);
    let mut works = works.lock();
    let (of_device, others) = works.drain(..).partition(is_of_device);
    *works = others;
    drop(works);
    let of_device: Vec<Arc<dyn Work>> = of_device;
    let end = |work: Arc<dyn Work>| {
        let has_ended = pool::leave(work.context().owner);
        if has_ended {
            work.release(device);
            // SAFETY: the device is alive; what was made with the objects is destroyed, and no task of this owner is in
            // a driver or enters one, so that nothing uses them.
            unsafe { work.context().own.destroy() };
        }
        has_ended
    };
    // Each is left, whatever came of the others.
    of_device.into_iter().map(end).fold(true, |all, has_ended| all & has_ended)
}

/// What the pool may ask of a device's work, which it does not keep.
struct AsProducer<W>(Weak<W>);

impl<W: Work> AsProducer<W> {
    fn with<T>(&self, ask: impl FnOnce(Arc<W>, &Arc<Device>) -> T) -> Option<T> {
        let work = self.0.upgrade()?;
        let device = work.context().device.upgrade()?;
        Some(ask(work, &device))
    }
}

impl<W: Work> Producer for AsProducer<W> {
    fn stored_mode(&self) -> Option<BackgroundMode> {
        self.with(|_, device| device.stored()?.stash.background_mode())?
    }

    fn commit(&self) {
        self.with(|work, device| work.commit(device));
    }

    fn discard(&self) {
        self.with(|work, device| work.discard(device));
    }

    fn failed(&self) {
        self.with(|work, device| {
            device.count(Count::InternalFailures);
            work.failed(device);
        });
    }
}
