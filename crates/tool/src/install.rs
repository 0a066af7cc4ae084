//! `vkstash install` and `vkstash uninstall`: the manifests through which the Vulkan loader finds the layer, and what a
//! program in C needs to use its library.

use std::env;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf, absolute};

use vkstash_store::base::owner;

use crate::cli::{InstallArgs, PlaceArgs, UninstallArgs};
use crate::development::{self, Folders, Planned};
use crate::elf::Arch;
use crate::library::{self, Library, LibraryError};
use crate::manifest::{self, Kind, LAYER_NAME, ManifestError, Occupant};
use crate::output::Printer;

/// Why nothing, or not everything, was installed or removed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InstallError {
    #[error(transparent)]
    Library(#[from] LibraryError),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("two libraries for {0}: one per architecture can be installed")]
    SameArchitecture(&'static str),
    #[error("cannot tell where this user's data belongs: neither HOME nor XDG_DATA_HOME is set")]
    NoHome,
    #[error("cannot make {} absolute: {error}", path.display())]
    Path { path: PathBuf, error: io::Error },
    #[error("{} would be root's in a folder of user {owner}; run this as that user, or with --system", path.display())]
    OfAnother { path: PathBuf, owner: u32 },
    #[error("cannot print what was done: {0}")]
    Print(#[from] io::Error),
}

/// The folder that holds implicit_layer.d and explicit_layer.d, and the users it serves.
struct Place {
    vulkan: PathBuf,
    development: Folders,
    /// The header's folder without the packager's staging folder.
    include: PathBuf,
    for_all: bool,
    is_a_home: bool,
}

impl Place {
    fn of(args: &PlaceArgs) -> Result<Place, InstallError> {
        let for_all = args.system || args.prefix.is_some();
        let share = match &args.prefix {
            Some(prefix) => made_absolute(prefix)?.join("share"),
            None if for_all => PathBuf::from("/usr/local/share"),
            None => {
                let dirs = directories::BaseDirs::new().ok_or(InstallError::NoHome)?;
                dirs.data_dir().to_owned()
            }
        };
        // Compilers search `include` beside `share`, but nothing in a home.
        let include = match share.parent() {
            Some(prefix) if for_all => prefix.join("include"),
            _ => share.join("vkstash/include"),
        };
        let destdir = args.destdir.as_deref().map(made_absolute).transpose()?;
        let staged = |path: PathBuf| destdir.as_ref().map_or(path.clone(), |destdir| below(destdir, &path));
        let development = Folders {
            include: staged(include.clone()),
            pkg_config: staged(share.join("pkgconfig")),
            prefix: share.parent().unwrap_or(&share).to_owned(),
        };
        let vulkan = staged(share.join("vulkan"));
        Ok(Place { vulkan, development, include, for_all, is_a_home: !for_all && args.destdir.is_none() })
    }

    fn folder(&self, kind: Kind) -> PathBuf {
        self.vulkan.join(kind.folder())
    }
}

fn made_absolute(path: &Path) -> Result<PathBuf, InstallError> {
    absolute(path).map_err(|error| InstallError::Path { path: path.to_owned(), error })
}

/// `path` seen from outside a file system whose root is `root`.
fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

pub(crate) fn install(args: &InstallArgs) -> Result<(), InstallError> {
    let place = Place::of(&args.place)?;
    let libraries = libraries(args)?;
    let mut planned = Vec::new();
    for library in &libraries {
        for kind in Kind::ALL {
            planned.push((place.folder(kind), manifest::file_name(library), manifest::text(kind, library)?));
        }
    }
    // For this machine's own programs; a second architecture has the same header.
    let own = Arch::own();
    let of_own = libraries.iter().find(|library| own.is_some_and(|own| own.name == library.arch.name));
    let development: Vec<_> = place.development.plan(&place.include, of_own).into_iter().flatten().collect();
    // With sudo, HOME may belong to a user.
    let whose = |(folder, ..): &(PathBuf, String, String)| Some((folder.clone(), owner::whose(folder)?));
    if let Some((path, owner)) = planned.iter().find_map(whose).filter(|_| place.is_a_home) {
        return Err(InstallError::OfAnother { path, owner });
    }
    // Foreign files are found before the first file is written, so that nothing is installed by half.
    for (folder, name, _) in &planned {
        let path = folder.join(name);
        if manifest::occupant(&path)? == Occupant::Foreign {
            return Err(ManifestError::Foreign(path).into());
        }
    }
    for Planned { folder, name, .. } in &development {
        let path = folder.join(name);
        if development::occupant(&path)? == Occupant::Foreign {
            return Err(ManifestError::Foreign(path).into());
        }
    }
    let mut out = Printer::open()?;
    for (folder, name, text) in planned
        .iter()
        .map(|(folder, name, text)| (folder, name.as_str(), text))
        .chain(development.iter().map(|Planned { folder, name, text }| (folder, *name, text)))
    {
        let path = manifest::install(folder, name, text)?;
        writeln!(out, "wrote {}", path.display())?;
    }
    for library in &libraries {
        describe(&mut out, library, place.for_all)?;
    }
    if !development.is_empty() && place.is_a_home {
        let folder = place.development.pkg_config.display();
        writeln!(out, "pkg-config finds the C API with PKG_CONFIG_PATH={folder}")?;
    }
    let whose = if place.for_all { "any program" } else { "any of your programs" };
    writeln!(out, "VKSTASH=1 in its environment now gives {whose} a stash; in Steam's launch options:")?;
    writeln!(out, "    VKSTASH=1 %command%")?;
    Ok(())
}

fn libraries(args: &InstallArgs) -> Result<Vec<Library>, InstallError> {
    if args.library.is_empty() {
        return Ok(library::find()?);
    }
    let destdir = args.place.destdir.as_deref().map(made_absolute).transpose()?;
    let staged = destdir.map(|destdir| move |path: &Path| below(&destdir, path));
    let staged = staged.as_ref().map(|staged| staged as &dyn Fn(&Path) -> PathBuf);
    let mut libraries: Vec<Library> = Vec::new();
    for path in &args.library {
        let library = library::named_and_staged(path, staged)?;
        if libraries.iter().any(|other| other.arch == library.arch) {
            return Err(InstallError::SameArchitecture(library.arch.name));
        }
        libraries.push(library);
    }
    Ok(libraries)
}

/// Prints which library the manifests name, and what may break that reference.
fn describe(out: &mut impl io::Write, library: &Library, for_all: bool) -> io::Result<()> {
    writeln!(out, "layer library ({}): {}", library.arch.name, library.path.display())?;
    if in_build_tree(&library.path) {
        writeln!(
            out,
            "    It stays in the build tree: `cargo clean` takes the layer away, a new build replaces it."
        )?;
    } else if !for_all {
        writeln!(out, "    It stays where it is: install again after moving it.")?;
    }
    if for_all && writable_by_others(&library.path) {
        writeln!(
            out,
            "    Note: somebody other than root can replace it, and so reach every user's programs."
        )?;
    }
    Ok(())
}

/// Whether the library lies in a Cargo target folder, which a build may remove.
fn in_build_tree(library: &Path) -> bool {
    library.parent().is_some_and(|folder| folder.join(".fingerprint").is_dir())
}

fn writable_by_others(library: &Path) -> bool {
    const GROUP_OR_OTHERS: u32 = 0o022;
    library.ancestors().any(|path| {
        // In a sticky folder such as /tmp nobody can replace what others own.
        const STICKY: u32 = 0o1000;
        path.metadata().is_ok_and(|metadata| {
            let shared = metadata.mode() & GROUP_OR_OTHERS != 0 && metadata.mode() & STICKY == 0;
            metadata.uid() != 0 || shared
        })
    })
}

pub(crate) fn uninstall(args: &UninstallArgs) -> Result<(), InstallError> {
    let place = Place::of(&args.place)?;
    let mut removed = 0_u32;
    let mut first_error = None;
    let mut out = Printer::open()?;
    for kind in Kind::ALL {
        for path in manifest::written_in(&place.folder(kind))? {
            match remove_ours(&path) {
                Ok(()) => {
                    removed += 1;
                    writeln!(out, "removed {}", path.display())?;
                    place.remove_empty_folders(&path);
                }
                // The remaining manifests are still removed; the exit status is that of the first failure.
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
    }
    for path in place.development.paths() {
        if removed > 0 && matches!(development::occupant(&path), Ok(Occupant::Ours)) {
            match manifest::remove(&path) {
                Ok(()) => {
                    writeln!(out, "removed {}", path.display())?;
                    place.remove_empty_folders(&path);
                }
                Err(error) => _ = first_error.get_or_insert(error),
            }
        }
    }
    if let Some(error) = first_error {
        return Err(error.into());
    }
    if removed == 0 {
        writeln!(out, "{LAYER_NAME} is not installed in {}", place.vulkan.display())?;
    } else if env::var_os("VKSTASH").is_some() {
        writeln!(out, "VKSTASH is still set in this environment; it has no effect any more.")?;
    }
    Ok(())
}

impl Place {
    /// Removes the folders of a file that is gone, as far as they are empty and below `share`. Other folders, such as
    /// `include`, are the system's.
    fn remove_empty_folders(&self, file: &Path) {
        let Some(share) = self.vulkan.parent() else { return };
        let folders =
            file.ancestors().skip(1).take_while(|folder| folder.starts_with(share) && *folder != share);
        for folder in folders {
            if std::fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }
}

fn remove_ours(path: &Path) -> Result<(), ManifestError> {
    match manifest::occupant(path)? {
        Occupant::Nobody => Ok(()),
        Occupant::Ours => manifest::remove(path),
        Occupant::Foreign => Err(ManifestError::Foreign(path.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_staging_root_goes_in_front_of_the_whole_path() {
        assert_eq!(below(Path::new("/d"), Path::new("/usr/share")), Path::new("/d/usr/share"));
    }
}
