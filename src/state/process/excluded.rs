//! Programs that the user has the layer leave alone (docs/configuration.md).

use vkstash_host::program::Program;
use vkstash_store::settings::excluded::{USUAL, is_excluded};
use vkstash_store::settings::excluded_programs;

use crate::config::Config;
use crate::log;

/// Whether this is such a program: by the name of its file, which under Wine is that of the game, or by the one that it
/// gives in VkApplicationInfo.
pub fn is_left_alone(config: &Config, application: &[u8]) -> bool {
    // A worker of `vkstash prewarm` works for a program that has a stash.
    if config.application.is_some() {
        return false;
    }
    let program = Program::of_this_process();
    let set = config.excluded_programs.clone().or_else(excluded_programs);
    let is_left_alone = [program.file(), application]
        .into_iter()
        .any(|name| is_excluded(set.as_deref().unwrap_or(USUAL), name));
    if is_left_alone {
        log::init();
        tracing::info!("`excluded-programs` names this program: it is left alone");
    }
    is_left_alone
}
