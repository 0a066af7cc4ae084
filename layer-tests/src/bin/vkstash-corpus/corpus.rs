//! Which modules a run works with: the same ones in every run.

use std::fs;
use std::path::PathBuf;

use crate::Options;

/// One module.
pub struct Module {
    /// Its words.
    pub words: Vec<u32>,
    /// The name in its OpEntryPoint.
    pub entry_point: std::ffi::CString,
    /// File name.
    pub name: String,
}

const OP_ENTRY_POINT: u32 = 15;

/// Loads the modules of a run. Panics where there are none: a run that measures nothing must not look like
/// one.
pub fn load(options: &Options) -> Vec<Module> {
    let skipped = options.skip_list.as_ref().map(|path| fs::read_to_string(path).expect("the skip list"));
    let skipped: Vec<&str> = skipped.iter().flat_map(|text| text.lines()).map(str::trim).collect();
    let skips =
        |name: &str| skipped.iter().any(|s| !s.is_empty() && !s.starts_with('#') && name.starts_with(s));
    let mut paths: Vec<PathBuf> = fs::read_dir(&options.corpus)
        .unwrap_or_else(|error| panic!("{}: {error} (scripts/corpus.sh makes it)", options.corpus.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "spv"))
        .filter(|path| path.metadata().unwrap().len() <= options.max_bytes)
        .filter(|path| !skips(&path.file_name().unwrap().to_string_lossy()))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no module fits in {}", options.corpus.display());
    let count = options.count.min(paths.len());
    (0..count).map(|index| read(&paths[index * paths.len() / count])).collect()
}

fn read(path: &PathBuf) -> Module {
    let bytes = fs::read(path).unwrap();
    let words: Vec<u32> =
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    let entry_point = entry_point(&words).unwrap_or_else(|| panic!("{}: no entry point", path.display()));
    Module { words, entry_point, name: path.file_name().unwrap().to_string_lossy().into_owned() }
}

/// The first entry point's name.
fn entry_point(words: &[u32]) -> Option<std::ffi::CString> {
    let mut at = 5;
    while at < words.len() {
        let (count, opcode) = ((words[at] >> 16) as usize, words[at] & 0xffff);
        if opcode == OP_ENTRY_POINT {
            let bytes: Vec<u8> =
                words[at + 3..at + count].iter().flat_map(|word| word.to_le_bytes()).collect();
            let end = bytes.iter().position(|&byte| byte == 0)?;
            return std::ffi::CString::new(&bytes[..end]).ok();
        }
        at += count.max(1);
    }
    None
}
