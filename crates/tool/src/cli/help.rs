//! The help of the tool itself: its commands in groups.

use clap::{Command, CommandFactory as _};

use crate::cli::Cli;

/// Each command is in one of these groups.
pub(super) const GROUPS: [(&str, &[&str]); 4] = [
    (
        "Everyday",
        &["run", "install", "uninstall", "stats", "list", "show", "watch", "report", "doctor", "config"],
    ),
    ("Care", &["keep", "background", "cache", "prewarm", "verify", "prune", "clear", "gc", "quarantine"]),
    ("Sharing", &["export", "import", "base"]),
    ("For developers", &["bench", "inspect", "completions"]),
];

/// How clap shows a heading; without colours it is dropped as in the rest of the text.
const HEADING: &str = "\x1b[1m\x1b[4m";
const RESET: &str = "\x1b[0m";

/// The command line, with its commands in groups, and their texts (`pages`) as terminals show them.
pub(crate) fn command() -> Command {
    let command = Cli::command().mut_subcommands(with_headings);
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}{HEADING}Options:{RESET}\n{{options}}{{after-help}}",
        groups(&command)
    );
    command.help_template(template)
}

/// The headings in the text of a command become those of a help.
fn with_headings(command: Command) -> Command {
    let Some(text) = command.get_after_long_help().map(ToString::to_string) else { return command };
    let line = |line: &str| match line.strip_prefix("### ") {
        Some(heading) => format!("{HEADING}{heading}:{RESET}\n"),
        None => format!("{line}\n"),
    };
    command.after_long_help(text.lines().map(line).collect::<String>())
}

/// The groups: a heading, and a line for each command.
fn groups(command: &Command) -> String {
    let widest = command.get_subcommands().map(|command| command.get_name().len()).max().unwrap_or(0);
    let mut text = String::new();
    for (title, names) in GROUPS {
        text += &format!("{HEADING}{title}:{RESET}\n");
        let found = names.iter().filter_map(|name| command.find_subcommand(name));
        for command in found.filter(|command| !command.is_hide_set()) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            text += &format!("  {:<widest$}  {about}\n", command.get_name());
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_in_one_group() {
        let command = Cli::command();
        let mut known: Vec<_> = command.get_subcommands().filter(|command| !command.is_hide_set()).collect();
        known.retain(|command| command.get_name() != "help");
        let mut known: Vec<_> = known.into_iter().map(|command| command.get_name().to_owned()).collect();
        let mut grouped: Vec<_> =
            GROUPS.iter().flat_map(|(_, names)| *names).map(|name| (*name).to_owned()).collect();
        known.sort();
        grouped.sort();
        assert_eq!(grouped, known);
    }

    #[test]
    fn the_groups_are_in_the_help() {
        let help = command().render_help().to_string();
        assert!(help.contains("Everyday:\n  run ") && help.contains("\nCare:\n  keep "), "{help}");
        assert!(help.contains("Options:\n  -h, --help") && help.contains("Exit status: "), "{help}");
        assert!(!help.contains('\x1b'), "{help:?}");
    }

    #[test]
    fn the_long_help_of_a_command_has_its_text_and_the_short_one_has_not() {
        let mut command = command();
        let stats = command.find_subcommand_mut("stats").unwrap();
        let (long, short) = (stats.render_long_help().to_string(), stats.render_help().to_string());
        assert!(long.contains("\nCounters that matter:\n") && !long.contains("###"), "{long}");
        assert!(!short.contains("Counters") && short.contains("--last-run"), "{short}");
    }
}
