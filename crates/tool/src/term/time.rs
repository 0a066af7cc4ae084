//! Spans of time, moments and ages, as people read them.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rustix::time::{ClockId, clock_gettime};

use crate::term::units::counted;

/// Nanoseconds of the units of a span that is shown with one number, the largest first.
const UNITS: [(u64, &str); 4] = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns")];

/// A span of time with the digits that matter: `300 ns`, `3.4 ms`, `12 s`, `3 min 20 s`, `2 h 5 min`, `3 days`.
pub(crate) fn span(nanos: u64) -> String {
    let seconds = nanos.saturating_add(500_000_000) / 1_000_000_000;
    let minutes = seconds.saturating_add(30) / 60;
    match (seconds, minutes) {
        (0..60, _) => short(nanos),
        (60..3_600, _) => two((seconds / 60, "min"), (seconds % 60, "s")),
        (_, ..1_440) => two((minutes / 60, "h"), (minutes % 60, "min")),
        _ => counted(minutes / 1_440, "day"),
    }
}

/// Below a minute: one number of at least two digits, unless it is a whole one.
fn short(nanos: u64) -> String {
    let (unit, name) = UNITS.into_iter().find(|(unit, _)| nanos >= *unit).unwrap_or((1, "s"));
    // The place of the last digit that is shown.
    let step = if nanos >= 10 * unit { unit } else { (unit / 10).max(1) };
    let rounded = nanos.saturating_add(step / 2) / step * step;
    match (rounded / unit, rounded % unit * 10 / unit) {
        // The next unit is larger.
        (1_000.., _) => short(rounded),
        (whole, 0) => format!("{whole} {name}"),
        (whole, tenth) => format!("{whole}.{tenth} {name}"),
    }
}

/// A span and half of the distance within which others like it lie, in one unit: `2.53 s ± 0.04`.
pub(crate) fn spread(nanos: f64, half: f64) -> String {
    let (unit, name) = UNITS.into_iter().find(|&(unit, _)| nanos >= unit as f64).unwrap_or((1, "ns"));
    let [value, half] = [nanos, half].map(|nanos| nanos / unit as f64);
    let decimals = decimals(value);
    format!("{value:.decimals$} {name} ± {half:.decimals$}")
}

/// The digits behind the point with which a number has three.
pub(crate) fn decimals(value: f64) -> usize {
    match value {
        ..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    }
}

fn two((large, large_name): (u64, &str), (small, small_name): (u64, &str)) -> String {
    match small {
        0 => format!("{large} {large_name}"),
        _ => format!("{large} {large_name} {small} {small_name}"),
    }
}

/// Milliseconds since the beginning of 1970.
pub(crate) fn now() -> u64 {
    unix_ms(SystemTime::now())
}

/// That time in milliseconds since the beginning of 1970.
pub(crate) fn unix_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Nanoseconds of CLOCK_MONOTONIC.
pub(crate) fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let [seconds, nanos] = [now.tv_sec, now.tv_nsec].map(|part| u64::try_from(part).unwrap_or_default());
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

/// How long ago a moment was: `just now`, `5 min ago`, `2 h ago`, `3 days ago`, `2 months ago`. A moment that is still
/// to come, as a clock that was set back gives one, was just now.
pub(crate) fn age(unix_ms: u64, now_ms: u64) -> String {
    let minutes = now_ms.saturating_sub(unix_ms) / 60_000;
    let (hours, days) = (minutes / 60, minutes / 1_440);
    let past = match (minutes, hours, days) {
        (0, ..) => return "just now".to_owned(),
        (1..60, ..) => format!("{minutes} min"),
        (_, 1..24, _) => format!("{hours} h"),
        (.., 1..61) => counted(days, "day"),
        (.., 61..730) => counted(days / 30, "month"),
        _ => counted(days / 365, "year"),
    };
    format!("{past} ago")
}

/// A moment in the user's time zone, to the minute: `2026-11-21 05:10`. Later ones than the year 9999 are shown as its
/// last minute.
pub(crate) fn moment(unix_ms: u64) -> String {
    moment_in(unix_ms, TimeZone::system())
}

fn moment_in(unix_ms: u64, zone: TimeZone) -> String {
    timestamp(unix_ms).to_zoned_datetime(zone).strftime("%Y-%m-%d %H:%M").to_string()
}

fn timestamp(unix_ms: u64) -> Timestamp {
    let moment = i64::try_from(unix_ms).ok().and_then(|unix_ms| Timestamp::from_millisecond(unix_ms).ok());
    moment.unwrap_or(Timestamp::MAX)
}

