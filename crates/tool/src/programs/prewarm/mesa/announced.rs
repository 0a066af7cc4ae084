//! Databases that were made, and the environment variables by which a user makes Mesa read them.
//!
//! Such a variable holds the name of a database, and Mesa opens `CACHE/NAME.foz`. CACHE is a folder of Mesa's own: that
//! of its single-file cache for this build of the driver and this device. Mesa puts CACHE in front of an absolute path
//! too, so that one leads nowhere. But a NAME may begin with `../`: with enough of them it climbs from CACHE to the
//! root of the file system, and from there goes down to the folder of the databases, wherever CACHE is.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::database::Database;
use super::{Device, MesaError, SINGLE_FILE};
use crate::term::units::{plain, size};

/// So many `../` lead from any cache to the root of the file system. A cache in a user's home is seven folders deep,
/// and more steps do no harm: above the root is the root.
const STEPS: usize = 16;
/// Makes Mesa read databases beside its usual cache; without it the databases would take its place.
const COMBINE: &str = "MESA_DISK_CACHE_COMBINE_RW_WITH_RO_FOZ";
/// The names of the databases, separated by commas.
const NAMES: &str = "MESA_DISK_CACHE_READ_ONLY_FOZ_DBS";
/// The path of a file with a name on each line, which running programs read again when it changes.
const LIST: &str = "MESA_DISK_CACHE_READ_ONLY_FOZ_DBS_DYNAMIC_LIST";
/// That file, in the folder of the databases.
const LIST_FILE: &str = "databases.list";

/// A database for one build of a driver and one device.
pub(super) struct MesaDatabase {
    /// The name of its file, without the folder and without `.foz`.
    pub(super) name: String,
    /// The place below `mesa_shader_cache_sf` that Mesa gives this build and this device.
    pub(super) below: PathBuf,
    pub(super) device: Device,
    pub(super) database: Database,
}

/// The databases of a folder, as users are told of them.
pub(crate) struct Announced {
    folder: PathBuf,
    made: Vec<MesaDatabase>,
}

/// The same for programs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Databases<'a> {
    /// The folder that they are in.
    folder: Cow<'a, str>,
    /// One object for each build of a driver and each device.
    databases: Vec<ShownDatabase<'a>>,
    /// Names and values of the environment variables by which programs find all of them.
    variables: BTreeMap<&'static str, String>,
    /// Name and value of the variable that names a list of them instead, a file that running programs read again when
    /// it is changed.
    list: BTreeMap<&'static str, String>,
}

/// A database for one build of a driver and one device.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ShownDatabase<'a> {
    /// The name of its files, without the folder and without `.foz` and `_idx.foz`.
    name: &'a str,
    /// The device's name.
    device: &'a str,
    /// The version of the driver.
    driver_version: &'a str,
    /// The folder below `mesa_shader_cache_sf` in which Mesa looks for the name.
    cache: Cow<'a, str>,
    /// Number of entries.
    entries: u64,
    /// Their size.
    bytes: u64,
}

impl Announced {
    pub(super) fn new(folder: PathBuf) -> Announced {
        Announced { folder, made: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.made.is_empty()
    }

    /// Adds a database, if its name leads to it from `cache`, a folder that Mesa would put in front of the name.
    pub(super) fn add(&mut self, made: MesaDatabase, cache: &Path) -> Result<(), MesaError> {
        let path = self.climbing(&made.name);
        if ["", "_idx"].iter().all(|part| cache.join(format!("{path}{part}.foz")).is_file()) {
            self.made.push(made);
            return Ok(());
        }
        Err(MesaError::NotFound { name: made.name, folder: self.folder.clone() })
    }

    /// Writes the file that [`LIST`] names.
    pub(super) fn write_list(&self) -> io::Result<()> {
        let lines: String = self.made.iter().map(|made| self.climbing(&made.name) + "\n").collect();
        let path = self.folder.join(LIST_FILE);
        fs::write(&path, lines)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644))
    }

    /// The name by which Mesa finds a database from any cache: up to the root, and down again.
    fn climbing(&self, name: &str) -> String {
        let path = self.folder.join(name);
        format!("{}{}", "../".repeat(STEPS), path.to_string_lossy().trim_start_matches('/'))
    }

    /// The variables that a user sets, without [`LIST`], which may take the place of [`NAMES`].
    fn variables(&self) -> [(&'static str, String); 2] {
        let names: Vec<String> = self.made.iter().map(|made| self.climbing(&made.name)).collect();
        [(COMBINE, "1".to_owned()), (NAMES, names.join(","))]
    }

    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        for MesaDatabase { name, device, database, .. } in &self.made {
            let (entries, bytes) = (database.entries, size(database.bytes));
            let (device, version) = (&device.name, &device.version);
            writeln!(
                out,
                "{name}.foz: {entries} entries, {bytes}, for this build of driver {version} on {device}"
            )?;
        }
        writeln!(out, "programs without the layer find it by these variables:")?;
        for (name, value) in self.variables() {
            writeln!(out, "  {name}={value}")?;
        }
        writeln!(
            out,
            "instead of the second one, with a file that running programs read again when it is changed:"
        )?;
        writeln!(out, "  {LIST}={}", self.folder.join(LIST_FILE).display())?;
        writeln!(out, "or by its name, with both files copied below MESA_SHADER_CACHE_DIR or ~/.cache:")?;
        for MesaDatabase { name, below, .. } in &self.made {
            let folder = Path::new(SINGLE_FILE).join(below);
            writeln!(out, "  {NAMES}={name}, in {}", plain(&folder.to_string_lossy()))?;
        }
        Ok(())
    }

    pub(crate) fn output(&self) -> Databases<'_> {
        let made = self.made.iter().map(|made| ShownDatabase {
            name: &made.name,
            device: &made.device.name,
            driver_version: &made.device.version,
            cache: made.below.to_string_lossy(),
            entries: made.database.entries,
            bytes: made.database.bytes,
        });
        let list = self.folder.join(LIST_FILE).to_string_lossy().into_owned();
        Databases {
            folder: self.folder.to_string_lossy(),
            databases: made.collect(),
            variables: self.variables().into(),
            list: [(LIST, list)].into(),
        }
    }
}
