//! `vkstash install` and `vkstash uninstall`: the manifests through which the Vulkan loader finds the layer, what a
//! program in C needs to use its library, and the service that compiles again after an update of a driver.
//!
//! - `copied` what `install.sh` of the archive has copied, which goes with it
//! - `purge` what was recorded, where that is to go, too

mod copied;
mod purge;

use std::env;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf, absolute};

use vkstash_host::owner;
use vkstash_model::variables;

use crate::cli::{InstallArgs, PlaceArgs, UninstallArgs};
use crate::drivers::caches::limits;
use crate::layer::library::{self, Library, LibraryError};
use crate::layer::manifest::{self, Kind, LAYER_NAME, ManifestError, Occupant};
use crate::setup::development::{self, Folders, Planned};
use crate::setup::update_service::{self, LeftOut, manager};
use crate::system::elf::Arch;
use crate::term::output::Printer;
use crate::term::units::counted;
use copied::Copied;

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
    #[error("cannot remove all of {}: {error}", path.display())]
    Purge { path: PathBuf, error: io::Error },
    #[error("nothing was removed: there is no terminal to ask on; say --yes")]
    NobodyToAsk,
    #[error("nothing was removed")]
    Refused,
    #[error("cannot print what was done: {0}")]
    Print(#[from] io::Error),
}

/// The folder that holds implicit_layer.d and explicit_layer.d, those of other files, and the users they serve.
struct Place {
    vulkan: PathBuf,
    development: Folders,
    /// The header's folder without the packager's staging folder.
    include: PathBuf,
    service: update_service::Folders,
    /// Where `install.sh` of the archive copies to.
    archive: PathBuf,
    /// Empty folders below these are removed. Others, such as `include`, are the system's.
    cleared: [PathBuf; 2],
    for_all: bool,
    is_a_home: bool,
}

impl Place {
    fn of(args: &PlaceArgs) -> Result<Place, InstallError> {
        let for_all = args.system || args.prefix.is_some();
        let dirs = || directories::BaseDirs::new().ok_or(InstallError::NoHome);
        let dirs = if for_all { None } else { Some(dirs()?) };
        let share = match (&dirs, &args.prefix) {
            (Some(dirs), _) => dirs.data_dir().to_owned(),
            (None, Some(prefix)) => made_absolute(prefix)?.join("share"),
            (None, None) => PathBuf::from("/usr/local/share"),
        };
        let prefix = share.parent().unwrap_or(&share);
        // Compilers search `include` beside `share`, but nothing in a home.
        let include = if for_all { prefix.join("include") } else { share.join("vkstash/include") };
        let destdir = args.destdir.as_deref().map(made_absolute).transpose()?;
        let staged = |path: PathBuf| destdir.as_ref().map_or(path.clone(), |destdir| below(destdir, &path));
        let development = Folders {
            include: staged(include.clone()),
            pkg_config: staged(share.join("pkgconfig")),
            prefix: prefix.to_owned(),
        };
        let (service, beside) = match &dirs {
            Some(dirs) => {
                let config = dirs.config_dir();
                (update_service::Folders::of_user(&share, config, &staged), config.to_owned())
            }
            None => {
                let service = update_service::Folders::of_all(prefix, destdir.is_some(), &staged);
                (service, prefix.join("lib"))
            }
        };
        let vulkan = staged(share.join("vulkan"));
        let archive = staged(dirs.map_or(prefix.to_owned(), |dirs| dirs.home_dir().join(".local")));
        let cleared = [staged(share), staged(beside)];
        let is_a_home = !for_all && destdir.is_none();
        Ok(Place { vulkan, development, include, service, archive, cleared, for_all, is_a_home })
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

/// What is written.
struct Plan {
    /// Folders, names and texts.
    manifests: Vec<(PathBuf, String, String)>,
    development: Vec<Planned>,
    service: Vec<update_service::Planned>,
}

impl Plan {
    fn of(place: &Place, libraries: &[Library]) -> Result<Plan, ManifestError> {
        let mut manifests = Vec::new();
        for library in libraries {
            for kind in Kind::ALL {
                let text = manifest::text(kind, library)?;
                manifests.push((place.folder(kind), manifest::file_name(library), text));
            }
        }
        // For this machine's own programs; a second architecture has the same header.
        let own = Arch::own();
        let of_own = libraries.iter().find(|library| own.is_some_and(|own| own.name == library.arch.name));
        let development = place.development.plan(&place.include, of_own).into_iter().flatten().collect();
        Ok(Plan { manifests, development, service: Vec::new() })
    }

    /// Adds the service. An error: why it is left out.
    fn add_service<'a>(&mut self, place: &'a Place) -> Result<(), &'a LeftOut> {
        self.service = place.service.plan()?;
        Ok(())
    }