/// A moment in the user's time zone as people speak of it: `today 20:15`, in the six days before `Mon 19:05`, else
/// [`moment`].
pub(crate) fn day(unix_ms: u64, now_ms: u64) -> String {
    day_in(unix_ms, now_ms, &TimeZone::system())
}

fn day_in(unix_ms: u64, now_ms: u64, zone: &TimeZone) -> String {
    let [then, now] = [unix_ms, now_ms].map(|unix_ms| timestamp(unix_ms).to_zoned_datetime(zone.clone()));
    let date = |days: i64| now.date().saturating_sub(jiff::Span::new().days(days));
    let format = match then.date() {
        that if that == date(0) => "today %H:%M",
        that if that < date(0) && that > date(7) => "%a %H:%M",
        _ => return moment_in(unix_ms, zone.clone()),
    };
    then.strftime(format).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_use_the_unit_that_people_would() {
        let shown = [
            (0, "0 s"),
            (1, "1 ns"),
            (300, "300 ns"),
            (999, "999 ns"),
            (1_500, "1.5 µs"),
            (9_960, "10 µs"),
            (850_000, "850 µs"),
            (999_700, "1 ms"),
            (3_449_999, "3.4 ms"),
            (12_400_000_000, "12 s"),
            (2_530_000_000, "2.5 s"),
            (59_499_999_999, "59 s"),
            (59_500_000_000, "1 min"),
            (200_000_000_000, "3 min 20 s"),
            (3_599_500_000_000, "1 h"),
            (7_500_000_000_000, "2 h 5 min"),
            (90_000_000_000_000, "1 day"),
            (u64::MAX, "213503 days"),
        ];
        for (nanos, expected) in shown {
            assert_eq!(span(nanos), expected, "{nanos}");
        }
    }

    #[test]
    fn spreads_have_one_unit_and_three_digits() {
        let shown = [
            (2.534e9, 0.041e9, "2.53 s ± 0.04"),
            (247.3e6, 3.6e6, "247 ms ± 4"),
            (32.66e3, 0.2e3, "32.7 µs ± 0.2"),
            (61e9, 2e9, "61.0 s ± 2.0"),
            (0.0, 0.0, "0.00 ns ± 0.00"),
        ];
        for (nanos, half, expected) in shown {
            assert_eq!(spread(nanos, half), expected);
        }
    }

    #[test]
    fn ages_use_the_unit_that_people_would() {
        const DAY: u64 = 86_400_000;
        let now = 1_795_234_199_000;
        let shown = [
            (0, "just now"),
            (59_999, "just now"),
            (60_000, "1 min ago"),
            (3_599_000, "59 min ago"),
            (7_300_000, "2 h ago"),
            (DAY, "1 day ago"),
            (60 * DAY, "60 days ago"),
            (61 * DAY, "2 months ago"),
            (729 * DAY, "24 months ago"),
            (730 * DAY, "2 years ago"),
        ];
        for (past, expected) in shown {
            assert_eq!(age(now - past, now), expected);
        }
        assert_eq!(age(now + DAY, now), "just now");
        assert_eq!(age(0, u64::MAX), "584942417 years ago");
    }

    #[test]
    fn days_of_the_last_week_have_their_names() {
        const DAY: u64 = 86_400_000;
        // A Saturday, 04:09:59 in UTC.
        let now = 1_795_234_199_000;
        let shown = |unix_ms: u64| day_in(unix_ms, now, &TimeZone::UTC);
        assert_eq!(shown(now), "today 04:09");
        assert_eq!(shown(now - 4 * 3_600_000), "today 00:09");
        assert_eq!(shown(now - 5 * 3_600_000), "Fri 23:09");
        assert_eq!(shown(now - 6 * DAY), "Sun 04:09");
        assert_eq!(shown(now - 7 * DAY), "2026-11-14 04:09");
        // A clock that was set back.
        assert_eq!(shown(now + DAY), "2026-11-22 04:09");
        assert_eq!(
            (shown(0), shown(u64::MAX)),
            ("1970-01-01 00:00".to_owned(), "9999-12-30 22:00".to_owned())
        );
        assert!(!day_in(0, u64::MAX, &TimeZone::UTC).is_empty());
    }

    #[test]
    fn dates_survive_leap_days_centuries_zones_and_any_number() {
        let utc = |seconds: u64| moment_in(seconds * 1000, TimeZone::UTC);
        assert_eq!(utc(0), "1970-01-01 00:00");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00");
        assert_eq!(utc(4_102_444_799), "2099-12-31 23:59");
        assert_eq!(utc(u64::MAX / 1000), "9999-12-30 22:00", "the last moment that has a date in every zone");
        let east = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(moment_in(1_795_234_199_000, east), "2026-11-21 06:09");
    }
}
