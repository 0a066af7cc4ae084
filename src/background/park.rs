//! Parked pipelines, the making: who finishes them before the program asks for them, and when they are given up.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::gate::{self, Manners};
use super::make::{self, Bytes, Inputs, Way};
use super::objects::ObjectError;
use super::pool::{self, Cancelled, Task};
use super::questions::Questions;
use super::replay::NotMade;
use super::work::{self, Context, Work};
use super::{memory, order, pauses, processors};
use crate::faults;
use crate::live;
use crate::live::call::Call;
use crate::state::ahead::background_work::BackgroundWork;
use crate::state::ahead::lending::Keys;
use crate::state::ahead::parked::{Finished, Parked, Terms};
use crate::state::ahead::plan::Plan;
use crate::state::devices::decided::IdentifierMode;
use crate::state::devices::device::Device;
use crate::state::process::stored::Stored;
use vkstash_model::counters::Count;
use vkstash_model::live::Activity;
use vkstash_model::record::Key;
use vkstash_recipe::rebuild::RebuildError;
use vkstash_store::part::admission::Admission;

/// The interval between two looks whether memory is scarce, while finished pipelines wait for the program.
const LOOKS_AT_MEMORY: Duration = Duration::from_secs(20);
/// The number of pipelines that are made at a time, which is the number of workers by default.
const CHAINS: usize = 2;
/// The number of pipelines from which on a second worker makes them, too: starting a thread costs more than making a
/// few.
const FEW: usize = 16;
/// The assumed time for making a pipeline from an artifact, until one was made and measured.
const USUAL: Duration = Duration::from_micros(200);
/// The longest time that making a pipeline from an artifact is expected to take: the measured average may have
/// interruptions of a worker in it.
const LONGEST_WAIT: Duration = Duration::from_millis(1);
/// The time after which a part of the stash that was put off is looked for again; it doubles with each look, up to the
/// second time.
const LOOKS_AGAIN: Duration = Duration::from_millis(50);
const LOOKS_LAST: Duration = Duration::from_secs(60);
/// The number of keys without an artifact that a task passes over before it lets other tasks run.
const PASSED_OVER: usize = 256;

/// The background work that makes pipelines ahead for one device.
struct Parker {
    context: Context,
    /// Nanoseconds that making one from an artifact takes, averaged.
    usual: AtomicU64,
    /// Chains of tasks that make pipelines one after the other.
    chains: AtomicUsize,
    /// A task is received later that looks whether memory is scarce.
    looks_at_memory: AtomicBool,
    /// After so long: [`LOOKS_AT_MEMORY`]. Known from the start, because no thread of the layer reads the environment.
    until_memory: Duration,
    /// A chain has ended because the plan gave nothing more.
    ran_dry: AtomicBool,
    /// A chain has ended because of that, or because there is no room.
    is_done: AtomicBool,
    /// What asking for what the driver had in its own caches has brought.
    questions: Questions,
    /// What its workers do while the program creates pipelines.
    manners: Manners,
    /// It begins with the first command, and not with the first module or pipeline.
    at_first_command: bool,
    this: Weak<Parker>,
}

/// What a worker does next.
enum Choice {
    /// The worker makes this pipeline, in the first of these ways that works.
    Make(Key, [Option<Way>; 2]),
    /// Other tasks come first.
    MakeRoom,
}

/// A device was created: what the last runs of this program used first is made from its first command on. Nothing is
/// started for a program of which there is no stash yet.
///
/// On a driver whose caches keep nothing workers compile, and vkDestroyDevice would wait for the compile under way.
/// There they begin with the first shader module or pipeline, because most programs without any create a device only to
/// look at it. So they do after a device of the same instance that was destroyed without any. A program that has
/// enabled identifiers is to create pipelines, and may do so without a module and only if they are there.
pub fn start(device: &Arc<Device>) {
    if !pool::is_allowed() || device.decided.calls_back || device.table.destroy_pipeline.is_none() {
        return;
    }
    if !device.stash_folder().is_some_and(|folder| folder.is_dir()) {
        return device.work.parked.expect_no_plan(device.counters());
    }
    let is_to_create = device.keeps_artifacts() || device.decided.identifiers != IdentifierMode::Off;
    let at_first_command = is_to_create && !device.instance.last_device_was_idle.load(Ordering::Relaxed);
    let parker = Arc::new_cyclic(|this| Parker {
        context: Context::new(device, false),
        usual: AtomicU64::new(USUAL.as_nanos() as u64),
        chains: AtomicUsize::new(0),
        looks_at_memory: AtomicBool::new(false),
        until_memory: faults::until_memory(LOOKS_AT_MEMORY),
        ran_dry: AtomicBool::new(false),
        is_done: AtomicBool::new(false),
        questions: Questions::default(),
        manners: if processors::are_roomy() { Manners::BesideCalls } else { Manners::AfterCalls },
        at_first_command,
        this: this.clone(),
    });
    work::enter(&parker, device);
    device.work.parked.expect_plan();
    device.work.listeners.add(parker);
}

