//! Pipelines at which programs ended while a driver compiled them, in words.

use std::path::Path;

use vkstash_model::record::Kind;
use vkstash_store::stash::browse::Browser;
use vkstash_store::stash::deaths::Death;

use crate::term::units::quoted;

/// So many digits of a key are told.
const DIGITS: usize = 8;

/// The kinds of pipelines, by VkShaderStageFlags. A link of libraries has no stages of its own.
const KINDS: [(u32, &str); 3] = [(0x20, "compute"), (0x3F00, "ray tracing"), (0, "link of libraries")];

/// Whether the driver or a signal from outside has ended the program cannot be known.
pub(crate) fn words(death: &Death) -> String {
    format!("died while compiling {} ({})", digits(death), kind(death.stages))
}

/// The same, and what helps.
pub(crate) fn line(root: &Path, folder: &str, application: &str, death: &Death) -> String {
    format!("{}: {}", words(death), next(root, folder, &quoted(application), death))
}

/// What shows it, and what a report to the driver's developers needs. `name`: what commands call the application in
/// that folder. A process that dies in its first compile leaves no recipe.
pub(crate) fn next(root: &Path, folder: &str, name: &str, death: &Death) -> String {
    let portable = Browser::open(root, folder, "portable");
    let is_recorded = portable.is_ok_and(|portable| portable.read(Kind::Recipe, &death.key, &mut Vec::new()));
    let key = digits(death);
    if is_recorded {
        format!(
            "`vkstash show {name} {key}` shows it, and `vkstash export {key}.foz {name} {key}` is for the driver's \
                 developers"
        )
    } else {
        "run the program again: what it is made of is recorded before the driver gets it".to_owned()
    }
}

/// The first digits of the pipeline's key.
pub(crate) fn digits(death: &Death) -> String {
    let mut digits = hex::encode(death.key);
    digits.truncate(DIGITS);
    digits
}

/// How often: `died twice while compiling, compute`.
pub(crate) fn often(deaths: u8, stages: u32) -> String {
    format!("died {} while compiling, {}", times(deaths), kind(stages))
}

/// `once`, `twice`, `3 times`.
pub(crate) fn times(deaths: u8) -> String {
    match deaths {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        many => format!("{many} times"),
    }
}

fn kind(stages: u32) -> &'static str {
    let of = |&&(of, _): &&(u32, &str)| stages & of != 0 || stages == of;
    KINDS.iter().find(of).map_or("graphics", |(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_pipeline_follows_from_its_stages() {
        let kinds = [(0x20, "compute"), (0x100, "ray tracing"), (0, "link of libraries"), (0x11, "graphics")];
        for (stages, kind) in kinds {
            let part = String::new();
            let death = Death { key: [0x45; 32], stages, deaths: 2, unix_ms: 1, part };
            assert_eq!(words(&death), format!("died while compiling 45454545 ({kind})"));
            assert_eq!(often(2, stages), format!("died twice while compiling, {kind}"));
        }
    }
}
