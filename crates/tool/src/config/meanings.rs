//! The settings and the environment's variables as the help, a man page and docs/configuration.md show them.

use vkstash_model::variables::{self, Audience, Variable};
use vkstash_store::settings::SETTINGS;

/// Columns of a line of help.
const WIDTH: usize = 98;

/// The settings, for `vkstash config --help`: a paragraph and a list, as in the texts of the other commands.
pub(crate) fn settings() -> String {
    let mut text = String::from(
        "Settings of the file; those with a * may stand in a section [application.\"NAME\"], too:\n\n",
    );
    for setting in SETTINGS {
        let star = if setting.is_of_applications { " *" } else { "" };
        let meaning = with_page(setting.meaning, setting.page);
        let item = format!(
            "`{}`{star}: {} (by default: {}): {meaning}",
            setting.name, setting.value, setting.default
        );
        let options = textwrap::Options::new(WIDTH).initial_indent("* ").subsequent_indent("  ");
        text += &(textwrap::fill(&item, options) + "\n");
    }
    text
}

/// The variables that are not internal: name, values, and what they mean.
pub(crate) fn environment() -> impl Iterator<Item = (&'static str, String)> {
    let shown = variables::ALL.iter().filter(|variable| variable.audience != Audience::Internal);
    shown.map(|Variable { name, values, meaning, page, audience }| {
        let measures = if *audience == Audience::Measurement { "; for measurements" } else { "" };
        (*name, format!("{values}: {}{measures}", with_page(meaning, page)))
    })
}

/// A meaning, and where more is said.
fn with_page(meaning: &str, page: &str) -> String {
    let file = page.split('#').next().unwrap_or_default();
    if file.is_empty() { meaning.to_owned() } else { format!("{meaning} (docs/{file})") }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    const END: &str = "<!-- end -->";

    /// A meaning with a link.
    fn linked(meaning: &str, page: &str) -> String {
        let (file, _) = page.split_once('#').unwrap_or((page, ""));
        if file.is_empty() { meaning.to_owned() } else { format!("{meaning} ([{file}]({page}))") }
    }

    fn of_settings() -> String {
        let row = |setting: vkstash_store::settings::Setting| {
            let star = if setting.is_of_applications { " \\*" } else { "" };
            let meaning = linked(setting.meaning, setting.page);
            format!("| `{}`{star} | {} | {} | {meaning} |\n", setting.name, setting.value, setting.default)
        };
        let rows: String = SETTINGS.into_iter().map(row).collect();
        format!("| name | value | default | meaning |\n|---|---|---|---|\n{rows}")
    }

    fn of_variables(audience: Audience) -> String {
        let row = |variable: &Variable| {
            let meaning = linked(variable.meaning, variable.page);
            format!("| `{}` | {} | {meaning} |\n", variable.name, variable.values)
        };
        let shown = variables::ALL.iter().filter(|variable| variable.audience == audience);
        format!("| variable | value | meaning |\n|---|---|---|\n{}", shown.map(row).collect::<String>())
    }

    /// The page with this table after the marker of this name.
    fn with_table(page: &str, name: &str, table: &str) -> String {
        let marker = format!("<!-- generated: {name} -->\n");
        let (before, rest) = page.split_once(&marker).unwrap();
        let (_, after) = rest.split_once(END).unwrap();
        format!("{before}{marker}{table}{END}{after}")
    }

    /// The tables of docs/configuration.md are these lists (VKSTASH_PUBLISH_GOLDEN=1 writes them).
    #[test]
    fn the_page_has_the_lists() {
        let found = fs::read_to_string(PAGE).unwrap();
        let mut page = with_table(&found, "settings", &of_settings());
        page = with_table(&page, "variables", &of_variables(Audience::User));
        page = with_table(&page, "variables for measurements", &of_variables(Audience::Measurement));
        if std::env::var_os("VKSTASH_PUBLISH_GOLDEN").is_some() {
            fs::write(PAGE, &page).unwrap();
        }
        assert_eq!(fs::read_to_string(PAGE).unwrap(), page);
    }

    #[test]
    fn the_help_has_every_setting_in_short_lines() {
        let help = settings();
        assert!(SETTINGS.iter().all(|setting| help.contains(&format!("\n* `{}`", setting.name))), "{help}");
        assert!(
            help.contains("\n* `limit` *: size, or `\"none\"` (by default: 4GiB): size of all "),
            "{help}"
        );
        let longest = help.lines().max_by_key(|line| line.len()).unwrap();
        assert!(longest.len() <= 120, "{longest}");
    }
}