impl BackgroundWork for Parker {
    fn first_command(&self) {
        if self.at_first_command {
            self.begin();
        }
    }

    fn first_creation(&self) {
        if !self.at_first_command {
            self.begin();
        }
    }

    fn has_room(&self) {
        self.this.upgrade().into_iter().for_each(|parker| parker.refill());
    }

    fn layout_came(&self, keys: &Arc<Keys>) {
        let Some(parker) = self.this.upgrade() else { return };
        pool::queue(self.context.owner, Box::new(LayoutCame { parker, keys: keys.clone() }));
    }
}

impl Work for Parker {
    fn context(&self) -> &Context {
        &self.context
    }

    fn commit(self: Arc<Self>, device: &Device) {
        if device.work.parked.plan().is_some() && device.work.parked.resume() {
            self.refill();
        }
    }

    fn discard(&self, device: &Device) {
        if !device.stored().is_some_and(|stored| stored.stash.forget_order()) {
            tracing::debug!("the order of use was not forgotten");
        }
    }

    fn release(&self, device: &Device) {
        destroy_unasked(device, &device.work.parked.close());
    }
}

impl Parker {
    /// Has workers make what the last runs used first.
    fn begin(&self) {
        let (Some(parker), Some(device)) = (self.this.upgrade(), self.context.device.upgrade()) else {
            return;
        };
        // Opened by this thread: the program would wait for a worker at its first pipeline.
        if device.stored().is_none() {
            return device.work.parked.expect_no_work();
        }
        // What workers count is in the report of a program that creates no pipelines, too.
        device.session();
        pool::queue(self.context.owner, Box::new(Begin { parker, again: LOOKS_AGAIN }));
    }

    /// Takes a plan of what the stash has. None: the task must end.
    fn follow(self: &Arc<Parker>, device: &Device, stored: &Stored, is_whole: bool) -> Option<()> {
        let order = order::of(stored)?;
        if order.keys.is_empty() {
            return Some(());
        }
        let (keys, last, runs) = (order.keys.len(), order.of_last_run, order.runs.len());
        tracing::debug!("the plan has {keys} pipelines: {last} of the last run, and those of {runs} others");
        let plan = Plan::new(order.keys, order.of_last_run, &order.runs);
        device.work.parked.follow(plan, is_whole, device.counters());
        self.go_on(device);
        Some(())
    }

    /// Has workers make more of the plan, unless they do already. The last of them then looks for a newer plan.
    fn go_on(self: &Arc<Parker>, device: &Device) {
        if device.work.parked.resume() {
            device.work.parked.was_replanned();
            self.refill();
        }
    }

    /// Has workers make more of the plan.
    fn refill(self: &Arc<Parker>) {
        let device = self.context.device.upgrade();
        let plan = device.as_ref().and_then(|device| device.work.parked.plan());
        let is_short = plan.is_some_and(|plan| plan.available() < FEW);
        let stored = device.as_ref().and_then(|device| device.stored());
        let is_doubted = || stored.is_some_and(|stored| stored.device.doubts_workers());
        let chains = if is_short || is_doubted() { 1 } else { CHAINS };
        self.chains.store(chains, Ordering::Release);
        for _ in 0..chains {
            pool::queue(self.context.owner, Box::new(Step(Chain(self.clone()))));
        }
    }

    fn usual(&self) -> Duration {
        Duration::from_nanos(self.usual.load(Ordering::Relaxed))
    }

    fn note_time(&self, spent: Duration) {
        let before = self.usual.load(Ordering::Relaxed);
        let now = (7 * before + spent.as_nanos().min(u128::from(u64::MAX / 8)) as u64) / 8;
        self.usual.store(now, Ordering::Relaxed);
    }

