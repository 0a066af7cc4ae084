//! One finding of `vkstash doctor`: how bad it is, and what helps.

use serde::Serialize;

use crate::term::units::plain;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    /// As it should be: `ok` in the text.
    Good,
    /// Worth knowing; programs work.
    Note,
    /// Programs run without the stash because of it. The exit status is 1 then.
    Wrong,
}

/// One thing that was found.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Finding {
    /// How bad it is.
    pub(crate) level: Level,
    /// What is so, and why that matters, for people. The text may change with each version.
    pub(crate) text: String,
    /// What to do, for people. Null where there is nothing to do.
    pub(crate) next: Option<String>,
}

impl Finding {
    pub(crate) fn good(text: impl Into<String>) -> Finding {
        Finding { level: Level::Good, text: text.into(), next: None }
    }

    pub(crate) fn note(text: impl Into<String>, next: impl Into<String>) -> Finding {
        Finding { level: Level::Note, text: text.into(), next: Some(next.into()) }
    }

    pub(crate) fn wrong(text: impl Into<String>, next: impl Into<String>) -> Finding {
        Finding { level: Level::Wrong, text: text.into(), next: Some(next.into()) }
    }

    /// Lines for people.
    pub(crate) fn text(&self) -> String {
        let level = match self.level {
            Level::Good => "ok",
            Level::Note => "note",
            Level::Wrong => "WRONG",
        };
        let next = self.next.as_ref().map_or(String::new(), |next| format!("       next: {}\n", plain(next)));
        // Names of files and drivers are anybody's.
        format!("{level:<6} {}\n{}", plain(&self.text), next)
    }
}
