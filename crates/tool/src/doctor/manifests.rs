//! Where the Vulkan loader searches implicit layers, and the manifests of this one there.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::finding::Finding;
use crate::elf::{self, Arch};
use crate::loader_paths;
use crate::manifest::{LAYER_NAME, MOST_BYTES};
use crate::regular;

/// The manifest that `vkconfig` writes: it may switch other layers off.
const OVERRIDE: &str = "VkLayer_override.json";

/// The library for programs of this tool's architecture that an installed manifest names.
pub(super) fn examine(findings: &mut Vec<Finding>) -> Option<PathBuf> {
    let folders = loader_paths::IMPLICIT_LAYERS.folders(&|name| env::var_os(name));
    let mut installed: Vec<Installed> = Vec::new();
    for file in folders.iter().flat_map(|folder| loader_paths::json_files(folder)) {
        if file.file_name() == Some(OsStr::new(OVERRIDE)) {
            findings.push(Finding::note(
                format!("{} overrides which layers programs get", file.display()),
                "look into vkconfig, which wrote it, if the layer is not loaded",
            ));
        }
        installed.extend(Installed::read(file));
    }
    for (at, found) in installed.iter().enumerate() {
        let name = found.manifest.display();
        match &found.library {
            Err(reason) => findings.push(Finding::wrong(
                format!("{name} names a library that cannot be used: {reason}"),
                "run `vkstash install` again, or `vkstash uninstall`",
            )),
            Ok((_, arch)) if installed[..at].iter().any(|before| before.is_for(arch)) => {
                findings.push(Finding::note(
                    format!("{name} is hidden by a manifest that the loader finds before it"),
                    "remove one of them: the other one may be of another version",
                ));
            }
            Ok((library, _)) => findings.push(Finding::good(format!("{name} names {}", library.display()))),
        }
    }
    if installed.is_empty() {
        findings.push(Finding::note(
            "the layer is not installed, so VKSTASH=1 does nothing; `vkstash run` needs no installation",
            "run `vkstash install` if programs are to find it by VKSTASH=1",
        ));
    }
    let own = Arch::own();
    let sibling = own.and_then(Arch::sibling).filter(|arch| has_loader(arch));
    if let Some(arch) =
        sibling.filter(|arch| !installed.is_empty() && !installed.iter().any(|found| found.is_for(arch)))
    {
        findings.push(Finding::note(
            format!(
                "programs for {} ({} bits) run without the layer: it is not installed for them",
                arch.name, arch.bits
            ),
            "build the library for them, and name both in `vkstash install --library` (README.md)",
        ));
    }
    let mut usable = installed.into_iter().filter_map(|found| found.library.ok());
    usable.find(|(_, arch)| own == Some(*arch)).map(|(library, _)| library)
}

/// A manifest of this layer.
struct Installed {
    manifest: PathBuf,
    library: Result<(PathBuf, &'static Arch), String>,
}

impl Installed {
    fn read(manifest: PathBuf) -> Option<Installed> {
        let bytes = regular::read(&manifest, MOST_BYTES).ok()?;
        let json: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
        let layer = &json["layer"];
        if layer["name"].as_str() != Some(LAYER_NAME) {
            return None;
        }
        let library = match layer["library_path"].as_str() {
            None => Err("it names none".to_owned()),
            Some(named) => {
                // The loader takes a path with a slash as relative to the manifest.
                let path = manifest.parent().unwrap_or(Path::new("/")).join(named);
                match elf::arch_of(&path) {
                    Ok(arch) => Ok((path, arch)),
                    Err(error) => Err(format!("{}: {error}", path.display())),
                }
            }
        };
        Some(Installed { manifest, library })
    }

    fn is_for(&self, arch: &Arch) -> bool {
        self.library.as_ref().is_ok_and(|(_, found)| *found == arch)
    }
}

/// Whether programs of this architecture can use Vulkan here.
fn has_loader(arch: &Arch) -> bool {
    arch.folders.iter().any(|folder| Path::new("/usr").join(folder).join("libvulkan.so.1").exists())
}
