//! What was made, and how Mesa is told of it.
//!
//! Mesa looks for a database at `CACHE/NAME.foz`, and CACHE is the folder of its single-file cache for this build of
//! the driver and this device. A name with a path is taken below that folder, too, so an absolute path does not work;
//! but one that climbs to the root of the file system first does, wherever the cache is.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::database::Database;
use super::{Device, MesaError, SINGLE_FILE};
use crate::term::units::{plain, size};

/// Steps to the root, and more: above the root is the root. Mesa's cache of a user is seven folders deep.
const STEPS: usize = 16;
/// Lets Mesa ask a database and keep its usual cache.
const COMBINE: &str = "MESA_DISK_CACHE_COMBINE_RW_WITH_RO_FOZ";
const NAMES: &str = "MESA_DISK_CACHE_READ_ONLY_FOZ_DBS";
const LIST: &str = "MESA_DISK_CACHE_READ_ONLY_FOZ_DBS_DYNAMIC_LIST";
/// The file with the names, for the last variable.
const LIST_FILE: &str = "databases.list";

/// One database.
pub(super) struct MesaDatabase {
    /// Its name, without the folder and without `.foz`.
    pub(super) name: String,
    /// The folder of Mesa's names for the build of the driver and for the device.
    pub(super) below: PathBuf,
    pub(super) device: Device,
    pub(super) database: Database,
}

/// All databases of a folder.
pub(crate) struct Announced {
    folder: PathBuf,
    made: Vec<MesaDatabase>,
}

impl Announced {
    pub(super) fn new(folder: PathBuf) -> Announced {
        Announced { folder, made: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.made.is_empty()
    }

    /// Adds a database, if it is found from `cache`, a folder in which Mesa looks.
    pub(super) fn add(&mut self, made: MesaDatabase, cache: &Path) -> Result<(), MesaError> {
        let path = self.climbing(&made.name);
        if ["", "_idx"].iter().all(|part| cache.join(format!("{path}{part}.foz")).is_file()) {
            self.made.push(made);
            return Ok(());
        }
        Err(MesaError::NotFound { name: made.name, folder: self.folder.clone() })
    }

    /// Writes the file for the dynamic list.
    pub(super) fn write_list(&self) -> io::Result<()> {
        let lines: String = self.made.iter().map(|made| self.climbing(&made.name) + "\n").collect();
        let path = self.folder.join(LIST_FILE);
        fs::write(&path, lines)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644))
    }

    /// The path of a database as Mesa takes it.
    fn climbing(&self, name: &str) -> String {
        let path = self.folder.join(name);
        format!("{}{}", "../".repeat(STEPS), path.to_string_lossy().trim_start_matches('/'))
    }

    /// The variables, without the one for the list.
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

    pub(crate) fn json(&self) -> Value {
        let made = self.made.iter().map(|made| {
            json!({
                "name": made.name,
                "device": made.device.name,
                "driver_version": made.device.version,
                "cache": made.below,
                "entries": made.database.entries,
                "bytes": made.database.bytes,
            })
        });
        let [combine, names] = self.variables();
        json!({
            "folder": self.folder,
            "databases": made.collect::<Vec<_>>(),
            "variables": { combine.0: combine.1, names.0: names.1 },
            "list": { LIST: self.folder.join(LIST_FILE) },
        })
    }
}
