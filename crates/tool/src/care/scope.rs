//! The scope of a command about settings, a stash or one application in it, and the lines that such commands print.

use std::io;
use std::path::{Path, PathBuf};

use vkstash_host::disk::errors::OpenError;
use vkstash_store::settings::places::Configuration;
use vkstash_store::stash::inspect::{ApplicationInfo, list_applications};

use crate::config::edit::{self, Application, Change, EditError};
use crate::config::in_force::Source;
use crate::config::problems::say_ignored;
use crate::config::slips::Slip;
use crate::stash::choice::{ChoiceError, choose, name_of};
use crate::stash::root::{self, NoRoot};
use crate::term::output;
use crate::term::units::plain;

/// Why nothing could be shown or set.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingError {
    #[error(transparent)]
    NoRoot(#[from] NoRoot),
    #[error("cannot read the stash: {0}")]
    Open(#[from] OpenError),
    #[error(transparent)]
    Edit(#[from] EditError),
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    #[error(transparent)]
    Slip(#[from] Slip),
    #[error("cannot print it: {0}")]
    Print(#[from] io::Error),
}

/// A stash, or one application in it.
pub(super) struct Scope<'a> {
    /// As on the command line.
    pub(super) dir: Option<&'a Path>,
    pub(super) root: PathBuf,
    /// All applications that count for the command.
    pub(super) applications: Vec<ApplicationInfo>,
    /// The place of the chosen one among them.
    chosen: Option<usize>,
}

impl<'a> Scope<'a> {
    /// `counts`: the applications that the command is about.
    pub(super) fn read(
        dir: Option<&'a Path>,
        name: Option<&str>,
        counts: impl Fn(&ApplicationInfo) -> bool,
    ) -> Result<Scope<'a>, SettingError> {
        let root = root::named(dir)?;
        let mut applications = list_applications(&root)?;
        applications.retain(counts);
        let chosen = name.map(|name| choose(&applications, name, &root)).transpose()?;
        let chosen =
            chosen.and_then(|chosen| applications.iter().position(|info| info.folder == chosen.folder));
        Ok(Scope { dir, root, applications, chosen })
    }

    /// The chosen application. None: all of them.
    pub(super) fn chosen(&self) -> Option<&ApplicationInfo> {
        self.applications.get(self.chosen?)
    }

    /// The chosen application, or all of them.
    pub(super) fn each(&self) -> &[ApplicationInfo] {
        self.chosen().map_or(&self.applications, std::slice::from_ref)
    }

    /// Writes changes, if there are any.
    pub(super) fn change(&self, changes: &[Change]) -> Result<(), EditError> {
        if changes.is_empty() {
            return Ok(());
        }
        let section = self.section();
        let application = section.as_ref().map(|(name, folder)| Application { name, folder });
        edit::change(&edit::target(self.dir)?, application.as_ref(), |_| Ok(changes.to_vec()))
    }

    /// [`section_of`] the chosen application.
    pub(super) fn section(&self) -> Option<(String, String)> {
        self.chosen().map(|info| section_of(&self.applications, info))
    }
}

/// The name of an application's section in a configuration file, and its folder.
pub(super) fn section_of(found: &[ApplicationInfo], info: &ApplicationInfo) -> (String, String) {
    (name_of(found, info).to_owned(), info.folder.clone())
}

/// An application that has stored something or left reports.
pub(super) fn has_anything(info: &ApplicationInfo) -> bool {
    !info.parts.is_empty() || info.runs.runs > 0
}

/// An application's name and folder.
pub(super) fn title(info: &ApplicationInfo) -> String {
    format!("{} ({})", plain(&info.display), plain(&info.folder))
}

/// The line of a setting.
pub(super) fn row(name: &str, value: &str, source: Source) -> String {
    format!("  {name:<18}{value:<12}{}", source.text())
}

/// Prints lines, and what is ignored in configuration files.
pub(super) fn print(mut lines: Vec<String>, read: &Configuration) -> io::Result<()> {
    say_ignored(&mut lines, read);
    output::print(&(lines.join("\n") + "\n"))
}
