//! The report for people and scripts.

use serde_json::{Value, json};
use vkstash_host::text::hex;
use vkstash_layer_tests::translators::report::{Latency, Report};

/// Counts and latencies; with a run without the layer, the cost of a fast link beside it.
pub(crate) fn json(report: &Report, without: Option<&Report>) -> Value {
    let times = &report.times;
    let mut value = json!({
        "device": report.device,
        "identifiers": report.identifiers,
        "algorithm": hex(&report.algorithm),
        "book_rejected": report.book_rejected,
        "pipelines": report.pipelines,
        "requested_by_identifier": report.requested_by_identifier,
        "served_by_identifier": report.served_by_identifier,
        "compile_required": report.compile_required,
        "translations": report.translations,
        "fallback_translations": report.fallback_translations,
        "libraries": report.libraries,
        "links": report.links,
        "blobs": report.blobs,
        "blob_bytes": report.blob_bytes,
        "failures": report.failures,
        "us": {
            "by_identifier": latency(&times.by_identifier),
            "refused": latency(&times.refused),
            "from_code": latency(&times.from_code),
            "fast_link": latency(&times.fast_link),
            "optimised": latency(&times.optimised),
        },
    });
    if let Some(without) = without {
        value["without_layer"] = json!({
            "fast_link": latency(&without.times.fast_link),
            "fast_link_ratio": times.fast_link.p50() / without.times.fast_link.p50(),
            "failures": without.failures,
        });
    }
    value
}

fn latency(latency: &Latency) -> Value {
    // JSON has no NaN, so there is no value for no calls.
    if latency.0.is_empty() {
        return Value::Null;
    }
    json!({ "count": latency.0.len(), "p50": latency.p50(), "max": latency.max() })
}
