//! Background work of a device.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::background_work::Listeners;
use super::driver_hits::DriverHits;
use super::lending::Lending;
use super::parked::Parked;
use crate::log;

/// Background work of a device, and what that needs of the program or holds for it.
pub struct WorkOfDevice {
    /// Those who do it.
    pub listeners: Arc<Listeners>,
    /// Pipelines that were finished.
    pub parked: Parked,
    /// Pipelines that the driver had, which are to be recorded.
    pub driver_hits: DriverHits,
    /// The program's layouts that workers use.
    pub lending: Lending,
    /// Workers stay away from this device: a driver call of one of them did not end within its time.
    is_closed: AtomicBool,
}

impl WorkOfDevice {
    /// None yet. `lends`: workers may use layouts of the program's.
    pub fn new(lends: bool) -> WorkOfDevice {
        let listeners = Arc::new(Listeners::default());
        WorkOfDevice {
            parked: Parked::new(listeners.clone()),
            driver_hits: DriverHits::new(listeners.clone()),
            listeners,
            lending: Lending::new(lends),
            is_closed: AtomicBool::new(false),
        }
    }

    /// Whether workers stay away from this device.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// A worker's call has kept the program waiting for too long: there is no other one on this device.
    pub fn close(&self) {
        if !self.is_closed.swap(true, Ordering::Relaxed) {
            log::init();
            tracing::warn!("a call of a worker took too long; workers make nothing more on this device");
        }
    }
}
