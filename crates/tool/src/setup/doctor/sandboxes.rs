//! Sandboxes in which programs run: which layers and which folders they have there.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::finding::Finding;

/// The extension of org.freedesktop.Platform that has the layer.
const EXTENSION: &str = "org.freedesktop.Platform.VulkanLayer.vkstash";
/// Where a sandbox has it.
const MOUNTED: &str = "/usr/lib/extensions/vulkan/vkstash";

/// The machine, or a folder that stands for it.
struct Machine<'a> {
    root: &'a Path,
    variable: &'a dyn Fn(&str) -> Option<OsString>,
}

pub(super) fn examine(findings: &mut Vec<Finding>) {
    let machine = Machine { root: Path::new("/"), variable: &|name| env::var_os(name) };
    machine.examine(findings);
}

impl Machine<'_> {
    fn examine(&self, findings: &mut Vec<Finding>) {
        findings.extend(self.this_sandbox());
        findings.extend(self.flatpak_programs());
        findings.extend(self.steam());
    }

    fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    fn folder(&self, variable: &str) -> Option<PathBuf> {
        (self.variable)(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// The sandbox in which this command runs.
    fn this_sandbox(&self) -> Option<Finding> {
        if let Ok(info) = fs::read_to_string(self.path("/.flatpak-info")) {
            let runtime =
                info.lines().find_map(|line| line.strip_prefix("runtime=")).unwrap_or("its runtime");
            if self.path(MOUNTED).exists() {
                return Some(Finding::good(format!(
                    "this is a Flatpak sandbox ({runtime}), which has the layer's extension"
                )));
            }
            return Some(Finding::note(
                format!(
                    "this is a Flatpak sandbox ({runtime}) without the layer's extension; it has no layers of the host"
                ),
                "on the host: `flatpak install --user FILE`, with the release's file for the branch of this runtime",
            ));
        }
        let manager = fs::read_to_string(self.path("/run/host/container-manager")).unwrap_or_default();
        (manager.trim() == "pressure-vessel").then(|| {
            Finding::good(
                "this is a container of Steam's runtime, which has the implicit layers that the host had at its start",
            )
        })
    }

    /// Programs of Flatpak on this machine, which none of them sees from its sandbox.
    fn flatpak_programs(&self) -> Option<Finding> {
        if self.path("/.flatpak-info").exists() {
            return None;
        }
        let home = self.folder("HOME")?;
        fs::read_dir(self.path(home.join(".var/app"))).ok()?.flatten().next()?;
        let data = self.folder("XDG_DATA_HOME").unwrap_or_else(|| home.join(".local/share"));
        let places = [data.join("flatpak"), "/var/lib/flatpak".into()];
        if places.iter().any(|place| self.path(place.join("runtime").join(EXTENSION)).exists()) {
            return Some(Finding::note(
                "the layer's Flatpak extension is installed, for programs with the same branch of the runtime",
                "`flatpak override --user --env=VKSTASH=1 PROGRAM` enables it, and ~/.var/app/PROGRAM/cache/vkstash is \
                 the stash",
            ));
        }
        Some(Finding::note(
            "programs that were installed with Flatpak run without the layer: its extension is not installed",
            "`flatpak install --user FILE`, with the release's file for the branch of the program's runtime",
        ))
    }

    /// Steam's own package: games run in a container that has the host's implicit layers.
    fn steam(&self) -> Option<Finding> {
        let home = self.folder("HOME")?;
        let is_there =
            [".steam/root", ".local/share/Steam"].iter().any(|at| self.path(home.join(at)).exists());
        if !is_there {
            return None;
        }
        if let Some(paths) = (self.variable)("VK_IMPLICIT_LAYER_PATH") {
            return Some(Finding::note(
                format!(
                    "VK_IMPLICIT_LAYER_PATH={} hides the layers that Steam's runtime takes over from the host",
                    paths.to_string_lossy()
                ),
                "unset it for Steam (steam-runtime issue 808)",
            ));
        }
        if let Some(stash) = self.folder("VKSTASH_DIR").filter(|stash| !stash.starts_with(&home)) {
            return Some(Finding::note(
                format!(
                    "games in Steam's runtime may not see the stash: {} is not below the home",
                    stash.display()
                ),
                format!("share it: PRESSURE_VESSEL_FILESYSTEMS_RW={} in the launch options", stash.display()),
            ));
        }
        Some(Finding::good(
            "Steam's runtime takes the installed layer over: launch options `VKSTASH=1 %command%`",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    fn of(files: &[(&str, &str)], variables: &[(&str, &str)]) -> Vec<(Level, String)> {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        };
        let mut findings = Vec::new();
        Machine { root: root.path(), variable: &variable }.examine(&mut findings);
        findings.into_iter().map(|finding| (finding.level, finding.text)).collect()
    }

    const HOME: (&str, &str) = ("HOME", "/home/u");

    #[test]
    fn a_machine_without_sandboxes_has_nothing_to_tell() {
        assert!(of(&[], &[HOME]).is_empty());
        assert!(of(&[("home/u/.config/x", "")], &[]).is_empty());
    }

    #[test]
    fn the_sandbox_of_this_command_is_named() {
        let info =
            "[Application]\nname=org.example.Game\nruntime=runtime/org.freedesktop.Platform/x86_64/25.08\n";
        let found = of(&[(".flatpak-info", info)], &[HOME]);
        assert!(found[0].1.contains("runtime/org.freedesktop.Platform/x86_64/25.08"), "{found:?}");
        assert!(
            found[0].0 == Level::Note && found[0].1.contains("without the layer's extension"),
            "{found:?}"
        );
        let (own, of_app) =
            ("usr/lib/extensions/vulkan/vkstash/bin/vkstash", "home/u/.var/app/org.example.Game/x");
        let found = of(&[(".flatpak-info", info), (own, ""), (of_app, "")], &[HOME]);
        assert!(found.len() == 1 && found[0].0 == Level::Good, "{found:?}");
        let found = of(&[("run/host/container-manager", "pressure-vessel\n")], &[HOME]);
        assert!(found[0].1.contains("Steam's runtime") && found[0].0 == Level::Good, "{found:?}");
        assert!(of(&[("run/host/container-manager", "docker\n")], &[HOME]).is_empty());
    }

    #[test]
    fn programs_of_flatpak_and_what_hides_a_stash_from_steam_are_told_of() {
        let found = of(&[("home/u/.var/app/org.example.Game/x", "")], &[HOME]);
        assert!(found[0].1.contains("is not installed"), "{found:?}");
        for place in ["home/u/.local/share/flatpak", "var/lib/flatpak"] {
            let file = format!("{place}/runtime/{EXTENSION}/x86_64/25.08/active");
            let found = of(&[("home/u/.var/app/org.example.Game/x", ""), (&file, "")], &[HOME]);
            assert!(found[0].1.contains("is installed"), "{found:?}");
        }
        let steam = ("home/u/.local/share/Steam/steam.sh", "");
        assert_eq!(of(&[steam], &[HOME])[0].0, Level::Good);
        assert_eq!(of(&[steam], &[HOME, ("VKSTASH_DIR", "/home/u/stash")])[0].0, Level::Good);
        let far = of(&[steam], &[HOME, ("VKSTASH_DIR", "/mnt/stash")]);
        assert!(far[0].0 == Level::Note && far[0].1.contains("/mnt/stash"), "{far:?}");
        let hidden = of(&[steam], &[HOME, ("VK_IMPLICIT_LAYER_PATH", "/x")]);
        assert!(hidden[0].1.contains("VK_IMPLICIT_LAYER_PATH=/x"), "{hidden:?}");
    }
}
