//! Commands that tell a size and then write data are called in one place each, which gives no driver a buffer that is
//! too short (contract 4.8).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::words::{files, repository};

/// Commands, and the files below src that may name them.
const CALLED_IN: [(&str, &[&str]); 2] = [
    // The hook passes the program's own buffer on where the layer has failed; a device asks whether there is a command.
    (
        "get_pipeline_cache_data",
        &[
            "hooks/caches.rs",
            "state/devices/kept.rs",
            "state/process/dispatch.rs",
            "state/caches/private_cache.rs",
        ],
    ),
    ("get_shader_binary_data", &["serve/shaders.rs", "state/devices/kept.rs", "state/process/dispatch.rs"]),
];

#[test]
fn data_of_drivers_is_read_in_one_place() {
    let text = |path: &Path| fs::read_to_string(repository().join(path)).unwrap();
    let sources: Vec<PathBuf> = files().into_iter().filter(|path| path.starts_with("src")).collect();
    for (command, allowed) in CALLED_IN {
        let naming: BTreeSet<&Path> = sources
            .iter()
            .filter(|path| text(path).contains(command))
            .map(|path| path.strip_prefix("src").unwrap())
            .collect();
        assert_eq!(naming, allowed.iter().map(Path::new).collect(), "{command}");
    }
    for reader in ["serve/shaders.rs", "state/caches/private_cache.rs"] {
        assert!(text(&Path::new("src").join(reader)).contains("sized_data::read("), "{reader}");
    }
}
