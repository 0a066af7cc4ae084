//! The report of `vkstash verify` for programs. The field names are those of the JSON and do not change. Their
//! documentation is that of docs/schema/verify.json.

use serde::Serialize;
use vkstash_store::format::refusal::Refusal;
use vkstash_store::maintenance::verify::{self, Verified};

/// What was read, and what is wrong with it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Output<'a> {
    /// Number of applications that were read.
    applications: u64,
    /// Number of files that were read.
    files: u64,
    /// Number of their records, superseded ones included.
    records: u64,
    /// Size of these files.
    bytes: u64,
    /// Files that are not whole.
    bad: Vec<BadFile<'a>>,
    /// Folders of which nothing was read, because programs do not use them: of another user, writable by others,
    /// symbolic links, or not listable.
    bad_folders: Vec<BadFolder<'a>>,
}

/// A file that is not whole.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct BadFile<'a> {
    /// The folder of the application, below the stash's folder.
    application: &'a str,
    /// The folder of the part, below that of the application.
    part: &'a str,
    /// The name of the file.
    file: &'a str,
    /// What is wrong with it.
    fault: Fault<'a>,
    /// What became of it.
    state: State,
}

/// What is wrong with a file.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum Fault<'a> {
    /// Number of damaged places. `--repair` keeps the whole records.
    Damaged(u64),
    /// Number of records that are not what their keys say; with `--contents` only. `--repair` keeps the others.
    Untrue(u64),
    /// The end of the file is missing or damaged, and with it this number of records. `--repair` keeps the others.
    Cut(u64),
    /// The file is not used, and `--repair` does nothing: look at it, and remove it yourself. A word, or an object
    /// whose only name is that word and whose value says more: `truncated`, `not_yet`, `not_a_segment`, `version`,
    /// `flags`, `other_part`, `other_device`, `missing`, `symbolic_link`, `not_a_file`, `not_owned`,
    /// `others_may_write`, `unreadable`, `put_off`.
    Refused(#[cfg_attr(test, schemars(schema_with = "refusal"))] &'a Refusal),
    /// The file cannot be read now: the disk fails, or there are too few descriptors or no memory. `--repair` does
    /// nothing.
    Unread,
}

/// What became of a file that is not whole.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum State {
    /// It is as it was.
    Left,
    /// It is as it was, because a running program writes to it.
    InUse,
    /// Another file has its records that are whole.
    Repaired,
}

/// A folder that programs do not use.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct BadFolder<'a> {
    /// Its path below the stash's folder: an application, or a part of it.
    folder: &'a str,
    /// Why, in words.
    reason: &'a str,
}

impl Output<'_> {
    pub(super) fn of(found: &Verified) -> Output<'_> {
        let Verified { applications, files, records, bytes, bad, bad_folders } = found;
        let bad = bad.iter().map(|bad| BadFile {
            application: &bad.application,
            part: &bad.part,
            file: &bad.file,
            fault: match &bad.fault {
                verify::Fault::Damaged(places) => Fault::Damaged(*places),
                verify::Fault::Untrue(records) => Fault::Untrue(*records),
                verify::Fault::Cut(records) => Fault::Cut(*records),
                verify::Fault::Refused(refusal) => Fault::Refused(refusal),
                verify::Fault::Unread => Fault::Unread,
            },
            state: match bad.state {
                verify::Repair::Left => State::Left,
                verify::Repair::InUse => State::InUse,
                verify::Repair::Repaired => State::Repaired,
            },
        });
        let folders = bad_folders.iter().map(|bad| BadFolder { folder: &bad.folder, reason: &bad.reason });
        Output {
            applications: *applications,
            files: *files,
            records: *records,
            bytes: *bytes,
            bad: bad.collect(),
            bad_folders: folders.collect(),
        }
    }
}

/// A word, or an object with one name.
#[cfg(test)]
fn refusal(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "anyOf": [{ "type": "string" }, { "type": "object", "minProperties": 1, "maxProperties": 1 }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_told_as_the_store_tells_them() {
        let refused = |refusal| verify::Fault::Refused(refusal);
        let faults = [
            verify::Fault::Damaged(1),
            verify::Fault::Untrue(2),
            verify::Fault::Cut(3),
            refused(Refusal::NotASegment),
            refused(Refusal::Version(9)),
            verify::Fault::Unread,
        ];
        let bad = |fault| verify::BadFile {
            application: "a".to_owned(),
            part: "portable".to_owned(),
            file: "f.vks".to_owned(),
            fault,
            state: verify::Repair::InUse,
        };
        let found = Verified { files: 6, bad: faults.into_iter().map(bad).collect(), ..Verified::default() };
        let told = serde_json::to_value(Output::of(&found)).unwrap();
        assert_eq!(told, serde_json::to_value(&found).unwrap());
        assert_eq!(told["bad"][4]["fault"], serde_json::json!({ "refused": { "version": 9 } }));
        assert_eq!(
            (&told["bad"][5]["fault"], &told["bad"][5]["state"]),
            (&"unread".into(), &"in_use".into())
        );
    }
}
