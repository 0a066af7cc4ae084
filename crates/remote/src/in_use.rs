//! Obstacle that keeps programs from using the base, with the command that removes it.

use std::env;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use vkstash_model::variables::BASE;
use vkstash_store::settings;
use vkstash_store::stash::inspect::base_refusal;

use crate::home::names_in;

/// What keeps programs with this stash from using the base: it is in neither the settings nor VKSTASH_BASE, or it is
/// refused. None: nothing does, or there is nothing to use. `dir` is the stash if it was named.
pub(crate) fn obstacle(base: &Path, root: &Path, dir: Option<&Path>) -> Option<String> {
    if names_in(base).is_empty() {
        return None;
    }
    let of_environment = env::var_os(BASE).unwrap_or_default();
    let mut known: Vec<PathBuf> = env::split_paths(&of_environment).collect();
    known.extend(settings::read(root).all().bases);
    if known.iter().any(|known| is_same(known, base)) {
        return base_refusal(base).map(|reason| format!("programs do not use this base: {reason}"));
    }
    let dir = dir.map_or(String::new(), |dir| format!("--dir {} ", quoted(dir)));
    Some(format!("programs do not use this base yet; for that type: vkstash base add {dir}{}", quoted(base)))
}

fn is_same(one: &Path, other: &Path) -> bool {
    match (one.metadata(), other.metadata()) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

/// A path as a shell reads it.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+:@".contains(&byte)) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_typed_as_a_shell_reads_it() {
        assert_eq!(quoted(Path::new("/a/b-0.1/base")), "/a/b-0.1/base");
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }
}