    /// Finds foreign folders and files before the first file is written, so that nothing is installed by half.
    fn check(&self, place: &Place) -> Result<(), InstallError> {
        // With sudo, HOME may belong to a user.
        let folders = self.manifests.iter().map(|(folder, ..)| folder);
        let mut folders = folders.chain(self.service.iter().map(|planned| &planned.folder));
        let foreign = folders.find_map(|folder| Some((folder.clone(), owner::whose(folder)?)));
        if let Some((path, owner)) = foreign.filter(|_| place.is_a_home) {
            return Err(InstallError::OfAnother { path, owner });
        }
        let unless_foreign = |path: PathBuf, occupant| match occupant {
            Occupant::Foreign => Err(ManifestError::Foreign(path)),
            Occupant::Nobody | Occupant::Ours => Ok(()),
        };
        for (folder, name, _) in &self.manifests {
            let path = folder.join(name);
            unless_foreign(path.clone(), manifest::occupant(&path)?)?;
        }
        for Planned { folder, name, .. } in &self.development {
            let path = folder.join(name);
            unless_foreign(path.clone(), development::occupant(&path)?)?;
        }
        for planned in &self.service {
            unless_foreign(planned.path(), planned.occupant()?)?;
        }
        Ok(())
    }

    fn write(&self, out: &mut impl io::Write) -> Result<(), InstallError> {
        for (folder, name, text) in &self.manifests {
            writeln!(out, "wrote {}", manifest::install(folder, name, text)?.display())?;
        }
        for Planned { folder, name, text } in &self.development {
            writeln!(out, "wrote {}", manifest::install(folder, name, text)?.display())?;
        }
        for planned in &self.service {
            writeln!(out, "wrote {}", planned.write()?.display())?;
        }
        Ok(())
    }
}

