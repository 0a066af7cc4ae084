//! Data files of measurements (docs/evidence/data): header lines, then a table whose columns are divided by tabs.

use std::fmt::Write as _;
use std::time::SystemTime;

/// The header lines, each once and in this order. Notes may follow.
pub const HEADERS: [&str; 6] = ["topic", "what", "figure", "command", "machine", "date"];

/// The figure of a file that a program has written: a person chooses it.
pub const UNWRITTEN: &str = "to be written";

/// A measurement that cannot be made again is none.
const UNRECORDED: &str = "not recorded";

/// What a data file says, but for its figure and its date.
pub struct Data {
    /// A section of the summary.
    pub topic: String,
    /// The measured quantity, in words.
    pub what: String,
    /// The command line.
    pub command: String,
    /// The device, its driver, and the machine.
    pub machine: String,
    /// The first row is the head.
    pub rows: Vec<Vec<String>>,
}

impl Data {
    /// The file, with the day of `now` in UTC.
    pub fn file(&self, now: SystemTime) -> String {
        let moment = humantime::format_rfc3339_seconds(now).to_string();
        let day = moment.split('T').next().unwrap_or_default();
        let values = [&self.topic, &self.what, UNWRITTEN, &self.command, &self.machine, day];
        let mut text = String::new();
        for (key, value) in HEADERS.iter().zip(values) {
            let _ = writeln!(text, "# {key}: {}", cell(value));
        }
        for row in &self.rows {
            text += &row.iter().map(|value| cell(value)).collect::<Vec<_>>().join("\t");
            text.push('\n');
        }
        text
    }
}

/// On one line, without a tab, and not empty.
fn cell(value: &str) -> String {
    let words: Vec<_> = value.split_whitespace().collect();
    if words.is_empty() { "-".to_owned() } else { words.join(" ") }
}

/// A command line without `--data FILE`, which names a folder of one machine.
pub fn command(words: impl IntoIterator<Item = String>) -> String {
    let (mut kept, mut is_file) = (Vec::new(), false);
    for word in words {
        if !is_file && word != "--data" && !word.starts_with("--data=") {
            kept.push(word.clone());
        }
        is_file = word == "--data";
    }
    kept.join(" ")
}

/// What is wrong with a data file.
pub fn faults(text: &str) -> Vec<String> {
    let is_header = |line: &&str| line.starts_with("# ");
    let headers: Vec<_> = text.lines().take_while(is_header).collect();
    let mut rows = text.lines().skip(headers.len()).map(|line| line.split('\t').collect::<Vec<_>>());
    let mut faults = Vec::new();
    for key in HEADERS {
        let start = format!("# {key}: ");
        let values: Vec<_> = headers.iter().filter_map(|line| line.strip_prefix(&start)).collect();
        match values[..] {
            [value] if value.trim().is_empty() || value == UNWRITTEN => {
                faults.push(format!("{key} is not written"))
            }
            [value] if value.contains(UNRECORDED) => faults.push(format!("{key} is {UNRECORDED}")),
            [_] => {}
            _ => faults.push(format!("{key} is there {} times", values.len())),
        }
    }
    let known = |line: &str| {
        let key = line.trim_start_matches("# ").split(": ").next().unwrap_or_default();
        HEADERS.contains(&key) || key == "note"
    };
    faults.extend(headers.iter().filter(|line| !known(line)).map(|line| format!("unknown header: {line}")));
    let Some(head) = rows.next() else {
        faults.push("no table".to_owned());
        return faults;
    };
    let mut count = 0;
    for row in rows {
        count += 1;
        if row.len() != head.len() || row.contains(&"") {
            faults.push(format!("not {} columns, or an empty one: {}", head.len(), row.join(" | ")));
        }
    }
    if count == 0 || head.contains(&"") {
        faults.push("no rows, or a column without a head".to_owned());
    }
    faults
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn written() -> String {
        let data = Data {
            topic: "The store".to_owned(),
            what: "two\nlines".to_owned(),
            command: "vkstash-bench lookups".to_owned(),
            machine: "a processor, 2 cores".to_owned(),
            rows: [["figure", "measured"], ["a\tb", ""]].map(|row| row.map(str::to_owned).to_vec()).to_vec(),
        };
        data.file(UNIX_EPOCH + Duration::from_secs(951_782_400))
    }

    #[test]
    fn a_written_file_lacks_its_figure_alone() {
        let text = written();
        assert!(text.ends_with("# date: 2000-02-29\nfigure\tmeasured\na b\t-\n"), "{text}");
        assert!(text.contains("\n# what: two lines\n"), "{text}");
        assert_eq!(faults(&text), ["figure is not written"]);
        assert!(faults(&text.replace(UNWRITTEN, "12 us")).is_empty());
    }

    #[test]
    fn a_command_does_not_name_the_file() {
        let of = |line: &str| command(line.split(' ').map(str::to_owned));
        assert_eq!(of("bench --data a/b.tsv usual --runs 6"), "bench usual --runs 6");
        assert_eq!(of("bench usual --data=a/b.tsv"), "bench usual");
    }

    #[test]
    fn faults_are_found() {
        let good = written().replace(UNWRITTEN, "12 us");
        let noted = good.replace("figure\t", "# note: one\n# note: two\nfigure\t");
        assert!(faults(&noted).is_empty());
        assert_eq!(faults(&good.replace("# topic", "# title")).len(), 2);
        assert_eq!(faults(&good.replace("2000-02-29", "not recorded (a build)")), ["date is not recorded"]);
        assert_eq!(faults(&good.replace("# date", "# what: again\n# date")), ["what is there 2 times"]);
        assert_eq!(faults(&format!("{good}c\n")), ["not 2 columns, or an empty one: c"]);
        assert_eq!(faults(&good.replace("a b\t-\n", "")), ["no rows, or a column without a head"]);
        assert_eq!(faults("").len(), HEADERS.len() + 1);
    }
}
