//! Surroundings of the service: programs with the layer, power, memory, the disk, signals.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use vkstash_model::live::{Live, LiveError};
use vkstash_store::settings;

use super::decision::Situation;
use crate::config::in_force;
use crate::programs::prewarm::{COMMAND, ended, stop};
use crate::reports::live_pages::Finder;
use crate::system::machine;

/// A signal is heard after this time.
const A_MOMENT: Duration = Duration::from_millis(250);

/// What is kept from one look to the next.
pub(super) struct Surroundings {
    finder: Finder,
    /// Only programs with this stash count.
    of_stash: Option<PathBuf>,
    /// A program that was found.
    program: Option<u32>,
}

impl Surroundings {
    /// `of_stash`: programs with other stashes do not count.
    pub(super) fn new(of_stash: Option<&Path>) -> Surroundings {
        Surroundings { finder: Finder::default(), of_stash: of_stash.map(Path::to_owned), program: None }
    }

    pub(super) fn look(&mut self, root: &Path) -> Situation {
        self.program = self.find_program();
        let floor = in_force::limits(root, &settings::read(root).all()).free_space_floor;
        Situation {
            is_asked_to_end: stop::signal().is_some(),
            program_runs: self.program.is_some(),
            is_on_battery: machine::is_on_battery(),
            is_disk_full: in_force::file_system(root).is_some_and(|(_, free)| free < floor),
            memory: machine::available_memory(),
            ..Situation::default()
        }
    }

    /// Waits for the end of the program that was found, so long at most, or for a signal.
    pub(super) fn wait_for_program(&self, most: Duration) {
        let Some(program) = self.program else { return };
        let began = Instant::now();
        while began.elapsed() < most && stop::signal().is_none() && !ended::wait(program, Some(A_MOMENT)) {}
    }

    /// A program with the layer that is no worker of this tool's.
    fn find_program(&mut self) -> Option<u32> {
        // Where /proc cannot be read no program can be found, and priorities alone protect it.
        self.finder.look().ok()?;
        let of_stash = self.of_stash.as_deref();
        let programs = self.finder.read().into_iter();
        programs
            .filter(|(_, read)| counts(read, of_stash))
            .map(|(process, _)| process)
            .find(|&process| !is_worker_or_ends(process))
    }
}

/// Whether a program with this page is one that the service stops for. One that cannot be read, because it is of
/// another version, may be a game.
fn counts(page: &Result<Live, LiveError>, of_stash: Option<&Path>) -> bool {
    match (page, of_stash) {
        (Ok(page), Some(root)) => Path::new(&page.folder).starts_with(root),
        (_, None) | (Err(_), Some(_)) => true,
    }
}

/// Workers are this tool's own processes, from whatever copy of it they run. A process that ends has its descriptors
/// for a moment longer than its command line, which is empty then: it is no program that needs anything.
fn is_worker_or_ends(process: u32) -> bool {
    let command = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    command.is_empty() || command.split(|&byte| byte == 0).nth(1) == Some(COMMAND.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_counts_unless_a_stash_was_named() {
        let page = |folder: &str| Ok(Live { folder: folder.to_owned(), ..Live::default() });
        assert!(counts(&page("/a/game-0"), None) && counts(&page(""), None));
        assert!(counts(&page("/a/game-0"), Some(Path::new("/a"))));
        assert!(!counts(&page("/ab/game-0"), Some(Path::new("/a"))));
        assert!(counts(&Err(LiveError::Empty), Some(Path::new("/a"))));
    }

    #[test]
    fn this_process_is_no_worker() {
        assert!(!is_worker_or_ends(std::process::id()));
    }
}
