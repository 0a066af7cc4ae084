//! Numbers and texts as people read them.

use std::fmt::{self, Display, Write as _};

/// A text from outside (a program's or a device's name, a file name) without anything that could move a
/// terminal's cursor or change its colours.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// A span of time: `850 us`, `3.4 ms`, `12.4 s`, `3 min 20 s`, `2 h 5 min`.
pub(crate) struct Span {
    pub(crate) nanos: u64,
}

impl Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.nanos / 1_000_000_000;
        match self.nanos {
            0 => f.write_str("0 s"),
            1..1_000_000 => write!(f, "{} us", self.nanos.div_ceil(1000)),
            1_000_000..1_000_000_000 => write!(f, "{:.1} ms", self.nanos as f64 / 1e6),
            1_000_000_000..100_000_000_000 => write!(f, "{:.1} s", self.nanos as f64 / 1e9),
            _ if seconds < 3600 => write!(f, "{} min {} s", seconds / 60, seconds % 60),
            _ => write!(f, "{} h {} min", seconds / 3600, seconds / 60 % 60),
        }
    }
}

/// What serving has saved. An upper bound: what the driver's own disk cache would have spared of the compiles is not known.
pub(crate) fn saved(nanos: u64) -> String {
    match nanos {
        0 => "nothing saved".to_owned(),
        nanos => format!("up to {} saved", Span { nanos }),
    }
}

/// A size: `512 bytes`, `14.2 MiB`.
pub(crate) struct Size {
    pub(crate) bytes: u64,
}

impl Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bytes < 1024 {
            return write!(f, "{} bytes", self.bytes);
        }
        let mut value = self.bytes as f64;
        let mut unit = "bytes";
        for larger in ["KiB", "MiB", "GiB", "TiB"] {
            if value < 1024.0 {
                break;
            }
            value /= 1024.0;
            unit = larger;
        }
        write!(f, "{value:.1} {unit}")
    }
}

/// A moment, in UTC, to the minute: `2026-11-21 04:10`.
pub(crate) struct Moment {
    pub(crate) unix_ms: u64,
}

impl Moment {
    /// Year, month and day of the Gregorian calendar. Counted in years that begin in March, so that the
    /// leap day is the last of its year.
    fn date(&self) -> (u64, u64, u64) {
        let days = self.unix_ms / 86_400_000 + 719_468;
        let era = days / 146_097;
        let day_of_era = days % 146_097;
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        (era * 400 + year_of_era + u64::from(month <= 2), month, day)
    }
}

impl Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.date();
        let minutes = self.unix_ms / 60_000;
        write!(f, "{year:04}-{month:02}-{day:02} {:02}:{:02}", minutes / 60 % 24, minutes % 60)
    }
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
        let span = |nanos| Span { nanos }.to_string();
        assert_eq!(span(0), "0 s");
        assert_eq!(span(300), "1 us");
        assert_eq!(span(3_400_000), "3.4 ms");
        assert_eq!(span(12_400_000_000), "12.4 s");
        assert_eq!(span(200_000_000_000), "3 min 20 s");
        assert_eq!(span(7_500_000_000_000), "2 h 5 min");
    }

    #[test]
    fn sizes_use_the_unit_that_people_would() {
        assert_eq!(Size { bytes: 1023 }.to_string(), "1023 bytes");
        assert_eq!(Size { bytes: 14_889_779 }.to_string(), "14.2 MiB");
        assert_eq!(Size { bytes: u64::MAX }.to_string(), "16777216.0 TiB");
    }

    #[test]
    fn dates_survive_leap_days_and_centuries() {
        let moment = |seconds: u64| Moment { unix_ms: seconds * 1000 }.to_string();
        assert_eq!(moment(0), "1970-01-01 00:00");
        assert_eq!(moment(951_782_400), "2000-02-29 00:00");
        assert_eq!(moment(951_868_800), "2000-03-01 00:00");
        assert_eq!(moment(1_795_234_199), "2026-11-21 04:09");
        assert_eq!(moment(4_102_444_799), "2099-12-31 23:59");
    }

    #[test]
    fn an_escape_sequence_in_a_name_does_not_reach_the_terminal() {
        assert_eq!(plain("ga\u{1b}[2Jme\n"), "ga\u{fffd}[2Jme\u{fffd}");
    }
}
