//! `vkstash inspect`: what a segment file holds.

mod model;

use std::collections::BTreeMap;
use std::io::{self, Write as _};

use vkstash_store::format::device::DeviceHeader;
use vkstash_store::stash::one_file::{self, InspectError, RecordInfo, SegmentInfo, SegmentState};

use crate::cli::InspectArgs;
use crate::reports::names;
use crate::term::output::{self, Printer};
use crate::term::screen;
use crate::term::table::{Column, Table};
use crate::term::time::moment;
use crate::term::units::{counted, plain, size};

pub(crate) use model::Output;

/// Columns of the table of kinds.
const KINDS: [Column; 4] = [
    Column::words("kind", 3),
    Column::numbers("records", 2),
    Column::numbers("stored", 1),
    Column::numbers("payload", 0),
];

/// Columns of the table of records.
const RECORDS: [Column; 6] = [
    Column::numbers("offset", 3),
    Column::words("kind", 4),
    Column::numbers("stored", 1),
    Column::numbers("payload", 2),
    Column::words("codec", 0),
    Column::words("key", 5),
];

/// Why nothing could be shown, or what is wrong with the file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{path}: {error}")]
    File { path: String, error: InspectError },
    #[error("{0}")]
    Damaged(String),
    #[error("cannot make JSON of it: {0}")]
    Json(#[from] serde_json::Error),
    #[error("cannot print it: {0}")]
    Print(#[from] io::Error),
}

pub(crate) fn main(args: &InspectArgs) -> Result<(), Error> {
    let in_file = |error| Error::File { path: plain(&args.file.to_string_lossy()), error };
    let info = one_file::segment(&args.file).map_err(in_file)?;
    if args.json {
        output::print(&format!("{}\n", output::escaped(&serde_json::to_string_pretty(&Output::of(&info))?)))?;
    } else {
        let mut out = Printer::open()?;
        tell(&info, &mut out)?;
        if args.records {
            tell_records(&info.records, &mut out)?;
        }
        out.flush()?;
    }
    let damaged = info.records.iter().filter(|record| record.is_whole == Some(false)).count() as u64;
    let places = (damaged > 0).then(|| counted(damaged, "damaged record"));
    let between = (info.damaged_places > 0).then(|| counted(info.damaged_places, "place without a record"));
    let gone = info.complete_records.map(|had| u64::from(had).saturating_sub(info.records.len() as u64));
    let gone = gone.map(|gone| format!("a cut end, and with it {}", counted(gone, "record")));
    let all: Vec<_> = places.into_iter().chain(between).chain(gone).collect();
    if all.is_empty() { Ok(()) } else { Err(Error::Damaged(all.join(" and "))) }
}

fn tell(info: &SegmentInfo, out: &mut Printer) -> io::Result<()> {
    let state = match info.state {
        SegmentState::Sealed => "complete",
        SegmentState::Orphaned => "without an index, because its writer died",
        SegmentState::Cut => "cut, or damaged at its end: it was complete",
        SegmentState::Written => "a running program writes to it",
        SegmentState::Unreadable => "some of it cannot be read now",
    };
    writeln!(out, "{}, {state}", size(info.bytes))?;
    let (version, serial) = (info.version, &info.serial);
    writeln!(out, "created {}, format {version}, serial number {serial}", moment(info.created_unix_ms))?;
    match &info.device {
        Some(device) => tell_device(device, out)?,
        None => writeln!(out, "portable: fits every device")?,
    }
    writeln!(out)?;
    let mut kinds: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
    for record in &info.records {
        let [records, stored, payload] = kinds.entry(&record.kind).or_default();
        *records += 1;
        *stored += record.stored_bytes;
        *payload += record.payload_bytes;
    }
    let mut table = Table::new(&KINDS);
    for (kind, [records, stored, payload]) in kinds {
        table.row([
            kind.to_owned(),
            records.to_string(),
            size(stored).to_string(),
            size(payload).to_string(),
        ]);
    }
    out.write_all(table.lines(screen::width()).as_bytes())
}

fn tell_device(device: &DeviceHeader, out: &mut Printer) -> io::Result<()> {
    let driver = names::driver_id(device.driver_id).unwrap_or_else(|| format!("driver {}", device.driver_id));
    let version = names::driver_version(device.driver_id, device.driver_version);
    let (vendor, id, width) = (device.vendor_id, device.device_id, u32::from(device.pointer_width) * 8);
    writeln!(out, "for device {vendor:#06x}:{id:#06x}, {driver} {version}, {width}-bit programs")?;
    writeln!(out, "  pipelineCacheUUID {}", hex::encode(device.pipeline_cache_uuid))?;
    writeln!(out, "  features {}, schema {}", hex::encode(device.features_digest), device.schema)
}

fn tell_records(records: &[RecordInfo], out: &mut Printer) -> io::Result<()> {
    writeln!(out)?;
    let mut table = Table::new(&RECORDS);
    for record in records {
        let RecordInfo { offset, kind, key, stored_bytes, payload_bytes, codec, is_whole } = record;
        let state = match is_whole {
            Some(true) => "",
            Some(false) => "  damaged",
            None => "  not read",
        };
        let [offset, stored, payload] =
            [*offset, *stored_bytes, *payload_bytes].map(|number| number.to_string());
        table.row([offset, kind.clone(), stored, payload, codec.clone(), format!("{key}{state}")]);
    }
    out.write_all(table.lines(screen::width()).as_bytes())
}
