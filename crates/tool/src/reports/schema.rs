//! Schemas of the counters and of the reasons for a bypass, for the JSON Schemas in docs/schema.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};
use vkstash_model::counters::{BypassReason, Count};
use vkstash_model::live::COUNTED;

/// Every counter.
pub(crate) struct Counters;

/// The counters of a live page.
pub(crate) struct PageCounters;

impl JsonSchema for Counters {
    fn schema_name() -> Cow<'static, str> {
        "Counters".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        numbers(Count::ALL)
    }
}

impl JsonSchema for PageCounters {
    fn schema_name() -> Cow<'static, str> {
        "Counters".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        numbers(&COUNTED)
    }
}

/// Numbers by the names of these counters, and of those that another version has.
fn numbers(counters: &[Count]) -> Schema {
    let of = |what: &Count| {
        let schema =
            json!({ "type": "integer", "minimum": 0, "title": what.label(), "description": what.meaning() });
        (what.name().to_owned(), schema)
    };
    let properties: Map<String, Value> = counters.iter().map(of).collect();
    let required: Vec<&str> = counters.iter().map(|what| what.name()).collect();
    json_schema!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": { "type": "integer", "minimum": 0 },
    })
}

/// A reason for a bypass, or one that another version has.
pub(crate) fn bypass_reason(_: &mut SchemaGenerator) -> Schema {
    let of = |reason: &BypassReason| json!({ "const": reason.name(), "description": reason.meaning() });
    let others = json!({ "type": "string" });
    let reasons: Vec<Value> = BypassReason::ALL.iter().map(of).chain([others]).collect();
    json_schema!({ "anyOf": reasons })
}
