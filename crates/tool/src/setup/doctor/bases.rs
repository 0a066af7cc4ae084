//! The bases that a pull has made: whether what is in them is still believed. `vkstash-remote` knows that, because this
//! program is not linked with what verifies signatures.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use vkstash_model::variables::BASE;

use super::finding::Finding;
use crate::exchange::remote;
use crate::system::start;
use crate::term::units::counted;

/// Looks at the bases of the settings and of the environment.
pub(super) fn examine(of_settings: &[PathBuf], findings: &mut Vec<Finding>) {
    let of_environment = env::var_os(BASE).unwrap_or_default();
    let mut bases: Vec<PathBuf> =
        env::split_paths(&of_environment).filter(|path| path.is_absolute()).collect();
    bases.extend(of_settings.iter().filter(|base| !bases.contains(base)).cloned().collect::<Vec<_>>());
    // Beside a base that a pull has made lie the manifests that were accepted.
    bases.retain(|base| base.with_file_name("state").is_dir());
    for base in bases {
        let shown = base.display();
        match doubts(&base) {
            Err(reason) => findings.push(Finding::note(
                format!("nobody can tell whether the base {shown} is still to be trusted: {reason}"),
                "install vkstash-remote beside this program, or correct what it says",
            )),
            Ok(doubts) => findings.extend(doubts.split_first().map(|(first, more)| {
                let more = match more.len() as u64 {
                    0 => String::new(),
                    count => format!("; and {} more", counted(count, "manifest")),
                };
                Finding::note(
                    format!("the base {shown} has what is not trusted any more: {first}{more}"),
                    "`vkstash-remote pull` puts aside what is still in use, and fetches it again if its signer is \
                     pinned and it has not expired",
                )
            })),
        }
    }
}

/// A line for each manifest that is not believed any more.
fn doubts(base: &Path) -> Result<Vec<String>, String> {
    let mut command = Command::new(remote::program());
    command.arg("check").arg(base).stdin(Stdio::null());
    start::restore_in(&mut command);
    let output = command.output().map_err(|error: io::Error| format!("{}: {error}", remote::PROGRAM))?;
    let lines = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect::<Vec<_>>();
    if output.status.success() {
        return Ok(lines(&output.stdout));
    }
    Err(lines(&output.stderr).into_iter().next().unwrap_or_else(|| output.status.to_string()))
}
