//! `vkstash config`: shows each setting with where it came from, and changes the configuration file.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use textwrap::core::display_width;
use vkstash_host::disk::errors::OpenError;
use vkstash_model::background_mode::BackgroundMode;
use vkstash_model::variables::{self, Background};
use vkstash_store::bounds::Limits;
use vkstash_store::settings::places::Configuration;
use vkstash_store::settings::{
    self, APPLICATION_NAMES, BACKGROUND, BASES, CacheKinds, DEVELOPER_MODE, EXCLUDED_PROGRAMS, NAMES,
    Settings, excluded,
};
use vkstash_store::stash::inspect::{ApplicationInfo, list_applications};

use super::scope::section_of;
use crate::cli::{ConfigAction, ConfigArgs};
use crate::config::edit::{self, Application, Change, EditError};
use crate::config::in_force;
use crate::config::problems::{problems, suggestion};
use crate::config::slips::{self, Slip};
use crate::stash::choice::{ChoiceError, choose};
use crate::stash::root::{self, NoRoot};
use crate::term::output;
use crate::term::screen;
use crate::term::style::Style;
use crate::term::units::{counted, plain};
use crate::term::wrap;

const COLUMNS: [&str; 3] = ["setting", "value", "from"];
/// Longer values do not count for the width of their column.
const LONGEST_VALUE: usize = 40;

