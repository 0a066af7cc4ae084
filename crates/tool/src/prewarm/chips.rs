//! The chips that Mesa's replacement for the kernel's amdgpu driver can stand in for: what
//! `src/amd/drm-shim/amdgpu_devices.c` of Mesa 25.0 has. A test asks the installed one for each of them.

use std::path::PathBuf;
use std::process::Command;

/// PCI's number of AMD.
pub(crate) const VENDOR: u32 = 0x1002;

/// A chip.
pub(crate) struct Chip {
    /// The value of AMDGPU_GPU_ID.
    pub(crate) name: &'static str,
    /// The device ID that the replacement reports. Real chips of one name have several.
    pub(crate) device: u32,
}

pub(crate) const CHIPS: &[Chip] = &[
    Chip { name: "renoir", device: 0x15e7 },
    Chip { name: "raven", device: 0x15d8 },
    Chip { name: "raven2", device: 0x15d8 },
    Chip { name: "stoney", device: 0x98e4 },
    Chip { name: "vangogh", device: 0x163f },
    Chip { name: "raphael_mendocino", device: 0x164e },
    Chip { name: "polaris10", device: 0x67df },
    Chip { name: "polaris12", device: 0x699f },
    Chip { name: "vega10", device: 0x687f },
    Chip { name: "navi10", device: 0x731f },
    Chip { name: "navi31", device: 0x744c },
    Chip { name: "navi21", device: 0x73bf },
    Chip { name: "pitcairn", device: 0x6818 },
    Chip { name: "bonaire", device: 0x6658 },
    Chip { name: "gfx1150", device: 0x150e },
];

/// Their names, for messages.
pub(crate) fn names() -> String {
    CHIPS.iter().map(|chip| chip.name).collect::<Vec<_>>().join(", ")
}

/// A chip that workers see instead of the machine's devices.
pub(crate) struct StandIn {
    pub(crate) shim: PathBuf,
    pub(crate) chip: &'static Chip,
}

impl StandIn {
    /// Lets the driver of this worker see the chip.
    pub(crate) fn apply(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.shim).env("AMDGPU_GPU_ID", self.chip.name);
        // No other driver. The manifest has this name in every distribution, and a similar one in Mesa's build folder.
        command.env("VK_LOADER_DRIVERS_SELECT", "radeon*").env_remove("VK_LOADER_DRIVERS_DISABLE");
        // RADV would look for no device.
        command.env_remove("RADV_FORCE_FAMILY");
    }

    /// Whether a physical device is that chip: loaders before 1.3.234 show those of other drivers, too.
    pub(crate) fn is(&self, vendor: u32, device: u32) -> bool {
        (vendor, device) == (VENDOR, self.chip.device)
    }
}