    /// Sees to it that what waits is destroyed where memory becomes scarce.
    fn look_at_memory_later(self: &Arc<Parker>, device: &Device) {
        if device.work.parked.count() > 0 && !self.looks_at_memory.swap(true, Ordering::SeqCst) {
            pool::queue_after(self.context.owner, self.until_memory, Box::new(LookAtMemory(self.clone())));
        }
    }

    /// Destroys what waits, and has nothing more made.
    fn give_up(&self, device: &Device) {
        let Some(_in_driver) = gate::enter_driver_of(device, Manners::AfterCalls) else { return };
        tracing::debug!("memory is scarce: nothing is made ahead any more");
        destroy_unasked(device, &device.work.parked.give_up());
    }

    /// What is made next, and how. None: there is no other one, or no room.
    fn choose(&self, device: &Device, plan: &Plan, stored: &Stored) -> Option<Choice> {
        for _ in 0..PASSED_OVER {
            if !device.work.parked.has_room() {
                self.is_done.store(true, Ordering::Relaxed);
                return None;
            }
            let Some(key) = plan.next() else {
                self.is_done.store(true, Ordering::Relaxed);
                self.ran_dry.store(true, Ordering::Relaxed);
                return None;
            };
            let ways = make::ways(device, stored, key).map(|way| way.filter(|way| self.is_allowed(*way)));
            if ways != [None; 2] {
                return Some(Choice::Make(*key, ways));
            }
            plan.pass_over(key);
        }
        Some(Choice::MakeRoom)
    }

    fn is_allowed(&self, way: Way) -> bool {
        !way.is_question() || self.questions.may_ask()
    }

    /// Whether the driver may get the call, and a mark for as long as it has it.
    fn admit(parked: &Parked, plan: &Plan, stored: &Stored, key: &Key, way: Way) -> Admission {
        // The guard file has the artifact under its own key, so that a crash is blamed on this artifact alone.
        if way == (Way::Artifact { is_taken: false }) {
            let admission = stored.device.admit(key);
            if matches!(admission, Admission::Quarantined) {
                plan.pass_over(key);
            }
            return admission;
        }
        let admission = stored.device.admit_worker();
        if matches!(admission, Admission::Quarantined) {
            tracing::warn!("two processes died while a worker was in this driver; nothing is made ahead");
            parked.stop();
        }
        admission
    }

    /// Makes the next pipeline of the plan, and says how long to wait before the one after it. None: there is no other
    /// one, no room, or no way to go on.
    fn make_next(&self, device: &Device) -> Option<Duration> {
        let at_once = Some(Duration::ZERO);
        let (plan, stored) = (device.work.parked.plan()?, device.stored()?);
        let pause = pauses::pause();
        device.work.parked.give_way(pause.is_some());
        live::set_paused(pause.is_some());
        if pause.is_some() {
            return pause;
        }
        let Choice::Make(key, ways) = self.choose(device, plan, stored)? else { return at_once };
        for way in ways.into_iter().flatten() {
            if let ControlFlow::Break(pause) = self.make(device, plan, stored, &key, way) {
                return pause;
            }
        }
        plan.pass_over(&key);
        at_once
    }

