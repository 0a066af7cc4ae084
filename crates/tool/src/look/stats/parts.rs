//! The parts of an application's stash: what they hold, what is wrong with them, and in what those of a device differ.

use super::model::{Application, BoundTo, Part};
use crate::reports::names;
use crate::term::units::{counted, plain, size};

/// Number of refused files that are named; the JSON names all.
const MOST_FILES: usize = 5;

/// Each part, the portable one first.
pub(super) fn describe(lines: &mut Vec<String>, application: &Application) {
    for (place, part) in application.parts.iter().enumerate() {
        let bound = part.bound_to.as_ref();
        let driver = bound.map(|bound| names::driver(bound.driver_id, bound.driver_version));
        let driver = driver.map_or(String::new(), |driver| format!(" ({driver})"));
        lines.push(format!("  part {}{driver}: {}", plain(&part.name), contents(part)));
        lines.extend(bound.and_then(|bound| twin(bound, &application.parts[..place])));
        describe_trouble(lines, part);
    }
}

/// In what the part differs from that earlier one of its device and driver that is most like it.
fn twin(bound: &BoundTo, earlier: &[Part]) -> Option<String> {
    let alike = earlier.iter().filter_map(|part| {
        let other = part.bound_to.as_ref()?;
        let of = |bound: &BoundTo| (bound.vendor_id, bound.device_id, bound.driver_id);
        (of(other) == of(bound)).then(|| (differences(bound, other), part))
    });
    let (differences, part) = alike.min_by_key(|(differences, _)| differences.len())?;
    Some(format!("    differs from part {} in: {}", plain(&part.name), differences.join(", ")))
}

/// The members of two device headers that are not equal, with the values where they tell something.
fn differences(bound: &BoundTo, other: &BoundTo) -> Vec<String> {
    let mut differences = Vec::new();
    let mut compare = |name: &str, values: [String; 2], tells: bool| {
        let [own, others] = values;
        if own != others {
            differences.push(if tells { format!("{name} ({own}, not {others})") } else { name.to_owned() });
        }
    };
    let text = |value: fn(&BoundTo) -> String| [value(bound), value(other)];
    compare("driver version", text(|bound| bound.driver_version_text.clone()), true);
    compare("pipelineCacheUUID", text(|bound| bound.pipeline_cache_uuid.clone()), true);
    compare("pointer width", text(|bound| bound.pointer_width.to_string()), true);
    compare("schema of keys", text(|bound| bound.key_schema.to_string()), true);
    compare("enabled features", text(|bound| bound.features_digest.clone()), false);
    differences
}

/// The content of a part: `1.2 MiB, 412 artifacts`.
fn contents(part: &Part) -> String {
    let mut text = size(part.bytes).to_string();
    for (kind, &count) in &part.records {
        text += &match kind.as_str() {
            "estimates" => continue,
            "same" => format!(", {} with equal data", counted(count, "other")),
            // Of one pipeline there may be several, until files are merged.
            "cost" => format!(", compile times of {}", counted(count, "pipeline")),
            "verified" | "failed" => format!(", {count} {kind}"),
            kind => format!(", {}", counted(count, &plain(kind).replace('_', " "))),
        };
    }
    text
}

fn describe_trouble(lines: &mut Vec<String>, part: &Part) {
    if part.damaged_places > 0 {
        lines.push(format!("    {} in its files", counted(part.damaged_places, "damaged place")));
    }
    for refused in part.refused_files.iter().take(MOST_FILES) {
        lines.push(format!("    refused {}: {}", plain(&refused.file), plain(&refused.detail)));
    }
    let more = part.refused_files.len().saturating_sub(MOST_FILES) as u64;
    if more > 0 {
        lines.push(format!("    refused {} more", counted(more, "file")));
    }
}
