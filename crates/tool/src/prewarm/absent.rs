//! `vkstash prewarm --device`: a device that is not here (docs/prewarm.md).
//!
//! RADV runs without its GPU on Mesa's drm-shim, a library that answers in place of the kernel's driver, as the chip
//! that AMDGPU_GPU_ID names. No other driver can be made to.

use std::path::{Path, PathBuf};

use ash::vk;
use vkstash_store::format::device::{DeviceHeader, HeaderMismatch};
use vkstash_store::stash::inspect::ApplicationInfo;

use super::child::Launch;
use super::chips::{self, CHIPS, Chip, StandIn};
use super::plan::{Group, Plan};
use crate::names::{driver_id, driver_version};

/// The file in Debian's package mesa-drm-shim.
const SHIM: &str = "libamdgpu_noop_drm_shim.so";
/// What a chip by name begins with.
const BY_NAME: &str = "radv:";
const RADV: u32 = vk::DriverId::MESA_RADV.as_raw() as u32;

/// Why nothing is made for a device that is not here.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AbsentError {
    #[error("no chip {name:?} is known; there are {}", chips::names())]
    NoChip { name: String },
    #[error(
        "no device part of the stash is called {0:?}: `vkstash stats -vv` names them; or name a chip: radv:NAME"
    )]
    NoPart(String),
    #[error("several device parts begin with {0:?}: `vkstash stats -vv` names them")]
    SeveralParts(String),
    #[error(
        "nothing is made: {driver} of part {part} cannot be made to run without its device; only RADV can"
    )]
    OtherDriver { part: String, driver: String },
    #[error("nothing is made: no chip of Mesa's drm-shim has the number {device:#06x}, as part {part} has")]
    NoNumber { part: String, device: u32 },
    #[error("no {SHIM} is here: install Debian's mesa-drm-shim, or name the file with --drm-shim")]
    NoShim,
    #[error("nothing is made: RADV does not run as {chip} with {}: {reason}", shim.display())]
    NotSeen { chip: &'static str, shim: PathBuf, reason: String },
    #[error(
        "nothing is made: part {part} is of driver {there}, and RADV here is {here}: install that version"
    )]
    OtherVersion { part: String, there: String, here: String },
    #[error(
        "nothing is made: part {part} is of another build of RADV, or of one with other options \
         (pipelineCacheUUID {there}, here {here})"
    )]
    OtherBuild { part: String, there: String, here: String },
    #[error("nothing is made: part {part} was {mismatch}")]
    Other { part: String, mismatch: HeaderMismatch },
}

/// What is made for, and by which library.
pub(crate) struct Absent {
    shim: PathBuf,
    chips: Vec<&'static Chip>,
    /// None: a chip was named, and the driver here is the right one.
    part: Option<DeviceHeader>,
}

impl Absent {
    /// The chip or the device part of this name.
    pub(crate) fn new(
        named: &str,
        shim: Option<&Path>,
        found: &[ApplicationInfo],
    ) -> Result<Absent, AbsentError> {
        let (part, chips): (_, Vec<_>) = match named.strip_prefix(BY_NAME) {
            Some(name) => (None, CHIPS.iter().filter(|chip| chip.name.eq_ignore_ascii_case(name)).collect()),
            None => {
                let header = part_of(named, found)?;
                let chips = CHIPS
                    .iter()
                    .filter(|chip| (header.vendor_id, header.device_id) == (chips::VENDOR, chip.device));
                let chips = chips.collect();
                (Some(header), chips)
            }
        };
        match &part {
            Some(header) if header.driver_id != RADV => {
                let (part, id) = (header.short_digest(), header.driver_id);
                let driver = driver_id(id).unwrap_or_else(|| format!("driver {id}"));
                return Err(AbsentError::OtherDriver { part, driver });
            }
            Some(header) if chips.is_empty() => {
                return Err(AbsentError::NoNumber { part: header.short_digest(), device: header.device_id });
            }
            None if chips.is_empty() => return Err(AbsentError::NoChip { name: named.to_owned() }),
            _ => {}
        }
        let shim = shim.map(Path::to_owned).or_else(installed_shim).ok_or(AbsentError::NoShim)?;
        Ok(Absent { shim, chips, part })
    }