    /// Makes this pipeline, and says the same. Continue: the driver no longer has it.
    fn make(
        &self,
        device: &Device,
        plan: &Plan,
        stored: &Stored,
        key: &Key,
        way: Way,
    ) -> ControlFlow<Option<Duration>> {
        let at_once = ControlFlow::Break(Some(Duration::ZERO));
        // The disk is slow.
        let later = || {
            plan.give_back(key);
            ControlFlow::Break(Some(LOOKS_AGAIN))
        };
        // The guard file is waited for before the gate: otherwise vkDestroyDevice would wait for the disk as well.
        if !stored.device.is_guarded() {
            return later();
        }
        let (own, parked) = (&self.context.own, &device.work.parked);
        let fails = |reason, pause| ControlFlow::Break(self.note(device, plan, key, reason).then_some(pause));
        let mut inputs = match Inputs::read(device, stored, own, key, way) {
            Ok(inputs) => inputs,
            Err(reason) => return fails(reason, Duration::ZERO),
        };
        let Some(in_driver) = gate::enter_driver_of(device, self.manners) else {
            return ControlFlow::Break(None);
        };
        let loan = match inputs.borrow(device, key) {
            Ok(loan) => loan,
            Err(reason) => return fails(reason, Duration::ZERO),
        };
        let usual = inputs.compiles_for().unwrap_or_else(|| self.usual().min(LONGEST_WAIT));
        // The program may have asked for it while this thread waited at the gate.
        let samplers = loan.as_ref().map(|loan| loan.layout().samplers.clone());
        let terms = Terms { whom: way.for_whom(), samplers };
        let Some(making) = plan.is_open(key).then(|| parked.begin(key, terms, usual)).flatten() else {
            return at_once;
        };
        // Marked behind the gate: who is killed while a worker waits there has died of no driver.
        let mark = match Self::admit(parked, plan, stored, key, way) {
            Admission::Granted(mark) => mark,
            Admission::NotYet => return later(),
            Admission::Quarantined => return at_once,
        };
        let started = Instant::now();
        let live = Call::begin_on_worker(started, Activity::Ahead, key);
        // SAFETY: this thread is behind the gate, and vkDestroyDevice waits for that (`pool::leave`), so the device is
        // alive; the driver calls nothing of the program's (`enter_driver_of`).
        let made =
            unsafe { make::make(device, stored, own, key, &mut inputs, loan.as_ref(), &self.questions) };
        drop((mark, live, loan));
        let pause = stored.device.worker_pause(started.elapsed());
        if made.is_ok() && !matches!(way, Way::Compile(_)) {
            self.note_time(started.elapsed());
        }
        let made = made.map(|finished| self.hand_in(device, key, way, making.finish(finished)));
        drop(in_driver);
        match made {
            Ok(()) => ControlFlow::Break(Some(pause)),
            Err(NotMade::FoundNoMore) => {
                device.count(Count::FoundNoMore);
                ControlFlow::Continue(())
            }
            Err(NotMade::Refused) => {
                inputs.note_refusal(stored, key);
                fails(NotMade::Refused, pause)
            }
            Err(reason) => fails(reason, pause),
        }
    }

    /// A pipeline was made. `unwanted`: the program has stopped waiting for it.
    fn hand_in(&self, device: &Device, key: &Key, way: Way, unwanted: Option<Finished>) {
        if let Some(unwanted) = unwanted {
            destroy_unasked(device, &[unwanted]);
        }
        if let Way::Found { took, bytes: Bytes::Lost } = way {
            device.leave_to_workers(key, took);
        }
    }

    /// A pipeline was not made. False: nothing more can be made on this device.
    fn note(&self, device: &Device, plan: &Plan, key: &Key, reason: NotMade) -> bool {
        tracing::debug!("a pipeline was not made ahead: {reason}");
        match reason {
            // The key waits until the program creates one (`layout_came`).
            NotMade::Objects(ObjectError::LayoutAwaited) => plan.put_off(key),
            _ if is_never_made(reason) => plan.pass_over_for_ever(key),
            _ => plan.pass_over(key),
        }
        if !is_planned(reason) {
            device.count(Count::ParkingFailed);
        }
        let ends = reason.ends_it();
        if ends {
            device.work.parked.stop();
        }
        !ends
    }
}

/// Destroys pipelines that the program has not asked for.
fn destroy_unasked(device: &Device, unasked: &[Finished]) {
    let Some(destroy) = device.table.destroy_pipeline else { return };
    for finished in unasked {
        // SAFETY: a live device; the pipeline was made without an allocator, and the program has never had it. The
        // cache is the layer's, and no call uses it.
        unsafe {
            destroy(device.handle, finished.pipeline, std::ptr::null());
            drop(device.caches.commands.taken_back(finished.made_with));
        }
    }
    device.counters().add(Count::ParkedUnasked, unasked.len() as u64);
}

/// Whether such pipelines are never made ahead (docs/process.md).
fn is_never_made(reason: NotMade) -> bool {
    let never = [
        NotMade::NothingToCompile,
        NotMade::Objects(ObjectError::ImmutableSamplers),
        NotMade::Rebuild(RebuildError::Derivative),
    ];
    never.contains(&reason)
}

