//! The JSON Schemas of what commands print with `--json`. docs/schema publishes them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use crate::{care, look, programs, setup};

/// A file, and the schema of the output of the command of that name.
struct Published {
    name: &'static str,
    schema: Value,
}

/// `list` describes the output as a whole if that is a list.
fn published<T: JsonSchema>(name: &'static str, command: &str, list: Option<&str>) -> Published {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    schema["title"] = format!("{command} --json").into();
    if let Some(text) = list {
        schema["description"] = text.into();
    }
    unwrap_lines(&mut schema);
    Published { name, schema }
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
fn the_folder_has_a_file_for_each_command() {
    let found: BTreeSet<_> =
        fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let named = all().into_iter().map(|Published { name, .. }| format!("{name}.json").into());
    assert_eq!(found, named.chain(["README.md".into()]).collect());
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
