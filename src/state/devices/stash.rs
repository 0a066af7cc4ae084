//! Stash of a device: opened when it is needed, and what the device keeps in it beside pipelines.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::device::Device;
use super::estimates::Estimates;
use crate::live;
use crate::state::ahead::driver_hits::DriverHit;
use crate::state::process::frames::Presented;
use crate::state::process::instance::Instance;
use crate::state::process::session::{self, Session};
use crate::state::process::stored::Stored;
use vkstash_model::counters::Count;
use vkstash_model::recipe::SCHEMA;
use vkstash_model::record::{ESTIMATES, Key, Kind};
use vkstash_store::format::device::DeviceHeader;
use vkstash_store::stash::siblings::Kin;
use vkstash_store::stash::uses::DeviceUses;

impl Device {
    /// The store, opened by the first command on the device if the program has a stash and background work is allowed,
    /// and otherwise by the first object or pipeline that needs it: a program that makes no pipelines creates nothing
    /// on the disk. None where it cannot be used.
    pub fn stored(&self) -> Option<&Stored> {
        self.stored.get_or_init(|| self.open_store()).as_ref()
    }

    /// The session, from the first module or pipeline on with a report that knows this device and what it counts. For
    /// calls that create these: a program that creates none gets no writer before its end.
    pub fn session(&self) -> &Session {
        let session = self.open_session();
        if !self.stats.counters.has_listener() {
            session.follow(&self.stats);
        }
        session
    }

    fn open_session(&self) -> &Session {
        self.session.get_or_init(|| {
            let Instance { config, application, .. } = &*self.instance;
            let session = Session::open(config, &application.name, Some(self.instance.handle));
            session.add_device(&self.stats);
            session
        })
    }

    /// The session, if it is open.
    pub fn opened_session(&self) -> Option<&Arc<Session>> {
        self.session.get()
    }

    fn open_store(&self) -> Option<Stored> {
        let stash = self.open_session().stash()?.clone();
        let header = self.header()?;
        match stash.device(&header) {
            Ok(device) => {
                // A device that is created again finds its part open already.
                let _ = self.stats.part.set(device.name().to_owned());
                if let Ok((digest, encoded)) = self.decided.configuration.encoded() {
                    if !stash.portable().contains(Kind::DeviceConfiguration, &digest) {
                        stash.portable().put(Kind::DeviceConfiguration, &digest, encoded.into());
                    }
                }
                // `vkstash prewarm` makes this device's own artifacts, also where a sibling has one.
                let is_worker = self.instance.config.application.is_some();
                let takes_siblings =
                    self.decided.cache_control && !self.policy.siblings.is_empty() && !is_worker;
                let siblings = takes_siblings.then(|| stash.siblings(&header, Kin::Features));
                let takes_versions = self.decided.shader_binaries.is_some() && !is_worker;
                let versions = takes_versions.then(|| stash.siblings(&header, Kin::Versions));
                let uses = DeviceUses::of(self.stats.number);
                // The tool knows of what its workers die.
                if !is_worker {
                    device.foresee_compiles();
                }
                Some(Stored::new(stash, device, uses, siblings, versions))
            }
            Err(error) => {
                tracing::warn!("no artifacts in this run: {error}");
                None
            }
        }
    }

    /// Whether a run on this device may have a timeline: a worker of `vkstash prewarm` presents nothing.
    pub fn keeps_timeline(&self) -> bool {
        self.instance.config.root.is_some() && self.instance.config.application.is_none()
    }

    /// Where the stash of this program is, whether there is one or not.
    pub fn stash_folder(&self) -> Option<PathBuf> {
        let Instance { config, application, .. } = &*self.instance;
        Some(config.root.as_ref()?.join(session::name_of(config, &application.name).folder))
    }

    /// Makes the page that shows what this process does, if it has none.
    pub fn show(&self) {
        let Instance { config, application, .. } = &*self.instance;
        live::open(|| {
            let name = session::name_of(config, &application.name);
            (name.display, config.root.as_ref().map(|root| root.join(name.folder)))
        });
    }

    /// What its part of the stash is bound to. None where its configuration cannot be encoded.
    pub fn header(&self) -> Option<DeviceHeader> {
        let properties = &self.physical.properties;
        Some(DeviceHeader {
            vendor_id: properties.vendor_id,
            device_id: properties.device_id,
            pipeline_cache_uuid: properties.pipeline_cache_uuid,
            driver_id: self.physical.driver.as_raw() as u32,
            driver_version: properties.driver_version,
            pointer_width: size_of::<usize>() as u8,
            schema: SCHEMA,
            features_digest: self.decided.configuration.features_digest().ok()?,
        })
    }

    /// What asking the sources of pipelines has brought lately, in this run and in earlier ones.
    pub fn estimates(&self) -> &Estimates {
        self.estimates.get_or_init(|| {
            let mut record = Vec::new();
            let stored = self.stored();
            let is_kept =
                stored.is_some_and(|stored| stored.device.read(Kind::Estimates, &ESTIMATES, &mut record));
            Estimates::new(&self.policy, is_kept.then_some(&record))
        })
    }

    /// What is kept of the estimates has changed.
    #[cold]
    pub fn keep_estimates(&self) {
        // A worker of the tool has no habits of the program's.
        if let Some(stored) = self.stored().filter(|_| self.instance.config.application.is_none()) {
            let record = self.estimates().record();
            if !stored.device.put(Kind::Estimates, &ESTIMATES, record.into()) {
                self.count(Count::Dropped);
            }
        }
    }

    /// Notes what has come of a presentation.
    #[cold]
    pub fn note(&self, presented: Presented) {
        if presented.wants_report {
            self.stats.counters.tell();
        }
        if let (Some(frame), Some(stored)) = (presented.frame, self.stored()) {
            stored.stash.note_timeline(frame);
        }
    }

    /// Leaves it to background work to record what the driver had of this key, which took so long. False: it is there,
    /// or cannot be recorded.
    pub fn leave_to_workers(&self, key: &Key, took: Duration) -> bool {
        let Some(stored) = self.stored() else { return false };
        let is_wanted = !stored.has_artifact(key) && stored.failed(key).may_be_recorded();
        is_wanted && self.work.driver_hits.note(DriverHit { key: *key, took })
    }
}
