//! Numbers and text for people.

use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use bytesize::ByteSize;
use humantime::FormattedDuration;
use vkstash_store::base::text::is_printable;

/// Text from outside (names of programs, devices, files) without characters that could move a terminal's cursor, change
/// its colours, or turn the order of what is printed around.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if is_printable(c) { c } else { '\u{fffd}' }).collect()
}

/// A span of time: `850us`, `3ms 400us`, `12s 400ms`, `3m 20s`, `2h 5m`.
pub(crate) fn span(nanos: u64) -> FormattedDuration {
    // Rounded to the digits that matter. A time below a microsecond is not shown as 0.
    let step = match nanos {
        0..1_000_000 => 1_000,
        1_000_000..1_000_000_000 => 100_000,
        1_000_000_000..100_000_000_000 => 100_000_000,
        100_000_000_000..3_600_000_000_000 => 1_000_000_000,
        _ => 60_000_000_000,
    };
    let rounded = (nanos.saturating_add(step / 2) / step).max(u64::from(nanos > 0));
    humantime::format_duration(Duration::from_nanos(rounded.saturating_mul(step)))
}

/// Time that serving has saved. An upper bound: the driver's own disk cache might have saved some of it too. `ahead`:
/// so much of it was spent by workers in the same run, so that the program had other things done meanwhile, at best.
pub(crate) fn saved(nanos: u64, ahead: u64) -> String {
    match (nanos.saturating_sub(ahead), ahead) {
        (0, 0) => "nothing saved".to_owned(),
        (0, ahead) => format!("{} of compiling done ahead", span(ahead)),
        (saved, 0) => format!("up to {} saved", span(saved)),
        (saved, ahead) => format!("up to {} saved, {} of compiling done ahead", span(saved), span(ahead)),
    }
}

/// A size: `512 B`, `14.2 MiB`.
pub(crate) fn size(bytes: u64) -> bytesize::Display {
    ByteSize::b(bytes).display().iec()
}

/// A moment in UTC, to the minute: `2026-11-21 04:10`. Later ones than the year 9999 are shown as its last minute.
pub(crate) fn moment(unix_ms: u64) -> String {
    const LAST_SECOND: u64 = 253_402_300_799;
    let time = UNIX_EPOCH + Duration::from_secs((unix_ms / 1000).min(LAST_SECOND));
    let text = humantime::format_rfc3339_seconds(time).to_string();
    text.chars().take("2026-11-21T04:10".len()).map(|c| if c == 'T' { ' ' } else { c }).collect()
}

/// `1 run`, `2 runs`, `2 passes`.
pub(crate) fn counted(count: u64, thing: &str) -> String {
    let mut text = format!("{count} {thing}");
    if count != 1 {
        let _ = text.write_str(if thing.ends_with('s') { "es" } else { "s" });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_use_the_unit_that_people_would() {
        let span = |nanos| span(nanos).to_string();
        assert_eq!(span(0), "0s");
        assert_eq!(span(300), "1us");
        assert_eq!(span(850_000), "850us");
        assert_eq!(span(3_400_000), "3ms 400us");
        assert_eq!(span(3_449_999), "3ms 400us");
        assert_eq!(span(12_400_000_000), "12s 400ms");
        assert_eq!(span(200_000_000_000), "3m 20s");
        assert_eq!(span(7_500_000_000_000), "2h 5m");
        assert!(span(u64::MAX).starts_with("584years"));
    }

    #[test]
    fn sizes_use_the_unit_that_people_would() {
        assert_eq!(size(1023).to_string(), "1023 B");
        assert_eq!(size(14_889_779).to_string(), "14.2 MiB");
        assert_eq!(size(u64::MAX).to_string(), "16.0 EiB");
    }

    #[test]
    fn dates_survive_leap_days_and_centuries_and_any_number() {
        let moment = |seconds: u64| moment(seconds * 1000);
        assert_eq!(moment(0), "1970-01-01 00:00");
        assert_eq!(moment(951_782_400), "2000-02-29 00:00");
        assert_eq!(moment(951_868_800), "2000-03-01 00:00");
        assert_eq!(moment(1_795_234_199), "2026-11-21 04:09");
        assert_eq!(moment(4_102_444_799), "2099-12-31 23:59");
        assert_eq!(moment(u64::MAX / 1000), "9999-12-31 23:59");
    }

    #[test]
    fn an_escape_sequence_in_a_name_does_not_reach_the_terminal() {
        assert_eq!(plain("ga\u{1b}[2Jme\n"), "ga\u{fffd}[2Jme\u{fffd}");
        assert_eq!(plain("gnp.\u{202e}exe"), "gnp.\u{fffd}exe");
    }
}
