//! Values of limits that are more often a slip than a wish: they are asked back.

use std::io;
use std::path::Path;

use vkstash_store::settings::{self, Settings};
use vkstash_store::stash::inspect::ApplicationInfo;

use crate::config::in_force;
use crate::term::confirm::{Confirmed, confirm};
use crate::term::units::size;

/// Why a value is not set.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Slip {
    #[error("nothing was changed: {0}; say --force if that is meant")]
    NobodyToAsk(String),
    #[error("nothing was changed")]
    Refused,
    #[error("cannot ask: {0}")]
    Ask(#[from] io::Error),
}

/// What a size on the command line lacks. A file may have numbers alone, which are bytes.
pub(crate) fn lack(name: &str, value: &str) -> Option<String> {
    let is_size = [settings::LIMIT, settings::APPLICATION_LIMIT, settings::FREE_SPACE].contains(&name);
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let lacks = is_size && is_number && value.bytes().any(|byte| byte != b'0');
    lacks.then(|| format!("{name} takes a size with its unit: {value}MiB, {value}GiB, or {value}B for bytes"))
}

/// Asks whether a value is meant that loses something. Without a terminal it is not. `stored`: the applications that
/// the limit is for.
pub(crate) fn ask(wanted: &Settings, root: &Path, stored: &[ApplicationInfo]) -> Result<(), Slip> {
    let Some(loss) = loss(wanted, root, stored) else { return Ok(()) };
    match confirm(&format!("{loss}. Set it all the same?"))? {
        Confirmed::Yes => Ok(()),
        Confirmed::No => Err(Slip::Refused),
        Confirmed::NobodyToAsk => Err(Slip::NobodyToAsk(loss)),
    }
}

/// What the stash of one large program has. A smaller limit is a slip more often than a wish.
const SMALL: u64 = 64 << 20;

/// Why the next maintenance would remove something that is stored, or soon most of what is recorded. `stored`: the
/// applications that the limit is for.
fn loss(wanted: &Settings, root: &Path, stored: &[ApplicationInfo]) -> Option<String> {
    let all = in_force::sum(stored.iter().map(in_force::bytes));
    let largest = stored.iter().map(in_force::bytes).max().unwrap_or(0);
    let of_limit = |name: &str, limit: Option<u64>, stored: u64| {
        let limit = limit.filter(|&limit| limit < stored.max(SMALL))?;
        let than = match limit < stored {
            true => format!("what is stored, {}: maintenance removes the rest", size(stored)),
            false => format!("{}, which the stash of one large program has", size(SMALL)),
        };
        Some(format!("a {name} of {} is less than {than}", size(limit)))
    };
    let of_space = || {
        let (_, free) = in_force::file_system(root)?;
        let floor = wanted.free_space.filter(|&floor| floor > free)?;
        Some(format!("only {} are free, less than {}: nothing is stored", size(free), size(floor)))
    };
    of_limit(settings::LIMIT, wanted.limit, all)
        .or_else(|| of_limit(settings::APPLICATION_LIMIT, wanted.application_limit, largest))
        .or_else(of_space)
}
