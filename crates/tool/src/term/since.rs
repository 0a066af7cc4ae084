//! Moments as users write them: an age, or a date.

use std::time::Duration;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use super::time;

/// What is neither an age nor a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("takes an age (7d, 12h, 6months) or a date (2026-11-01, \"2026-11-01 18:30\")")]
pub(crate) struct SinceError;

/// Milliseconds since the beginning of 1970. Dates are those of the user's time zone.
pub(crate) fn unix_ms(text: &str) -> Result<u64, SinceError> {
    unix_ms_in(text, time::now(), TimeZone::system())
}

fn unix_ms_in(text: &str, now_ms: u64, zone: TimeZone) -> Result<u64, SinceError> {
    if let Ok(age) = humantime::parse_duration(text) {
        return Ok(now_ms.saturating_sub(milliseconds(age)));
    }
    let date = text.parse::<Date>().map(|date| date.to_datetime(jiff::civil::Time::midnight()));
    // A date with a time would be taken for a date, too.
    let moment = text.parse::<DateTime>().or(date).map_err(|_| SinceError)?;
    let moment = zone.to_timestamp(moment).map_err(|_| SinceError)?;
    Ok(u64::try_from(moment.as_millisecond()).unwrap_or(0))
}

fn milliseconds(age: Duration) -> u64 {
    u64::try_from(age.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_dates_are_moments() {
        let now = 1_795_234_199_000;
        let utc = |text| unix_ms_in(text, now, TimeZone::UTC);
        assert_eq!(utc("7d"), Ok(now - 7 * 86_400_000));
        assert_eq!(utc("1h 30min"), Ok(now - 5_400_000));
        assert_eq!(utc("100000y"), Ok(0));
        assert_eq!(utc("2026-11-21"), Ok(1_795_219_200_000));
        assert_eq!(utc("2026-11-21 04:09"), Ok(1_795_234_140_000));
        assert_eq!(utc("1950-01-01"), Ok(0));
        let east = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(unix_ms_in("2026-11-21", now, east), Ok(1_795_212_000_000));
        for wrong in ["", "yesterday", "7", "2026-13-01", "-7d", "2026-11-21 25:00"] {
            assert_eq!(utc(wrong), Err(SinceError), "{wrong}");
        }
    }
}
