//! The modules of a corpus: selection of the files in a folder, and the properties of a module that a pipeline needs.

use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use sha2::{Digest, Sha256};

use crate::vulkan::spirv;

/// Why a folder could not be read.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Modules that take a driver seconds to minutes. Written by `vkstash-corpus find-slow`.
const SLOW: &str = include_str!("../data/slow-modules.txt");

/// Selection of modules in a folder.
#[derive(Args, Clone, Debug)]
pub struct Selection {
    /// Folder of .spv modules.
    #[arg(long, alias = "corpus", value_name = "DIR")]
    pub modules: Option<PathBuf>,
    /// In place of a folder's modules so many that are made here, with long code.
    #[arg(long, value_name = "N", conflicts_with = "modules")]
    pub made: Option<u32>,
    /// At most this many modules, evenly spread over those that fit.
    #[arg(long, value_name = "N")]
    pub count: Option<usize>,
    /// Each module so many times: the further ones differ from it in a string that no instruction names, so they are
    /// other modules with other code for the driver to look at.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub copies: u32,
    /// Instead of each selected module a further copy of it: pipelines that no run without this option asks for.
    #[arg(long)]
    pub others: bool,
    /// Leave out larger modules.
    #[arg(long, value_name = "BYTES", default_value_t = 9216)]
    pub max_bytes: u64,
    /// Do not leave out slow modules.
    #[arg(long)]
    pub keep_slow: bool,
    /// Only modules whose SHA-256 begins so.
    #[arg(long, value_name = "SHA256")]
    pub only: Option<String>,
}

/// One compute shader.
pub struct Module {
    /// File name without its ending.
    pub name: String,
    /// SHA-256 of the file, in hexadecimal.
    pub digest: String,
    /// The SPIR-V.
    pub words: Vec<u32>,
    /// Name of its compute entry point.
    pub entry: CString,
}

impl Module {
    /// A copy of the module with a string of its own, which makes it another module with the same behaviour.
    fn copy(&self, number: u32) -> Module {
        const OP_STRING: u32 = 7;
        const BOUND: usize = 3;
        let mut words = self.words.clone();
        let text = format!("copy {number:03}");
        let mut string = vec![0, words[BOUND]];
        string.extend(text.as_bytes().chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])));
        string.push(0);
        string[0] = (string.len() as u32) << 16 | OP_STRING;
        words[BOUND] += 1;
        let at = behind_execution_modes(&words);
        words.splice(at..at, string);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Module {
            name: format!("{}, {text}", self.name),
            digest: hex(&bytes),
            words,
            entry: self.entry.clone(),
        }
    }
}

/// The place of the first instruction behind capabilities, extensions, the memory model, entry points and execution
/// modes: where strings stand.
fn behind_execution_modes(words: &[u32]) -> usize {
    const BEFORE: [u32; 8] = [17, 10, 11, 14, 15, 16, 331, 6031];
    let mut at = 5;
    while let Some(&first) = words.get(at) {
        let (count, opcode) = ((first >> 16) as usize, first & 0xffff);
        if count == 0 || !BEFORE.contains(&opcode) {
            break;
        }
        at += count;
    }
    at.min(words.len())
}

/// The files of a folder that are named as SPIR-V modules, sorted.
pub fn module_files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut paths: Vec<_> = fs::read_dir(folder)
        .map_err(|error| format!("{}: {error}", folder.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "spv"))
        .collect();
    paths.sort();
    Ok(paths)
}