/// Whether this is no failure: such pipelines are never made ahead, or something that they need is not in the stash.
fn is_planned(reason: NotMade) -> bool {
    let awaits = NotMade::Objects(ObjectError::LayoutAwaited);
    is_never_made(reason)
        || matches!(reason, NotMade::NoWay | NotMade::Rebuild(RebuildError::Missing(..)))
        || reason == awaits
}

/// Finds out what the program is likely to ask for. Where parts of the stash were put off it looks again when they are
/// read: after this time, twice this time and so on.
struct Begin {
    parker: Arc<Parker>,
    again: Duration,
}

impl Task for Begin {
    fn name(&self) -> &'static str {
        "plan"
    }

    fn run(self: Box<Self>) {
        let Begin { parker, again } = *self;
        let Some(device) = parker.context.device.upgrade() else { return };
        let Some(stored) = device.stored() else { return };
        let is_first = again == LOOKS_AGAIN;
        // Without the rest of the device's part, and of its siblings, it is not known what can be made.
        let is_whole = !stored.portable.is_incomplete()
            && !stored.device.is_incomplete()
            && stored.are_siblings_read(&device.decided.configuration);
        if (is_whole || is_first) && parker.follow(&device, stored, is_whole).is_none() {
            return;
        }
        if !is_whole && again < LOOKS_LAST {
            let owner = parker.context.owner;
            pool::go_on_after(owner, again, Box::new(Begin { parker, again: 2 * again }));
        } else {
            device.work.parked.expect_no_plan(device.counters());
        }
    }

    fn cancel(self: Box<Self>, _: Cancelled) {
        if let Some(device) = self.parker.context.device.upgrade() {
            device.work.parked.expect_no_work();
        }
    }
}

/// One of the chains of tasks. Whatever ends the last one, requests of the program see to the plan from then on.
struct Chain(Arc<Parker>);

impl Drop for Chain {
    fn drop(&mut self) {
        let Chain(parker) = self;
        if parker.chains.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        if let Some(device) = parker.context.device.upgrade() {
            if parker.is_done.swap(false, Ordering::Relaxed) {
                device.stored().into_iter().for_each(|stored| stored.device.workers_are_done());
            }
            device.work.parked.pause();
            parker.look_at_memory_later(&device);
            // A request may have come between the plan's answer and the pause.
            let asked_again = parker.ran_dry.swap(false, Ordering::Relaxed) && device.work.parked.is_due();
            if device.work.parked.was_replanned() || asked_again {
                parker.go_on(&device);
            }
        }
    }
}

/// Makes one pipeline, and sees to the next one.
struct Step(Chain);

impl Task for Step {
    fn name(&self) -> &'static str {
        "park"
    }

    fn run(self: Box<Self>) {
        let Step(chain) = *self;
        let parker = &chain.0;
        let Some(device) = parker.context.device.upgrade() else { return };
        let owner = parker.context.owner;
        match parker.make_next(&device) {
            Some(Duration::ZERO) => pool::queue(owner, Box::new(Step(chain))),
            Some(pause) => pool::go_on_after(owner, pause, Box::new(Step(chain))),
            None => {}
        }
    }

    fn cancel(self: Box<Self>, _: Cancelled) {}
}

/// Has the pipelines of these keys made, which have waited for a layout of the program's.
struct LayoutCame {
    parker: Arc<Parker>,
    keys: Arc<Keys>,
}

impl Task for LayoutCame {
    fn name(&self) -> &'static str {
        "layout"
    }

    fn run(self: Box<Self>) {
        let LayoutCame { parker, keys } = *self;
        let Some(device) = parker.context.device.upgrade() else { return };
        if let Some(plan) = device.work.parked.plan() {
            plan.come_again(keys.iter());
            parker.go_on(&device);
        }
    }

    fn cancel(self: Box<Self>, _: Cancelled) {}
}

/// Looks whether memory is scarce.
struct LookAtMemory(Arc<Parker>);

impl Task for LookAtMemory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn run(self: Box<Self>) {
        let LookAtMemory(parker) = *self;
        parker.looks_at_memory.store(false, Ordering::SeqCst);
        let Some(device) = parker.context.device.upgrade() else { return };
        if memory::is_scarce() {
            parker.give_up(&device);
        }
        parker.look_at_memory_later(&device);
    }

    fn cancel(self: Box<Self>, _: Cancelled) {
        self.0.looks_at_memory.store(false, Ordering::SeqCst);
    }
}
