//! Marks of the pipelines that a driver compiles, which show after a process has died which compiles it ended at.
//!
//! Each compile is marked in the process's guard file. A process that finds the file of a dead one counts a death of
//! each pipeline that was marked, in the crash count of its key. Whether the driver or a signal from outside has ended
//! the process cannot be known. docs/format.md has the bytes.

use std::sync::atomic::Ordering;

use crate::part::admission::InFlight;
use crate::part::crash_guard::Work;
use crate::part::open::Part;
use vkstash_host::forks as fork;
use vkstash_host::text::hex;
use vkstash_model::crash_count::{CompileDeaths, CrashCount};
use vkstash_model::record::{Key, Kind};

impl Part {
    /// The program may have a driver compile, and what it compiles is to be marked: the writer makes the guard file as
    /// soon as it runs.
    pub fn foresee_compiles(&self) {
        self.marks_compiles.store(self.is_of_a_device(), Ordering::Release);
        if self.is_of_a_device() && self.guard.get().is_none() {
            self.wants_guard.store(true, Ordering::Release);
            self.shared.foresee_guards();
        }
    }

    /// Marks the pipeline of this key, of these VkShaderStageFlags, as compiled until the answer is dropped. Waits for
    /// the guard file as [`Part::admit`] does. None: nothing is marked, because no compiles were
    /// [foreseen](Part::foresee_compiles), there is no guard file, the disk is too slow, or too many are marked.
    pub fn compiling(&self, key: &Key, stages: u32) -> Option<InFlight> {
        if !self.marks_compiles.load(Ordering::Acquire) {
            return None;
        }
        let guard = self.guard_in_time(&self.compile_guard_until, |_| true)??;
        let part = self.me.upgrade().filter(|_| guard.process() == fork::now())?;
        let slot = guard.enter(Work::Compile(key, stages)).ok()??;
        Some(InFlight { part, slot })
    }

    /// How many processes ended while a driver compiled the pipeline of this key, since it was last compiled.
    pub fn compile_deaths(&self, key: &Key) -> u8 {
        self.counted(key).compile.map_or(0, |compile| compile.deaths)
    }

    /// The driver has compiled the pipeline of this key: what ended while it did so before is forgotten.
    pub fn has_compiled(&self, key: &Key) {
        let counted = self.counted(key);
        if counted.compile.is_some() {
            self.put(Kind::CrashCount, key, CrashCount { compile: None, ..counted }.record());
        }
    }

    /// What is counted of a key.
    pub(super) fn counted(&self, key: &Key) -> CrashCount {
        let mut record = Vec::new();
        let known = self.has_any(Kind::CrashCount) && self.read_known(Kind::CrashCount, key, &mut record);
        if known { CrashCount::of(&record) } else { CrashCount::default() }
    }

    /// A process ended at that time while a driver compiled this pipeline.
    pub(super) fn count_compile(&self, key: &Key, stages: u32, unix_ms: u64) {
        tracing::info!("a process ended while the driver compiled {}", hex(&key[..8]));
        let counted = self.counted(key);
        let deaths = counted.compile.map_or(0, |compile| compile.deaths).saturating_add(1);
        let compile = Some(CompileDeaths { deaths, stages, unix_ms });
        self.put(Kind::CrashCount, key, CrashCount { compile, ..counted }.record());
    }
}
