//! Finds modules that take a driver too long: each in a process of its own, one at a time, with limits on time and
//! address space.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::options::FindSlow;
use vkstash_layer_tests::corpus::{self, Selection};

/// A module that takes longer counts as slow.
const LIMIT: Duration = Duration::from_secs(3);
/// Address space for one compile.
const MEMORY_MIB: u64 = 4096;

/// Writes the list; progress goes to stderr.
pub(crate) fn find(options: &FindSlow) -> Result<(), Failure> {
    let selection = Selection { keep_slow: true, ..options.selection.clone() };
    let modules = corpus::read(&selection)?;
    let folder = selection.modules.as_deref().unwrap_or(".".as_ref());
    let mut slow = Vec::new();
    for (index, module) in modules.iter().enumerate() {
        let started = Instant::now();
        // The shell sets the limit, so that this program needs no code between fork and exec.
        let mut child = Command::new("sh")
            .args(["-c", "ulimit -v \"$0\" && exec \"$@\""])
            .arg((MEMORY_MIB * 1024).to_string())
            .arg(std::env::current_exe()?)
            .args(["--keep-slow", "--max-bytes", &selection.max_bytes.to_string()])
            .args(["--only", &module.digest, "--modules"])
            .arg(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let fine = loop {
            if let Some(status) = child.try_wait()? {
                break status.success();
            }
            if started.elapsed() > LIMIT {
                child.kill()?;
                child.wait()?;
                break false;
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        if !fine {
            slow.push(format!("{} # {} bytes", &module.digest[..16], module.words.len() * 4));
        }
        eprintln!(
            "{}/{} {} {:?}{}",
            index + 1,
            modules.len(),
            module.name,
            started.elapsed(),
            if fine { "" } else { " SLOW" }
        );
    }
    let mut file = fs::File::create(&options.output)?;
    writeln!(file, "# Modules that vkstash-corpus leaves out: SHA-256 prefix of the module, one a line.")?;
    writeln!(file, "# Each was compiled in a process of its own and did not come back within")?;
    writeln!(
        file,
        "# {} ms and {MEMORY_MIB} MiB of address space; modules of up to {} bytes were tried.",
        LIMIT.as_millis(),
        selection.max_bytes
    )?;
    writeln!(file, "# Made by: vkstash-corpus find-slow --modules DIR --output THIS")?;
    writeln!(file, "# (with RADV_FORCE_FAMILY=navi21 and MESA_SHADER_CACHE_DISABLE=1)")?;
    for line in slow {
        writeln!(file, "{line}")?;
    }
    Ok(())
}