/// Reads the selected modules, sorted by file name; if there are more than `--count`, evenly spread ones. The choice
/// does not depend on the device, so the same folder gives the same modules on every driver.
pub fn read(selection: &Selection) -> Result<Vec<Module>, Failure> {
    if let Some(count) = selection.made {
        return Ok((0..count).map(made).collect());
    }
    let folder = selection.modules.as_deref().ok_or("--modules DIR is needed")?;
    let skipped = if selection.keep_slow { Vec::new() } else { slow_modules() };
    let mut modules = Vec::new();
    for path in module_files(folder)? {
        if fs::metadata(&path)?.len() > selection.max_bytes {
            continue;
        }
        let Some(module) = module(&path)? else { continue };
        let slow = skipped.iter().any(|prefix| module.digest.starts_with(prefix));
        let wanted = selection.only.as_ref().is_none_or(|prefix| module.digest.starts_with(prefix.as_str()));
        if wanted && !slow {
            modules.push(module);
        }
    }
    if modules.is_empty() {
        return Err(format!("{}: no module fits", folder.display()).into());
    }
    let originals = modules.len();
    for copy in 1..selection.copies {
        for original in 0..originals {
            modules.push(modules[original].copy(copy));
        }
    }
    let mut modules = match selection.count {
        Some(count) if count < modules.len() => spread(modules, count),
        _ => modules,
    };
    if selection.others {
        modules.iter_mut().for_each(|module| *module = module.copy(selection.copies));
    }
    Ok(modules)
}

/// A module whose pipeline has some 115 KB of data on NVIDIA's driver.
fn made(number: u32) -> Module {
    let words = spirv::compute_storing(2000 + number);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let entry = entry_point(&words).expect("a compute shader");
    Module { name: format!("made {number}"), digest: hex(&bytes), words, entry }
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Takes `count` evenly spread elements. Names may begin with the module's size, so the first ones would all be tiny.
fn spread(modules: Vec<Module>, count: usize) -> Vec<Module> {
    let all = modules.len();
    let mut taken = (0..count).map(|index| index * all / count).peekable();
    let keep = |(index, module)| taken.next_if_eq(&index).map(|_| module);
    modules.into_iter().enumerate().filter_map(keep).collect()
}

/// The beginnings of the digests of [`SLOW`].
fn slow_modules() -> Vec<&'static str> {
    SLOW.lines().filter_map(|line| line.split('#').next()?.split_whitespace().next()).collect()
}

/// None for files that are not compute shaders with common capabilities.
fn module(path: &Path) -> Result<Option<Module>, Failure> {
    let bytes = fs::read(path)?;
    let chunks = bytes.chunks_exact(4);
    let rest = chunks.remainder();
    let words: Vec<u32> = chunks.map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    if words.first() != Some(&0x0723_0203) || !rest.is_empty() {
        return Err(format!("{}: not SPIR-V", path.display()).into());
    }
    let Some(entry) = entry_point(&words) else { return Ok(None) };
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Some(Module { name, digest: hex(&bytes), words, entry }))
}

/// Capabilities that hardware of every vendor has (features of Vulkan up to 1.3). A module with others would compile
/// on one driver and fail on the next, and figures could not be compared.
fn is_common(capability: u32) -> bool {
    matches!(capability,
        0 | 1                // Matrix, Shader
        | 9 | 10 | 11        // Float16, Float64, Int64
        | 22 | 39            // Int16, Int8
        | 61..=68            // GroupNonUniform and its operations
        | 4433 | 4434        // 16-bit storage and uniform buffers
        | 4441 | 4442        // variable pointers
        | 4448 | 4449        // 8-bit storage and uniform buffers
        | 5345..=5347        // Vulkan memory model, physical storage buffer addresses
        | 6016..=6019        // integer dot products
    )
}

/// Name of the first compute entry point, None where there is none or a capability is not common.
fn entry_point(words: &[u32]) -> Option<CString> {
    const OP_CAPABILITY: u32 = 17;
    const OP_ENTRY_POINT: u32 = 15;
    const OP_FUNCTION: u32 = 54;
    const GL_COMPUTE: u32 = 5;
    let mut rest = words.get(5..)?;
    let mut found = None;
    while let Some(&first) = rest.first() {
        let (count, opcode) = ((first >> 16) as usize, first & 0xffff);
        let operands = rest.get(1..count)?;
        match opcode {
            OP_CAPABILITY if !is_common(*operands.first()?) => return None,
            OP_ENTRY_POINT if found.is_none() && operands.first() == Some(&GL_COMPUTE) => {
                let text = operands.get(2..)?.iter().flat_map(|word| word.to_le_bytes());
                found = CString::new(text.take_while(|&byte| byte != 0).collect::<Vec<u8>>()).ok();
            }
            OP_FUNCTION => break,
            _ => {}
        }
        rest = &rest[count..];
    }
    found
}