pub(crate) fn install(args: &InstallArgs) -> Result<(), InstallError> {
    let place = Place::of(&args.place)?;
    // What is built for other machines says nothing of this one's disk.
    let is_staged = args.place.destdir.is_some();
    let libraries = libraries(args)?;
    let mut plan = Plan::of(&place, &libraries)?;
    let left_out = if args.no_service { None } else { plan.add_service(&place).err() };
    plan.check(&place)?;
    let mut out = Printer::open()?;
    plan.write(&mut out)?;
    for library in &libraries {
        describe(&mut out, library, place.for_all)?;
    }
    if !plan.development.is_empty() && place.is_a_home {
        let folder = place.development.pkg_config.display();
        writeln!(out, "pkg-config finds the C API with PKG_CONFIG_PATH={folder}")?;
    }
    if let Some(why) = left_out {
        writeln!(out, "Without the service that compiles again after an update of a driver: {why}")?;
    }
    if !plan.service.is_empty() {
        writeln!(out, "The service compiles pipelines again after an update of a driver;")?;
        writeln!(out, "    `vkstash background` shows it, and switches it off.")?;
    }
    if !plan.service.is_empty() && place.is_a_home {
        manager::start();
    }
    let whose = if place.for_all { "any program" } else { "any of your programs" };
    writeln!(out, "VKSTASH=1 in its environment now gives {whose} a stash; in Steam's launch options:")?;
    writeln!(out, "    VKSTASH=1 %command%")?;
    let raised = limits::assignments(&limits::planned()).filter(|_| !is_staged);
    if let Some(assignments) = raised {
        writeln!(out, "Or, with larger limits of the drivers' own caches, as `vkstash run` sets them here:")?;
        writeln!(out, "    VKSTASH=1 {assignments} %command%")?;
    }
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
    let recorded = if place.is_a_home { purge::folders() } else { Vec::new() };
    if args.purge && !args.yes && !recorded.is_empty() {
        purge::ask(&recorded)?;
    }
    let mut removal = Removal { place: &place, out: Printer::open()?, removed: 0, first_error: None };
    for kind in Kind::ALL {
        for path in manifest::written_in(&place.folder(kind))? {
            removal.note(&path, remove_ours(&path))?;
        }
    }
    for path in place.development.paths() {
        if removal.removed > 0 && matches!(development::occupant(&path), Ok(Occupant::Ours)) {
            removal.note(&path, manifest::remove(&path))?;
        }
    }
    let mut service = place.service.written();
    service.retain(|planned| matches!(planned.occupant(), Ok(Occupant::Ours)));
    let was_heard = !service.is_empty() && place.is_a_home && manager::stop();
    for planned in &service {
        let path = planned.path();
        removal.note(&path, manifest::remove(&path))?;
    }
    if was_heard {
        manager::forget();
    }
    removal.remove_copied()?;
    let Removal { mut out, removed, first_error, .. } = removal;
    if let Some(error) = first_error {
        return Err(error.into());
    }
    if args.purge {
        purge_all(&recorded, &mut out)?;
    }
    if removed == 0 {
        writeln!(out, "{LAYER_NAME} is not installed in {}", place.vulkan.display())?;
    } else if env::var_os("VKSTASH").is_some() {
        writeln!(out, "VKSTASH is still set in this environment; it has no effect any more.")?;
    }
    if !args.purge && !recorded.is_empty() {
        writeln!(out, "What was recorded, and your settings, are left in:")?;
        recorded.iter().try_for_each(|path| writeln!(out, "    {}", path.display()))?;
    }
    Ok(())
}

fn purge_all(recorded: &[PathBuf], out: &mut Printer) -> Result<(), InstallError> {
    for path in recorded {
        purge::remove(path)?;
        writeln!(out, "removed {}", path.display())?;
    }
    purge::remove_temporary();
    for variable in [variables::DIR, variables::CONFIG] {
        if let Some(named) = env::var_os(variable) {
            writeln!(out, "{variable} names {}, which is left as it is.", Path::new(&named).display())?;
        }
    }
    Ok(())
}

/// What was removed so far.
struct Removal<'a> {
    place: &'a Place,
    out: Printer,
    removed: u64,
    /// The remaining files are still removed; the exit status is that of the first failure.
    first_error: Option<ManifestError>,
}

impl Removal<'_> {
    /// What `install.sh` has copied: this program, too.
    fn remove_copied(&mut self) -> Result<(), InstallError> {
        let Some(copied) = Copied::below(&self.place.archive)? else { return Ok(()) };
        let (removed, error) = copied.remove();
        self.removed += removed;
        let archive = self.place.archive.display();
        writeln!(self.out, "removed {} that install.sh had copied to {archive}", counted(removed, "file"))?;
        if let Some(error) = error {
            self.first_error.get_or_insert(error);
        }
        Ok(())
    }

    fn note(&mut self, path: &Path, result: Result<(), ManifestError>) -> io::Result<()> {
        match result {
            Ok(()) => {
                self.removed += 1;
                writeln!(self.out, "removed {}", path.display())?;
                self.place.remove_empty_folders(path);
            }
            Err(error) => _ = self.first_error.get_or_insert(error),
        }
        Ok(())
    }
}

impl Place {
    /// Removes the folders of a file that is gone, as far as they are empty and below those that are cleared.
    fn remove_empty_folders(&self, file: &Path) {
        let is_cleared = |folder: &Path| {
            self.cleared.iter().any(|cleared| folder.starts_with(cleared) && folder != cleared)
        };
        for folder in file.ancestors().skip(1).take_while(|folder| is_cleared(folder)) {
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
