//! Man pages, made from the definitions of the command line.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};

use crate::cli::{Cli, ManArgs};
use crate::config::meanings;

/// Code in the texts of commands is indented by so much.
const CODE: &str = "    ";

/// Why nothing, or not everything, was written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManualError {
    #[error("cannot write to {}: {error}", folder.display())]
    Folder { folder: PathBuf, error: io::Error },
}

/// Writes a page for `vkstash`, and one for each of its commands.
pub(crate) fn man(args: &ManArgs) -> Result<(), ManualError> {
    let failed = |error| ManualError::Folder { folder: args.folder.clone(), error };
    fs::create_dir_all(&args.folder).map_err(failed)?;
    let mut command = Cli::command();
    command.build();
    write(&command, &environment(), &args.folder).map_err(failed)
}

/// The section of the variables, which clap knows nothing of.
fn environment() -> Roff {
    let mut section = Roff::new();
    section.control("SH", ["ENVIRONMENT"]);
    for (name, meaning) in meanings::environment() {
        section.control("TP", []).text([bold(name)]).text([roman(meaning)]);
    }
    section
}

/// Writes the page of this command, which ends with this section, and those of the ones below it.
fn write(command: &Command, end: &Roff, folder: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write(below, &Roff::new(), folder)?;
    }
    let details = command.get_after_long_help().map(ToString::to_string);
    // clap_mangen would fill the lines of lists and code as those of a paragraph.
    let man = Man::new(command.clone().after_long_help(None::<&str>));
    let mut page = Vec::new();
    man.render(&mut page)?;
    page.extend(details.iter().flat_map(|text| section(text).into_bytes()));
    end.to_writer(&mut page)?;
    fs::write(folder.join(man.get_filename()), page)
}

/// The section of a man page for a text of `pages`: paragraphs, lists, indented code and headings, which are divided by
/// empty lines.
fn section(text: &str) -> String {
    let mut roff = Roff::new();
    roff.control("SH", ["DETAILS"]);
    for block in text.split("\n\n").map(|block| block.trim_matches('\n')) {
        if let Some(heading) = block.strip_prefix("### ") {
            roff.control("SS", [heading]);
        } else if block.starts_with(CODE) {
            roff.control("PP", []).control("RS", ["4"]).control("nf", []);
            block.lines().for_each(|line| _ = roff.text([roman(line.strip_prefix(CODE).unwrap_or(line))]));
            roff.control("fi", []).control("RE", []);
        } else if let Some(list) = block.strip_prefix("* ") {
            for item in list.split("\n* ") {
                roff.control("IP", ["\\(bu", "2"]).text(inlines(item));
            }
        } else {
            roff.control("PP", []).text(inlines(block));
        }
    }
    roff.render()
}

/// A paragraph, in which code is bold.
fn inlines(text: &str) -> Vec<Inline> {
    let words: Vec<_> = text.split_whitespace().collect();
    let pieces = words.join(" ");
    let pieces = pieces.split('`').enumerate();
    pieces.map(|(place, piece)| if place % 2 == 1 { bold(piece) } else { roman(piece) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_a_command_becomes_a_section() {
        let text = "Words with `code`\nand more.\n\n### A heading\n\n* one\n  of two lines\n* .two\n\n    .code 'is'\n      kept\n";
        let roff = section(text);
        let (_, roff) = roff.split_once(".SH DETAILS\n").unwrap();
        assert_eq!(
            roff,
            ".PP\nWords with \\fBcode\\fR and more.\n.SS \"A heading\"\n.IP \\(bu 2\none of two lines\n.IP \\(bu 2\n\
             \\&.two\n.PP\n.RS 4\n.nf\n\\&.code \\*(Aqis\\*(Aq\n  kept\n.fi\n.RE\n"
        );
    }
}
