//! Finds the pipeline that the first digits of a key mean.

use std::path::Path;

use vkstash_store::stash::deaths;
use vkstash_store::stash::inspect::ApplicationInfo;

/// Why digits do not lead to one pipeline.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PipelineChoiceError {
    #[error("{0} has no pipeline whose key begins with {1:?}: `vkstash show {0}` lists them")]
    Unknown(String, String),
    #[error("{0:?} begins the keys of {1} pipelines; give more digits")]
    Several(String, usize),
    #[error(
        "{0} died while compiling the pipeline {1}, before it was recorded: the next run records it when it asks for it"
    )]
    NotRecorded(String, String),
}

/// Which of these keys, in hexadecimal digits, is the only one that begins with the digits that the user gave.
pub(crate) fn choose(
    root: &Path,
    application: &ApplicationInfo,
    keys: &[String],
    asked: &str,
) -> Result<usize, PipelineChoiceError> {
    let digits = asked.to_lowercase();
    let fits = |key: &str| key.starts_with(&digits);
    let fitting: Vec<_> = (0..keys.len()).filter(|&at| fits(&keys[at])).collect();
    let name = || application.display.clone();
    match fitting.as_slice() {
        [at] => Ok(*at),
        [] => {
            let died = deaths::of(root, &application.folder);
            Err(match died.iter().map(|death| hex::encode(death.key)).find(|key| fits(key)) {
                Some(key) if !digits.is_empty() => PipelineChoiceError::NotRecorded(name(), key),
                _ => PipelineChoiceError::Unknown(name(), digits),
            })
        }
        several => Err(PipelineChoiceError::Several(digits, several.len())),
    }
}
