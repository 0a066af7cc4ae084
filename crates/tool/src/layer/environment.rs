//! The environment of a process that the loader gives the layer to.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;

use crate::layer::library::Library;
use crate::layer::loader_folder::{FolderError, LoaderFolder};
use crate::layer::manifest::{self, Kind, ManifestError};

/// The loader's value for an unset XDG_DATA_DIRS. Once the variable is set, it must name these folders, or the loader
/// finds no driver.
const DEFAULT_DATA_DIRS: &str = "/usr/local/share:/usr/share";

/// The folder with the manifests of these libraries.
pub(crate) fn folder_for(libraries: &[Library]) -> Result<LoaderFolder, FolderError> {
    let manifest = |library| Ok((manifest::file_name(library), manifest::text(Kind::Implicit, library)?));
    let manifests = libraries.iter().map(manifest).collect::<Result<Vec<_>, ManifestError>>()?;
    LoaderFolder::with(&manifests)
}

/// Lets the loader of `command` find and enable the layer of this folder.
pub(crate) fn enable(command: &mut Command, folder: &LoaderFolder) {
    command.env("VKSTASH", "1");
    command.env("XDG_DATA_DIRS", prepended(folder.path(), env::var_os("XDG_DATA_DIRS"), DEFAULT_DATA_DIRS));
    // Loaders from 1.3.296 on prefer an installed layer to one in XDG_DATA_DIRS; this variable comes before both. A
    // layer that is found in both places is loaded once.
    let added = env::var_os("VK_ADD_IMPLICIT_LAYER_PATH");
    command.env("VK_ADD_IMPLICIT_LAYER_PATH", prepended(&folder.manifest_folder(), added, ""));
    // If this variable is set, such a loader searches nothing else.
    if let Some(only) = env::var_os("VK_IMPLICIT_LAYER_PATH").filter(|value| !value.is_empty()) {
        command.env("VK_IMPLICIT_LAYER_PATH", prepended(&folder.manifest_folder(), Some(only), ""));
    }
}

/// Tells the drivers of Mesa and NVIDIA to keep nothing on disk.
pub(crate) fn disable_driver_caches(command: &mut Command) {
    command.env("MESA_SHADER_CACHE_DISABLE", "1");
    command.env("__GL_SHADER_DISK_CACHE", "0");
}

/// [`enable`], and no other layer as far as the loader can be told: a capture tool or an overlay has no business in a
/// process that nobody looks at, and may hang in it.
pub(crate) fn enable_alone(command: &mut Command, folder: &LoaderFolder) {
    enable(command, folder);
    command.env_remove("VKSTASH_DISABLE");
    command.env_remove("VK_INSTANCE_LAYERS");
    command.env_remove("VK_LOADER_LAYERS_ENABLE");
    command.env("VK_IMPLICIT_LAYER_PATH", folder.manifest_folder());
    // Mesa's own implicit layer asks the windowing system which device is preferred. Older loaders know no other way to
    // leave it out.
    command.env("NODEVICE_SELECT", "1");
}

/// Has the loader of `command` load the driver of this manifest and no other.
pub(crate) fn load_driver_alone(command: &mut Command, manifest: &Path) {
    // Older loaders know the second name only.
    command.env("VK_DRIVER_FILES", manifest).env("VK_ICD_FILENAMES", manifest);
    // What the user has set for the active driver adds others, or leaves this one out.
    for name in ["VK_ADD_DRIVER_FILES", "VK_LOADER_DRIVERS_SELECT", "VK_LOADER_DRIVERS_DISABLE"] {
        command.env_remove(name);
    }
}

/// A search path that begins with `folder`. Where it is in the path already, a run is within a run: once is enough.
fn prepended(folder: &Path, before: Option<OsString>, default: &str) -> OsString {
    let rest = before.filter(|value| !value.is_empty()).unwrap_or_else(|| default.into());
    let mut paths = folder.as_os_str().to_owned();
    let known = rest.as_bytes().split(|&byte| byte == b':').map(OsStr::from_bytes);
    for path in known.filter(|path| !rest.is_empty() && *path != folder.as_os_str()) {
        paths.push(":");
        paths.push(path);
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    use vkstash_model::driver_options;

    use crate::drivers::caches;

    #[test]
    fn an_unset_or_empty_search_path_keeps_the_standard_folders() {
        let of = |before: Option<&str>| prepended(Path::new("/t"), before.map(Into::into), DEFAULT_DATA_DIRS);
        assert_eq!(of(None), "/t:/usr/local/share:/usr/share");
        assert_eq!(of(Some("")), "/t:/usr/local/share:/usr/share");
        assert_eq!(of(Some("/a:/b")), "/t:/a:/b");
        assert_eq!(prepended(Path::new("/t"), None, ""), "/t");
    }

    #[test]
    fn a_run_within_a_run_has_its_folder_in_the_path_once() {
        let of = |before: &str| prepended(Path::new("/t"), Some(before.into()), DEFAULT_DATA_DIRS);
        assert_eq!(of("/t:/usr/share"), "/t:/usr/share");
        assert_eq!(of("/u:/t::/usr/share"), "/t:/u::/usr/share");
        assert_eq!(of("/t"), "/t");
    }

    /// What a driver compiles for a worker of `vkstash prewarm` or under `vkstash run` a program can be served that was
    /// started in another way.
    #[test]
    fn no_variable_of_the_tools_decides_what_drivers_compile() {
        let mut command = Command::new("true");
        enable_alone(&mut command, &folder_for(&[]).unwrap());
        disable_driver_caches(&mut command);
        load_driver_alone(&mut command, Path::new("/driver.json"));
        caches::limits::raise(&mut command);
        let names: Vec<_> = command.get_envs().map(|(name, _)| name.to_owned()).collect();
        assert!(names.iter().any(|name| name == "MESA_SHADER_CACHE_DISABLE"), "{names:?}");
        let own = ["MESA_DISK_CACHE_SINGLE_FILE", "MESA_SHADER_CACHE_DIR"];
        for name in names.iter().map(|name| name.as_os_str()).chain(own.map(OsStr::new)) {
            assert!(!driver_options::counts(name), "{name:?}");
        }
    }
}
