//! Figures of a device in the report.

use std::sync::atomic::{AtomicBool, Ordering};

use super::frames::Frames;
use super::waits::Waits;
use crate::stats::Counters;
use vkstash_host::once::OnceLock;
use vkstash_store::reports::model::DeviceReport;
use vkstash_store::reports::waiting::Waiting;

/// One device of this process, as reports show it. It outlives the device.
pub struct DeviceStats {
    /// Name and numbers of the device; counters are filled in when a report is made.
    pub identity: DeviceReport,
    /// Name of its device part, once opened.
    pub part: OnceLock<String>,
    /// Its number in this run, from 0.
    pub number: u32,
    /// Its counters.
    pub counters: Counters,
    /// What the program presents.
    pub frames: Frames,
    /// The calls that create pipelines.
    pub waits: Waits,
    /// The program destroys it.
    pub is_left: AtomicBool,
}

impl DeviceStats {
    /// The program destroys it.
    pub fn leave(&self) {
        self.is_left.store(true, Ordering::SeqCst);
        // The report says that the run is over.
        self.counters.tell();
    }

    /// Whether the program destroys it.
    pub fn is_left(&self) -> bool {
        self.is_left.load(Ordering::SeqCst)
    }

    /// As of now.
    pub fn report(&self) -> DeviceReport {
        // First: what is counted from here on makes another report due.
        self.counters.take_changed();
        DeviceReport {
            part: self.part.get().cloned().unwrap_or_default(),
            counters: self.counters.values(),
            bypassed: self.counters.bypasses(),
            waiting: Waiting { frames: self.frames.report(), ..self.waits.report() },
            ..self.identity.clone()
        }
    }
}
