//! The archives of Fossilize that Steam keeps of its games.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::system::regular;
use crate::term::units::counted;

/// Folders of Steam below the home: its own packages, and the one of Flatpak.
const PLACES: [&str; 4] = [
    ".local/share/Steam",
    ".steam/root",
    ".steam/debian-installation",
    ".var/app/com.valvesoftware.Steam/.local/share/Steam",
];
/// Files of Steam that are read are short texts.
const MOST_TEXT: u64 = 1 << 20;

/// Why there are no archives.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SteamError {
    #[error("Steam is not installed for this user: there is no .local/share/Steam below the home")]
    NoSteam,
    #[error("Steam has no shader archives of the game {0}: `vkstash import --steam` lists those it has")]
    NoArchives(u32),
    #[error("cannot print it: {0}")]
    Print(#[from] io::Error),
}

/// A game of which there are archives.
struct Game {
    /// The name, where Steam's files say it.
    name: Option<String>,
    archives: Vec<PathBuf>,
}

/// The archives of a game, sorted.
pub(crate) fn archives(number: u32) -> Result<Vec<PathBuf>, SteamError> {
    let mut games = games(env::var_os("HOME").map(PathBuf::from))?;
    games.remove(&number).map(|game| game.archives).ok_or(SteamError::NoArchives(number))
}

/// Prints the games of which there are archives.
pub(crate) fn list(out: &mut impl io::Write) -> Result<(), SteamError> {
    let games = games(env::var_os("HOME").map(PathBuf::from))?;
    for (number, game) in &games {
        let name = game.name.as_deref().unwrap_or("unknown");
        writeln!(out, "{number}  {name}, {}", counted(game.archives.len() as u64, "archive"))?;
    }
    if games.is_empty() {
        writeln!(out, "Steam has no shader archives")?;
    }
    Ok(())
}

fn games(home: Option<PathBuf>) -> Result<BTreeMap<u32, Game>, SteamError> {
    let home = home.ok_or(SteamError::NoSteam)?;
    let mut libraries: Vec<PathBuf> = Vec::new();
    for place in PLACES.iter().filter_map(|place| fs::canonicalize(home.join(place)).ok()) {
        let listed = values(&place.join("steamapps/libraryfolders.vdf"), "path");
        libraries.push(place);
        libraries.extend(listed.into_iter().filter_map(|path| fs::canonicalize(path).ok()));
    }
    if libraries.is_empty() {
        return Err(SteamError::NoSteam);
    }
    libraries.sort();
    libraries.dedup();
    let mut games: BTreeMap<u32, Game> = BTreeMap::new();
    for library in libraries {
        for folder in entries(&library.join("steamapps/shadercache")) {
            let number = folder.file_name().and_then(|name| name.to_str()?.parse().ok());
            let Some(number) = number else { continue };
            let mut archives = archives_in(&folder);
            if archives.is_empty() {
                continue;
            }
            let manifest = library.join(format!("steamapps/appmanifest_{number}.acf"));
            let name = values(&manifest, "name").into_iter().next();
            let game = games.entry(number).or_insert(Game { name: None, archives: Vec::new() });
            game.name = game.name.take().or(name);
            game.archives.append(&mut archives);
        }
    }
    Ok(games)
}

/// `fozpipelinesv6/steam_pipeline_cache.foz`, which Steam downloads, and what its layer has recorded in folders beside
/// it. Other versions of the folder have other formats of recipes in them, which the archives say themselves.
fn archives_in(folder: &Path) -> Vec<PathBuf> {
    let is_of_recipes = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("fozpipelines"))
    };
    let folders = entries(folder).into_iter().filter(is_of_recipes);
    let mut archives: Vec<PathBuf> = folders
        .flat_map(|folder| entries(&folder))
        .flat_map(|entry| if entry.is_dir() { entries(&entry) } else { vec![entry] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "foz") && path.is_file())
        .collect();
    archives.sort();
    archives
}

/// The paths in a folder, sorted; none where it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// The values of a key in a file of Valve's key-values: `"key"  "value"`, one a line.
fn values(file: &Path, key: &str) -> Vec<String> {
    let bytes = regular::read(file, MOST_TEXT).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let value = |line: &str| {
        let mut quoted = line.split('"').skip(1).step_by(2);
        let is_it = quoted.next() == Some(key);
        quoted.next().filter(|_| is_it).map(str::to_owned)
    };
    text.lines().filter_map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_of_every_library_are_found_with_the_names_of_their_games() {
        let home = tempfile::tempdir().unwrap();
        let steam = home.path().join(".local/share/Steam/steamapps");
        let other = home.path().join("disk/steamapps");
        let put = |path: PathBuf, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let library = home.path().join("disk");
        let listed =
            format!("\"libraryfolders\"\n{{\n\t\"0\"\n\t{{\n\t\t\"path\"\t\t{library:?}\n\t}}\n}}\n");
        put(steam.join("libraryfolders.vdf"), &listed);
        let manifest = "\"AppState\"\n{\n\t\"appid\"\t\"1245620\"\n\t\"name\"\t\t\"ELDEN RING\"\n}\n";
        put(other.join("appmanifest_1245620.acf"), manifest);
        let folder = other.join("shadercache/1245620/fozpipelinesv6");
        put(folder.join("steam_pipeline_cache.foz"), "");
        put(folder.join("steamapprun_pipeline_cache.0123/steamapprun_pipeline_cache.0.foz"), "");
        put(folder.join("steam_pipeline_cache_whitelist"), "");
        put(steam.join("shadercache/7/fozpipelinesv6/steam_pipeline_cache.foz"), "");
        put(steam.join("shadercache/8/mesa_shader_cache_sf/foz_cache.foz"), "");
        let games = games(Some(home.path().to_owned())).unwrap();
        assert_eq!(games.keys().copied().collect::<Vec<_>>(), [7, 1_245_620]);
        assert_eq!(games[&1_245_620].name.as_deref(), Some("ELDEN RING"));
        assert_eq!((games[&1_245_620].archives.len(), games[&7].archives.len()), (2, 1));
        assert!(matches!(super::games(Some(home.path().join("no"))), Err(SteamError::NoSteam)));
    }
}