    /// What `plan` finds to make with workers that see the chip; of several chips with the same number, with the first
    /// one on which the driver is that of the part.
    pub(crate) fn planned<L, E: From<AbsentError>>(
        &self,
        launch: &mut Launch,
        plan: impl Fn(&Launch) -> Result<(Plan, L), E>,
    ) -> Result<(Plan, L), E> {
        let mut refused = AbsentError::NoShim;
        for chip in self.chips.iter().copied() {
            launch.stand_in = Some(StandIn { shim: self.shim.clone(), chip });
            let (mut made, locks) = plan(launch)?;
            match self.restrict(&mut made, chip) {
                Ok(()) => return Ok((made, locks)),
                Err(error) => refused = error,
            }
        }
        Err(refused.into())
    }

    /// Leaves what is right for the part, if one was named.
    fn restrict(&self, plan: &mut Plan, chip: &Chip) -> Result<(), AbsentError> {
        if plan.groups.is_empty() {
            let reason = plan.applications.iter().find_map(|planned| planned.problems.first());
            return match reason {
                Some(reason) => {
                    let (shim, reason) = (self.shim.clone(), reason.clone());
                    Err(AbsentError::NotSeen { chip: chip.name, shim, reason })
                }
                // There are no recipes.
                None => Ok(()),
            };
        }
        let Some(wanted) = &self.part else { return Ok(()) };
        // Programs enable different features, on one device and with one driver.
        let mut differences = plan.groups.iter().map(|group| {
            let mismatch = wanted.mismatch(&group.header)?;
            (mismatch != HeaderMismatch::Features).then_some((&group.header, mismatch))
        });
        let first = differences.next().flatten();
        if let Some((here, mismatch)) = first.filter(|_| differences.all(|other| other.is_some())) {
            return Err(refusal(wanted, here, mismatch));
        }
        for (number, planned) in plan.applications.iter_mut().enumerate() {
            let own = |group: &Group| group.application == number;
            let has_part = planned.recipes > 0 && planned.parts.contains(wanted);
            if has_part && !plan.groups.iter().any(|group| own(group) && group.header == *wanted) {
                plan.groups.retain(|group| !own(group));
                planned.failed = true;
                planned.problems.push(format!(
                    "{} here lacks a feature that was enabled for part {}",
                    chip.name,
                    wanted.short_digest()
                ));
            }
        }
        Ok(())
    }
}

/// In words, what the part's driver and the one here differ in.
fn refusal(wanted: &DeviceHeader, here: &DeviceHeader, mismatch: HeaderMismatch) -> AbsentError {
    let part = wanted.short_digest();
    match mismatch {
        HeaderMismatch::DriverVersion { found, expected } => AbsentError::OtherVersion {
            part,
            there: driver_version(RADV, found),
            here: driver_version(RADV, expected),
        },
        HeaderMismatch::PipelineCacheUuid => AbsentError::OtherBuild {
            part,
            there: hex::encode(wanted.pipeline_cache_uuid),
            here: hex::encode(here.pipeline_cache_uuid),
        },
        mismatch => AbsentError::Other { part, mismatch },
    }
}

/// The header of the device part with this name, or with the only name that begins so.
fn part_of(named: &str, found: &[ApplicationInfo]) -> Result<DeviceHeader, AbsentError> {
    let digits = named.strip_prefix("device-").unwrap_or(named);
    let mut matching: Vec<&DeviceHeader> = Vec::new();
    for part in found.iter().flat_map(|info| &info.parts).filter(|part| part.name.starts_with(digits)) {
        matching.extend(part.device.as_ref().filter(|header| !matching.contains(header)));
    }
    match matching.as_slice() {
        _ if digits.is_empty() => Err(AbsentError::NoPart(named.to_owned())),
        [header] => Ok((*header).clone()),
        [] => Err(AbsentError::NoPart(named.to_owned())),
        _ => Err(AbsentError::SeveralParts(named.to_owned())),
    }
}

/// For programs of this tool's architecture.
fn installed_shim() -> Option<PathBuf> {
    let architecture = if cfg!(target_arch = "x86") { "i386" } else { std::env::consts::ARCH };
    let folders =
        [&*format!("/usr/lib/{architecture}-linux-gnu"), "/usr/lib64", "/usr/lib", "/usr/local/lib"];
    folders.iter().map(|folder| Path::new(folder).join(SHIM)).find(|path| path.exists())
}
