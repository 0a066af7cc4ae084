//! Mistakes in configuration files, and what was meant.

use vkstash_store::settings::NAMES;
use vkstash_store::settings::file::{Complaint, Wrong};
use vkstash_store::settings::places::Configuration;

use crate::term::units::plain;

/// What a name that is none may have meant: `, but `limit` is`; empty if nothing is like it.
pub(crate) fn suggestion(name: &str) -> String {
    let likeness = |known: &&str| strsim::jaro_winkler(name, known);
    let best = NAMES.into_iter().max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    best.filter(|best| likeness(best) > 0.8).map_or_else(String::new, |best| format!(", but `{best}` is"))
}

/// What is wrong with the files, with a suggestion where a name is none.
pub(crate) fn problems(read: &Configuration) -> Vec<String> {
    let mut problems = Vec::new();
    for file in read.files() {
        let path = file.path.display();
        problems.extend(file.refused.iter().map(|reason| plain(&format!("{path}: {reason}"))));
        for Complaint { line, what } in &file.config.complaints {
            let suggestion = match what {
                Wrong::Name(name) => suggestion(name),
                _ => String::new(),
            };
            problems.push(plain(&format!("{path}: line {line}: {what}{suggestion}")));
        }
    }
    problems
}

/// Adds a line for each line of the configuration files that is ignored.
pub(crate) fn say_ignored(lines: &mut Vec<String>, read: &Configuration) {
    lines.extend(problems(read).into_iter().map(|what| format!("ignored: {what}")));
}
