//! The JSON Schema of `vkstash stats --json`, which docs/schema/stats.json publishes.

use std::fs;
use std::path::Path;

use schemars::{Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde_json::{Map, Value, json};
use vkstash_model::counters::Count;

use super::model::Stash;

/// Numbers by the names of counters, each with its text.
pub(super) fn counters(_: &mut SchemaGenerator) -> Schema {
    let of = |what: &Count| {
        let schema = json!({ "type": "integer", "minimum": 0, "description": what.text() });
        (what.name().to_owned(), schema)
    };
    let properties: Map<String, Value> = Count::ALL.iter().map(of).collect();
    let required: Vec<&str> = Count::ALL.iter().map(|what| what.name()).collect();
    json_schema!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": { "type": "integer", "minimum": 0 },
    })
}

/// With VKSTASH_PUBLISH_GOLDEN set, the file is written.
#[test]
fn the_published_schema_is_that_of_the_structs() {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<Stash>();
    schema.insert("title".to_owned(), "vkstash stats --json".into());
    let expected = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/stats.json");
    if std::env::var_os("VKSTASH_PUBLISH_GOLDEN").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, &expected).unwrap();
    }
    let published = fs::read_to_string(&file).unwrap_or_default();
    assert!(published == expected, "VKSTASH_PUBLISH_GOLDEN=1 cargo test -p vkstash-tool schema writes it");
}
