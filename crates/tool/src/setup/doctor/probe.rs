//! Answers of the loader and the drivers, asked in processes of their own.

use std::io;
use std::path::Path;

use ash::vk;

use super::finding::Finding;
use crate::drivers::probe::{Answer, Device, PATIENCE, ProbeError, ask};
use crate::layer::environment;
use crate::layer::library;

/// `installed`: the library for programs of this tool's architecture that an installed manifest names.
pub(super) fn examine(installed: Option<&Path>, findings: &mut Vec<Finding>) {
    let is_usable = match ask(None, PATIENCE, |command| {
        command.env("VKSTASH_DISABLE", "1");
    }) {
        Ok(answer) => tell_drivers(&answer, findings),
        Err(error) => {
            findings.push(Finding::wrong(
                format!("a small Vulkan program fails here without the layer, too: {error}"),
                "a driver or another layer does that: VK_LOADER_DEBUG=all names them, as in \
                 `VK_LOADER_DEBUG=all vulkaninfo`",
            ));
            false
        }
    };
    if is_usable {
        tell_run(findings);
        if let Some(installed) = installed {
            tell_installed(installed, findings);
        }
    }
}

/// Whether programs find a device.
fn tell_drivers(answer: &Answer, findings: &mut Vec<Finding>) -> bool {
    let Some(loader) = answer.loader else {
        findings.push(Finding::wrong(
            "no Vulkan loader (libvulkan.so.1) can be loaded, so no program can use Vulkan here",
            "install it: libvulkan1 (Debian, Ubuntu), vulkan-loader (Fedora), vulkan-icd-loader (Arch)",
        ));
        return false;
    };
    findings.push(Finding::good(format!("the Vulkan loader knows Vulkan {}", version(loader))));
    if answer.devices.is_empty() {
        let failed = answer.failed.as_deref().unwrap_or("no driver has a device for this user");
        findings.push(Finding::wrong(
            format!("no program can use Vulkan here: {failed}"),
            "is a driver for the GPU installed (mesa-vulkan-drivers, or NVIDIA's)? May the user open \
             /dev/dri/renderD128? Does VK_DRIVER_FILES name a wrong file? `VK_LOADER_DEBUG=driver vulkaninfo` tells more",
        ));
    }
    findings.extend(answer.devices.iter().map(tell_device));
    !answer.devices.is_empty()
}

fn tell_device(device: &Device) -> Finding {
    let offered = [
        (device.cache_control, "cache control"),
        (device.identifiers, "identifiers"),
        (device.libraries, "pipeline libraries"),
    ];
    let of = |wanted: bool| {
        let names: Vec<_> = offered.iter().filter(|(is, _)| *is == wanted).map(|&(_, name)| name).collect();
        if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
    };
    let Device { name, driver, .. } = device;
    let known = format!("{name} ({driver}, Vulkan {}): offers {}", version(device.version), of(true));
    if device.driver_id == vk::DriverId::MESA_LLVMPIPE.as_raw() {
        return Finding::note(
            format!("{known}. It computes on the processor, and hands out no compiled pipelines"),
            "the stash makes pipelines ahead there, and stores shaders and recipes alone; use a GPU where there is one",
        );
    }
    if !device.cache_control {
        return Finding::note(
            format!("{known}. Without cache control nothing can be looked up without the risk of a compile"),
            "a newer driver has it; until then the stash leaves such look-ups to the driver",
        );
    }
    let more = if device.identifiers { "" } else { "; identifiers come from the layer" };
    Finding::good(format!("{known}{more}"))
}

/// Whether `vkstash run` gets the layer into a program.
fn tell_run(findings: &mut Vec<Finding>) {
    let libraries = match library::find() {
        Ok(libraries) => libraries,
        Err(error) => {
            findings.push(Finding::wrong(error.to_string(), "without it `vkstash run` cannot work"));
            return;
        }
    };
    let answer = environment::folder_for(&libraries).map_err(io::Error::other).map_err(ProbeError::from);
    let answer = answer.and_then(|manifests| {
        let own = libraries.first().map(|library| library.path.as_path());
        ask(own, PATIENCE, |command| environment::enable_alone(command, &manifests))
    });
    let with = "a small Vulkan program under `vkstash run`";
    findings.push(match answer {
        Ok(answer) if answer.has_layer => Finding::good(format!("{with} has the layer")),
        Ok(_) => Finding::wrong(
            format!("{with} runs without the layer: the loader does not load it"),
            "`VK_LOADER_DEBUG=layer vkstash run -- vulkaninfo` tells why",
        ),
        Err(error) => Finding::wrong(
            format!("{with} fails, and not without: {error}"),
            "please report it, with what `VK_LOADER_DEBUG=all vkstash run -- vulkaninfo` prints",
        ),
    });
}

/// Whether VKSTASH=1 gets the installed layer into a program.
fn tell_installed(library: &Path, findings: &mut Vec<Finding>) {
    let answer = ask(Some(library), PATIENCE, |command| {
        command.env("VKSTASH", "1");
    });
    let with = "a small Vulkan program with VKSTASH=1";
    findings.push(match answer {
        Ok(answer) if answer.has_layer => Finding::good(format!("{with} has the installed layer")),
        Ok(_) => Finding::wrong(
            format!("{with} runs without the installed layer"),
            "look at what else is said here; `VKSTASH=1 VK_LOADER_DEBUG=layer vulkaninfo` tells what the loader does",
        ),
        Err(error) => Finding::wrong(
            format!("{with} fails, and not without: {error}"),
            "set VKSTASH_DISABLE=1 for now; please report it, with what \
             `VKSTASH=1 VK_LOADER_DEBUG=all vulkaninfo` prints",
        ),
    });
}

fn version(version: u32) -> String {
    let [major, minor, patch] =
        [vk::api_version_major(version), vk::api_version_minor(version), vk::api_version_patch(version)];
    format!("{major}.{minor}.{patch}")
}
