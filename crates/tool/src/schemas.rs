//! The JSON Schemas of what commands print with `--json`. docs/schema publishes them.

use std::fs;
use std::path::{Path, PathBuf};

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use crate::{care, look, programs, setup};

/// A file, the command whose output it describes, and that of the output as a whole if it is a list.
struct Published {
    name: &'static str,
    command: &'static str,
    schema: Value,
}

fn published<T: JsonSchema>(name: &'static str, command: &'static str, list: Option<&str>) -> Published {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    schema["title"] = format!("{command} --json").into();
    if let Some(text) = list {
        schema["description"] = text.into();
    }
    unwrap_lines(&mut schema);
    Published { name, command, schema }
}

/// Texts are wrapped in the sources alone.
fn unwrap_lines(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::String(text)) = members.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            members.values_mut().for_each(unwrap_lines);
        }
        Value::Array(values) => values.iter_mut().for_each(unwrap_lines),
        _ => {}
    }
}

fn all() -> [Published; 11] {
    [
        published::<programs::bench::Output>("bench", "vkstash bench", None),
        published::<care::config::Shown>("config", "vkstash config", None),
        published::<Vec<setup::doctor::Output>>(
            "doctor",
            "vkstash doctor",
            Some("What was found, in the order in which it was looked at."),
        ),
        published::<look::inspect::Output<'_>>("inspect", "vkstash inspect", None),
        published::<Vec<look::list::Row>>(
            "list",
            "vkstash list",
            Some("The applications, the one that was used last first."),
        ),
        published::<programs::prewarm::Output<'_>>("prewarm", "vkstash prewarm", None),
        published::<look::report::Output>("report", "vkstash report", None),
        published::<look::show::Output<'_>>("show", "vkstash show", None),
        published::<look::stats::Output>("stats", "vkstash stats", None),
        published::<care::verify::Output<'_>>("verify", "vkstash verify", None),
        published::<Vec<look::watch::Output>>(
            "watch",
            "vkstash watch --once",
            Some("The programs that run with the layer, the one that has started last first."),
        ),
    ]
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema")
}

/// With VKSTASH_PUBLISH_GOLDEN set, the files are written.
#[test]
fn the_published_schemas_are_those_of_the_structs() {
    let is_written = std::env::var_os("VKSTASH_PUBLISH_GOLDEN").is_some();
    let mut different = Vec::new();
    for Published { name, schema, .. } in all() {
        // In the order of keys that people expect.
        let ordered = Schema::try_from(schema).unwrap();
        let expected = serde_json::to_string_pretty(&ordered).unwrap() + "\n";
        let file = folder().join(format!("{name}.json"));
        if is_written {
            fs::write(&file, &expected).unwrap();
        }
        if fs::read_to_string(&file).unwrap_or_default() != expected {
            different.push(name);
        }
    }
    let say = "VKSTASH_PUBLISH_GOLDEN=1 cargo test -p vkstash-tool schemas writes them";
    assert!(different.is_empty(), "{different:?}: {say}");
}

#[test]
fn the_folder_has_these_files_and_its_table_names_them() {
    let text = fs::read_to_string(folder().join("README.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| ["));
    let all = all();
    assert_eq!(rows.count(), all.len(), "{text}");
    for Published { name, command, .. } in &all {
        let row = format!("| [{name}.json]({name}.json) | `{command} --json` |");
        assert!(text.contains(&row), "{row}");
    }
    assert_eq!(fs::read_dir(folder()).unwrap().count(), all.len() + 1);
}

/// The names that a schema says nothing of.
fn undescribed(schema: &Value, place: &str, found: &mut Vec<String>) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::Object(properties)) = members.get("properties") {
                // A variant of an enum is described as a whole.
                let is_variant = properties.len() == 1 && members.contains_key("description");
                let has_text = |value: &Value| {
                    is_variant || value.get("description").is_some() || value.get("const").is_some()
                };
                let without = properties.iter().filter(|(_, value)| !has_text(value));
                found.extend(without.map(|(name, _)| format!("{place}/{name}")));
            }
            members.iter().for_each(|(name, value)| undescribed(value, &format!("{place}/{name}"), found));
        }
        Value::Array(values) => values.iter().for_each(|value| undescribed(value, place, found)),
        _ => {}
    }
}

#[test]
fn every_name_is_described() {
    let mut found = Vec::new();
    all().iter().for_each(|published| undescribed(&published.schema, published.name, &mut found));
    assert_eq!(found, Vec::<String>::new());
    undescribed(&json!({ "properties": { "a": {}, "b": { "description": "B." } } }), "x", &mut found);
    assert_eq!(found, ["x/a"]);
}
