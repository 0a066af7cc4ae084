//! Writing shaders to files.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use vkstash_model::recipe::{Code, Recipe};
use vkstash_model::record::Kind;
use vkstash_model::{check, payload};
use vkstash_store::stash::browse::Browser;

use crate::system::new_file::NewFile;
use crate::system::regular;

use super::words::DIGITS;
use crate::reports::names::stage_name;

/// Why shaders cannot be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CodeError {
    #[error("cannot write {}: {error}{}", path.display(),
        if error.kind() == io::ErrorKind::AlreadyExists { ", with other contents" } else { "" })]
    Write { path: PathBuf, error: io::Error },
    #[error(
        "the stash does not have the SPIR-V of this pipeline: its program asks by identifier, or it was evicted"
    )]
    None,
}

/// Writes the shaders of all stages whose SPIR-V is stored into this folder, which is created if it is missing.
/// Existing files stay as they are.
pub(super) fn write(
    portable: &Browser,
    recipe: &Recipe<'_>,
    folder: &Path,
) -> Result<Vec<PathBuf>, CodeError> {
    let mut written = Vec::new();
    for stage in recipe.pipeline.stages() {
        let Code::Module(identity) = &stage.code else { continue };
        let mut record = Vec::new();
        let is_there = portable.read(Kind::Module, identity, &mut record);
        if !is_there || !check::is_true(Kind::Module, identity, &record) {
            continue;
        }
        let Some((_, code)) = payload::module_parts(&record) else { continue };
        let name = format!("{}-{}.spv", stage_name(stage.stage), &hex::encode(identity)[..DIGITS]);
        let path = folder.join(name.replace(' ', "-"));
        let is_known = |error: &io::Error| error.kind() == io::ErrorKind::AlreadyExists;
        let made = fs::create_dir_all(folder).and_then(|()| {
            let file = NewFile::create(&path)?;
            (&file).write_all(code)?;
            file.finish()
        });
        let is_same = || regular::read(&path, code.len() as u64).is_ok_and(|known| known == code);
        match made {
            Ok(()) => {}
            // Several stages may have one module, and the name says which it is.
            Err(error) if is_known(&error) && is_same() => {}
            Err(error) => return Err(CodeError::Write { path, error }),
        }
        if !written.contains(&path) {
            written.push(path);
        }
    }
    if written.is_empty() { Err(CodeError::None) } else { Ok(written) }
}
