//! Paths on which the Vulkan loader searches manifests (docs: LoaderLayerInterface.md and LoaderDriverInterface.md of
//! the Vulkan loader).

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

/// Manifests of one kind, and the variables that say where they are.
pub(crate) struct Manifests {
    /// The folder below `vulkan`.
    folder: &'static str,
    /// Is searched first.
    added: &'static str,
    /// Takes the place of all other folders: the first of these that is set.
    only: &'static [&'static str],
}

pub(crate) const IMPLICIT_LAYERS: Manifests = Manifests {
    folder: "implicit_layer.d",
    added: "VK_ADD_IMPLICIT_LAYER_PATH",
    only: &["VK_IMPLICIT_LAYER_PATH"],
};

pub(crate) const DRIVERS: Manifests = Manifests {
    folder: "icd.d",
    added: "VK_ADD_DRIVER_FILES",
    only: &["VK_DRIVER_FILES", "VK_ICD_FILENAMES"],
};

impl Manifests {
    /// The folders, and of drivers the files, that the loader searches, in its order.
    pub(crate) fn folders(&self, variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let listed = |value: &OsStr| env::split_paths(value).collect::<Vec<_>>();
        let mut folders = set(self.added).map_or(Vec::new(), |value| listed(&value));
        if let Some(only) = self.only.iter().find_map(|name| set(name)) {
            folders.extend(listed(&only));
            return folders;
        }
        let home = set("HOME").map(PathBuf::from);
        let of_user = |name: &str, below: &str| {
            set(name).map(PathBuf::from).or_else(|| home.as_ref().map(|home| home.join(below)))
        };
        let of_all = |name: &str, default: &str| listed(&set(name).unwrap_or_else(|| default.into()));
        let mut bases = Vec::new();
        bases.extend(of_user("XDG_CONFIG_HOME", ".config"));
        bases.extend(of_all("XDG_CONFIG_DIRS", "/etc/xdg"));
        bases.push("/etc".into());
        bases.extend(of_user("XDG_DATA_HOME", ".local/share"));
        bases.extend(of_all("XDG_DATA_DIRS", "/usr/local/share:/usr/share"));
        folders.extend(bases.iter().map(|base| base.join("vulkan").join(self.folder)));
        let mut seen = Vec::new();
        folders.retain(|folder| {
            !seen.contains(folder) && {
                seen.push(folder.clone());
                true
            }
        });
        folders
    }
}

/// The manifests in a folder, or the one that this is.
pub(crate) fn json_files(folder: &Path) -> Vec<PathBuf> {
    if !folder.is_dir() {
        return vec![folder.to_owned()];
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension() == Some(OsStr::new("json")));
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Vec<PathBuf> {
        IMPLICIT_LAYERS.folders(&|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
        })
    }

    #[test]
    fn folders_stand_in_the_loaders_order() {
        let default = [
            "/home/u/.config/vulkan/implicit_layer.d",
            "/etc/xdg/vulkan/implicit_layer.d",
            "/etc/vulkan/implicit_layer.d",
            "/home/u/.local/share/vulkan/implicit_layer.d",
            "/usr/local/share/vulkan/implicit_layer.d",
            "/usr/share/vulkan/implicit_layer.d",
        ];
        assert_eq!(of(&[("HOME", "/home/u")]), default.map(PathBuf::from));
        let set =
            [("HOME", "/h"), ("XDG_DATA_HOME", "/d"), ("XDG_DATA_DIRS", "/a:/d:/a"), ("XDG_CONFIG_HOME", "")];
        let folders = of(&set);
        assert_eq!(folders.len(), 5, "{folders:?}");
        assert_eq!(folders[3..], ["/d", "/a"].map(|base| Path::new(base).join("vulkan/implicit_layer.d")));
    }

    #[test]
    fn a_path_that_is_given_replaces_the_others() {
        let only =
            [("HOME", "/h"), ("VK_IMPLICIT_LAYER_PATH", "/x:/y"), ("VK_ADD_IMPLICIT_LAYER_PATH", "/z")];
        assert_eq!(of(&only), ["/z", "/x", "/y"].map(PathBuf::from));
    }

    #[test]
    fn drivers_have_variables_of_their_own() {
        let set = [("VK_ICD_FILENAMES", "/old.json"), ("VK_DRIVER_FILES", "/new.json")];
        let folders = |set: &[(&str, &str)]| {
            DRIVERS.folders(&|name| set.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into()))
        };
        assert_eq!(folders(&set), [Path::new("/new.json")]);
        assert_eq!(folders(&set[..1]), [Path::new("/old.json")]);
        assert!(folders(&[]).contains(&PathBuf::from("/usr/share/vulkan/icd.d")));
    }
}
