//! The folders in which the Vulkan loader searches implicit layers, and the manifests of this one there.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::finding::Finding;
use crate::drivers::loader_paths;
use crate::layer::library::Library;
use crate::layer::manifest::{LAYER_NAME, MOST_BYTES};
use crate::system::elf::{self, Arch};
use crate::system::regular;

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
    if let Some(arch) = own.and_then(Arch::sibling) {
        let library = installed.iter().find(|found| found.is_for(arch)).map(|found| &found.library);
        let library = library.and_then(|library| library.clone().ok());
        let library = library.map(|(path, arch)| Library { path, arch });
        findings.push(tell_narrow(arch, library.as_ref(), has_loader(arch)));
    }
    let mut usable = installed.into_iter().filter_map(|found| found.library.ok());
    usable.find(|(_, arch)| own == Some(*arch)).map(|(library, _)| library)
}

/// Of programs for the 32-bit sibling of this tool's architecture. Many games of Windows are such ones. They have what
/// 64-bit programs have if the library and the worker are there.
fn tell_narrow(arch: &Arch, library: Option<&Library>, has_loader: bool) -> Finding {
    let programs = format!("32-bit programs ({})", arch.name);
    if let Some(library) = library {
        let get = format!("{programs} get the layer, too: {}", library.path.display());
        if library.worker().is_some() {
            return Finding::good(get);
        }
        return Finding::note(
            format!("{get}; `vkstash prewarm` leaves them out, because no vkstash-worker is near it"),
            "install vkstash-layer_VERSION_i386.deb, or lib32 of the archive, of the library's version",
        );
    }
    let loader = if has_loader { "" } else { ", and no 32-bit Vulkan loader was found" };
    Finding::note(
        format!("{programs} run without the stash: no 32-bit library of the layer is installed{loader}"),
        "install vkstash-layer_VERSION_i386.deb, or lib32 of the archive with `vkstash install --library` for both \
         (docs/player.md)",
    )
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

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn whether_programs_of_32_bits_have_the_layer_is_told_and_never_wrong() {
        let Some(arch) = Arch::own().and_then(Arch::sibling) else { return };
        let folder = tempfile::tempdir().unwrap();
        let library = Library { path: folder.path().join("l.so"), arch };
        let alone = tell_narrow(arch, Some(&library), true);
        assert!(alone.level == Level::Note && alone.text.contains("no vkstash-worker"), "{alone:?}");
        let (class, machine) = if arch.name == "x86" { (1, 3) } else { (1, 40) };
        let mut head = [0; 20];
        head[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1]);
        (head[16], head[18]) = (3, machine);
        std::fs::write(folder.path().join("vkstash-worker"), head).unwrap();
        let installed = tell_narrow(arch, Some(&library), true);
        assert!(installed.level == Level::Good && installed.text.contains("l.so"), "{installed:?}");
        for has_loader in [true, false] {
            let missing = tell_narrow(arch, None, has_loader);
            assert_eq!(missing.level, Level::Note, "{missing:?}");
            assert!(missing.text.contains("run without the stash"), "{missing:?}");
            assert_eq!(missing.text.contains("no 32-bit Vulkan loader"), !has_loader, "{missing:?}");
            assert!(missing.next.unwrap().contains("_i386.deb"));
        }
    }
}