/// Why nothing could be shown or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error(transparent)]
    NoRoot(#[from] NoRoot),
    #[error("cannot read the stash: {0}")]
    Open(#[from] OpenError),
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    #[error(transparent)]
    Edit(#[from] EditError),
    #[error("nothing was changed: {0}")]
    Lack(String),
    #[error(transparent)]
    Slip(#[from] Slip),
    #[error("{}", .0.join("\nvkstash: "))]
    Wrong(Vec<String>),
    #[error("cannot make JSON of it: {0}")]
    Json(#[from] serde_json::Error),
    #[error("cannot print it: {0}")]
    Print(#[from] io::Error),
}

/// A setting with its value, for people and for programs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Row {
    /// The setting's name.
    name: &'static str,
    /// The value in force, as on the command line.
    value: String,
    /// Where it comes from: the path of a file (`~` is the home folder), the name of a variable of the environment, or
    /// `default`. The setting `bases` may come from several files: their paths with commas between them.
    from: String,
}

/// The settings of one application.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct OfApplication {
    /// Its name as it stands in a file.
    name: String,
    /// What files set for it. With `--application`: all of its settings in force.
    settings: Vec<Row>,
}

/// The settings in force.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Shown {
    /// The folder of all stashes.
    root: String,
    /// The files that count, what counts first in front, whether or not they exist.
    files: Vec<String>,
    /// The settings for all applications. With `--application`: none.
    settings: Vec<Row>,
    /// Applications for which a file has settings of their own. With `--application`: that one.
    applications: Vec<OfApplication>,
    /// What is ignored, with file and line. The exit status is 1 if there is anything.
    problems: Vec<String>,
}

pub(crate) fn main(args: &ConfigArgs) -> Result<(), ConfigError> {
    let root = root::named(args.dir.as_deref())?;
    match &args.action {
        None => show(args, &root),
        Some(ConfigAction::Set { name, values, force }) => {
            let name = known(name)?;
            let mut wanted = Settings::default();
            let change = match values.as_slice() {
                [value] if name != BASES => {
                    if let Some(lack) = slips::lack(name, value) {
                        return Err(ConfigError::Lack(lack));
                    }
                    // What is wrong with it is said when it is written.
                    let _ = wanted.set(name, value);
                    Change::Set(name, value.clone())
                }
                values => Change::SetList(name, values.to_vec()),
            };
            change_and_say(args, &root, &[change], &wanted, *force)
        }
        Some(ConfigAction::Unset { names }) => {
            let unset = names.iter().map(|name| Ok(Change::Unset(known(name)?)));
            let unset = unset.collect::<Result<Vec<_>, ConfigError>>()?;
            change_and_say(args, &root, &unset, &Settings::default(), false)
        }
    }
}

fn known(name: &str) -> Result<&'static str, ConfigError> {
    let known = NAMES.into_iter().find(|known| *known == name);
    let unknown = || EditError::Name { name: plain(name), suggestion: suggestion(name) };
    Ok(known.ok_or_else(unknown)?)
}

/// `wanted`: the value that is set, if it is one.
fn change_and_say(
    args: &ConfigArgs,
    root: &Path,
    changes: &[Change],
    wanted: &Settings,
    force: bool,
) -> Result<(), ConfigError> {
    let found = list_applications(root)?;
    let path = edit::target(args.dir.as_deref())?;
    let application = args.application.as_ref().map(|name| named(&found, name, root)).transpose()?;
    if !force {
        let is_of = |info: &&ApplicationInfo| application.as_ref().is_none_or(|(_, of)| *of == info.folder);
        let stored: Vec<_> = found.iter().filter(is_of).cloned().collect();
        slips::ask(wanted, root, &stored)?;
    }
    let of = application.as_ref().map(|(name, folder)| Application { name, folder });
    edit::change(&path, of.as_ref(), |_| Ok::<_, EditError>(changes.to_vec()))?;
    let value = NAMES.into_iter().find_map(|name| Some(format!("{name} = {}: ", wanted.text(name)?)));
    let said = format!("{}{}\n", value.unwrap_or_default(), plain(&path.to_string_lossy()));
    Ok(output::print(&said)?)
}

/// The name and the folder of an application, which may not have a stash yet.
fn named(found: &[ApplicationInfo], name: &str, root: &Path) -> Result<(String, String), ChoiceError> {
    match choose(found, name, root) {
        Ok(info) => Ok(section_of(found, info)),
        Err(ChoiceError::Unknown { .. }) => Ok((name.to_owned(), name.to_owned())),
        Err(several) => Err(several),
    }
}

fn show(args: &ConfigArgs, root: &Path) -> Result<(), ConfigError> {
    let read = settings::read(root);
    let mut shown = Shown {
        root: plain(&root.to_string_lossy()),
        files: files(root),
        settings: Vec::new(),
        applications: Vec::new(),
        problems: problems(&read),
    };
    match &args.application {
        Some(name) => {
            let (name, folder) = named(&list_applications(root)?, name, root)?;
            let settings = APPLICATION_NAMES.map(|name| row(&read, name, Some(&folder), root));
            shown.applications.push(OfApplication { name, settings: settings.into() });
        }
        None => {
            shown.settings = NAMES.map(|name| row(&read, name, None, root)).into();
            shown.applications = sections(&read);
        }
    }
    if args.json {
        let json = serde_json::to_string_pretty(&shown)?;
        output::print(&format!("{}\n", output::escaped(&json)))?;
    } else {
        output::print(&text(&shown))?;
    }
    if shown.problems.is_empty() { Ok(()) } else { Err(ConfigError::Wrong(shown.problems)) }
}

fn files(root: &Path) -> Vec<String> {
    let of_root = root.join(vkstash_model::variables::CONFIG_FILE);
    variables::configs().iter().chain([&of_root]).map(|path| plain(&path.to_string_lossy())).collect()
}

/// The value of a setting, for all applications or for the one with this folder, and where it comes from.
fn row(read: &Configuration, name: &'static str, folder: Option<&str>, root: &Path) -> Row {
    if let Some((variable, value)) = of_environment(name) {
        return Row { name, value, from: variable.to_owned() };
    }
    let of_folder = |file: &settings::places::ConfigFile| file.config.of(folder?).text(name);
    let files = || read.files().iter();
    let own = files().find_map(|file| Some((file, of_folder(file)?)));
    let set = own.or_else(|| files().find_map(|file| Some((file, file.config.all.text(name)?))));
    match set {
        // All of them count.
        Some(_) if name == BASES => {
            let named: Vec<_> = files().filter(|file| !file.config.all.bases.is_empty()).collect();
            let paths: Vec<_> = named.iter().map(|file| short(&file.path)).collect();
            Row { name, value: read.all().text(name).unwrap_or_default(), from: paths.join(", ") }
        }
        Some((file, value)) => Row { name, value, from: short(&file.path) },
        None => Row { name, value: default_of(name, root), from: "default".to_owned() },
    }
}

/// The variable that comes before all files, where it is set.
fn of_environment(name: &str) -> Option<(&'static str, String)> {
    let environment = Background::from_environment();
    match name {
        EXCLUDED_PROGRAMS => {
            let excluded_programs = Some(variables::excluded_programs(&variables::of_process)?);
            let set = Settings { excluded_programs, ..Settings::default() };
            Some((variables::EXCLUDED_PROGRAMS, set.text(name)?))
        }
        BACKGROUND => Some((variables::BACKGROUND, environment.mode?.name().to_owned())),
        DEVELOPER_MODE if environment.developer_mode => Some((variables::DEVELOPER_MODE, "on".to_owned())),
        _ => None,
    }
}

/// What counts where no file says anything.
fn default_of(name: &str, root: &Path) -> String {
    let Limits { total_bytes, device_age, module_policy, .. } = Limits::default();
    let update_limits = in_force::update_limits(&Settings::default());
    let defaults = Settings {
        limit: Some(total_bytes),
        application_limit: Some(u64::MAX),
        free_space: Some(in_force::limits(root, &Settings::default()).free_space_floor),
        device_age_ms: Some(device_age),
        modules: Some(module_policy),
        background: Some(BackgroundMode::default()),
        developer_mode: Some(false),
        disabled_caches: Some(CacheKinds::NONE),
        bases: Vec::new(),
        excluded_programs: Some(excluded::USUAL.to_owned()),
        updates: Some(true),
        update_processors: Some(update_limits.processors as u64),
        update_memory: Some(update_limits.memory),
        update_minutes: Some(update_limits.minutes),
    };
    defaults.text(name).unwrap_or_else(|| "none".to_owned())
}

/// The sections of all files, each with what it sets.
fn sections(read: &Configuration) -> Vec<OfApplication> {
    let mut shown: Vec<OfApplication> = Vec::new();
    for file in read.files() {
        for (section, own) in &file.config.applications {
            let set = APPLICATION_NAMES.into_iter().filter_map(|name| Some((name, own.text(name)?)));
            let rows = set.map(|(name, value)| Row { name, value, from: short(&file.path) });
            match shown.iter_mut().find(|known| known.name == *section) {
                Some(known) => known.settings.extend(rows),
                None => shown.push(OfApplication { name: section.clone(), settings: rows.collect() }),
            }
        }
    }
    for application in &mut shown {
        // What counts first is in front, and hides the rest.
        let mut seen: Vec<&str> = Vec::new();
        application.settings.retain(|row| !seen.contains(&row.name) && (seen.push(row.name), true).1);
    }
    shown
}

/// A path with `~` for the home.
fn short(path: &Path) -> String {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let below = home.and_then(|home| path.strip_prefix(home).ok().map(|rest| Path::new("~").join(rest)));
    plain(&below.as_deref().unwrap_or(path).to_string_lossy())
}

fn text(shown: &Shown) -> String {
    let mut text = String::new();
    let mut table = |title: Option<&str>, rows: &[Row]| {
        if let Some(title) = title {
            text += &format!("\n{}\n", Style::Strong.paint(title));
        }
        // The titles of the columns stand above the first table.
        text += &lines(rows, title.is_none(), screen::width());
    };
    if !shown.settings.is_empty() {
        table(None, &shown.settings);
    }
    for application in &shown.applications {
        table(Some(&application.name), &application.settings);
    }
    if shown.problems.is_empty() {
        return text;
    }
    text + &format!("\n{}\n", Style::Warning.paint(counted(shown.problems.len() as u64, "problem")))
}

/// The lines of a table. A value may be longer than a terminal is wide: it moves no column of the other rows, and goes
/// on below itself. A [`Table`](crate::term::table::Table) would leave its column out. `width`: None for a pipe, which
/// has one line for each setting.
fn lines(rows: &[Row], has_titles: bool, width: Option<u16>) -> String {
    let titles = has_titles.then(|| COLUMNS.map(str::to_owned));
    let cells = rows.iter().map(|Row { name, value, from }| [plain(name), plain(value), plain(from)]);
    let cells: Vec<_> = titles.into_iter().chain(cells).collect();
    let widest = |column: usize, most: usize| {
        let widths = cells.iter().map(|row| display_width(&row[column]));
        widths.filter(|&width| width <= most).max().unwrap_or(0)
    };
    let (names, values) = (widest(0, usize::MAX), widest(1, LONGEST_VALUE));
    let padded = |text: &str, width: usize| {
        let missing = width.saturating_sub(display_width(text));
        format!("{text}{}  ", " ".repeat(missing))
    };
    let mut text = String::new();
    for (number, [name, value, from]) in cells.iter().enumerate() {
        let line = format!("{}{}{from}", padded(name, names), padded(value, values));
        let style = if has_titles && number == 0 { Style::Strong } else { Style::Plain };
        for line in wrap::wrapped(&line, names + 2, width).lines() {
            text += &format!("{}\n", style.paint(line.trim_end()));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use vkstash_store::settings::{FREE_SPACE, SETTINGS, UPDATE_MEMORY, UPDATE_PROCESSORS};

    use super::*;

    fn row(name: &'static str, value: &str) -> Row {
        Row { name, value: value.to_owned(), from: "default".to_owned() }
    }

    #[test]
    fn the_list_for_people_has_the_defaults() {
        // These depend on the machine, or are too long.
        let in_words = [FREE_SPACE, EXCLUDED_PROGRAMS, UPDATE_PROCESSORS, UPDATE_MEMORY];
        for setting in SETTINGS.iter().filter(|setting| !in_words.contains(&setting.name)) {
            let default = match default_of(setting.name, Path::new("/")).as_str() {
                "on" => "true".to_owned(),
                "off" => "false".to_owned(),
                value => value.to_owned(),
            };
            assert_eq!(setting.default, default, "{}", setting.name);
        }
    }

    #[test]
    fn a_long_value_goes_on_below_itself_and_moves_no_other() {
        let long = "firefox* chromium* opera brave* vivaldi* librewolf* waterfox* floorp*";
        let rows = [row("limit", "4GiB"), row("excluded-programs", long), row("bases", "/games of mine")];
        let expected = "\
setting            value           from
limit              4GiB            default
excluded-programs  firefox* chromium* opera brave* vivaldi*
                   librewolf* waterfox* floorp*  default
bases              /games of mine  default
";
        let shown = |width| lines(&rows, true, width).replace("\x1b[1m", "").replace("\x1b[0m", "");
        assert_eq!(shown(Some(60)), expected);
        let piped = shown(None);
        assert_eq!(piped.lines().count(), 4, "{piped}");
        assert_eq!(piped.lines().nth(2), Some(&*format!("excluded-programs  {long}  default")));
        assert_eq!(piped.lines().nth(1), expected.lines().nth(1));
        for width in 1..120 {
            let shown = shown(Some(width));
            assert!(shown.lines().all(|line| display_width(line) <= usize::from(width)), "{width}: {shown}");
            let words = |text: &str| text.split_whitespace().collect::<String>();
            assert_eq!(words(&shown), words(&piped), "nothing is left out");
        }
    }
}
