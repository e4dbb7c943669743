//! Timestamps, and their formatting as `metav1.Time` and `metav1.MicroTime`.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const NANOS_PER_SECOND: u32 = 1_000_000_000;
pub(super) const SECONDS_PER_DAY: i64 = 86_400;

/// A point in time in UTC, with nanosecond precision.
///
/// The default is the Unix epoch. API objects contain it as `metav1.Time` ([`Timestamp::rfc3339`]) or as
/// `metav1.MicroTime` ([`Timestamp::rfc3339_micro`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    seconds: i64,
    nanos: u32,
}

impl Timestamp {
    /// From seconds since the Unix epoch and additional nanoseconds; a whole second of nanoseconds is carried over.
    pub const fn from_unix(seconds: i64, nanos: u32) -> Self {
        let carry = (nanos / NANOS_PER_SECOND) as i64;
        Timestamp {
            seconds: seconds.saturating_add(carry),
            nanos: nanos % NANOS_PER_SECOND,
        }
    }

    /// Whole seconds since the Unix epoch, rounded down.
    pub const fn unix_seconds(self) -> i64 {
        self.seconds
    }

    /// Nanoseconds after [`Timestamp::unix_seconds`].
    pub const fn subsec_nanos(self) -> u32 {
        self.nanos
    }

    pub const fn saturating_add(self, by: Duration) -> Self {
        let seconds = self.seconds.saturating_add_unsigned(by.as_secs());
        Self::from_unix(seconds, self.nanos + by.subsec_nanos())
    }

    pub const fn saturating_sub(self, by: Duration) -> Self {
        let seconds = self.seconds.saturating_sub_unsigned(by.as_secs());
        match self.nanos.checked_sub(by.subsec_nanos()) {
            Some(nanos) => Timestamp { seconds, nanos },
            None => Timestamp {
                seconds: seconds.saturating_sub(1),
                nanos: self.nanos + NANOS_PER_SECOND - by.subsec_nanos(),
            },
        }
    }

    /// The time since `earlier`; zero if `earlier` is later than this.
    pub fn saturating_duration_since(self, earlier: Timestamp) -> Duration {
        if self <= earlier {
            return Duration::ZERO;
        }
        let borrow = u32::from(self.nanos < earlier.nanos);
        let seconds = self.seconds.abs_diff(earlier.seconds) - u64::from(borrow);
        Duration::new(
            seconds,
            self.nanos + borrow * NANOS_PER_SECOND - earlier.nanos,
        )
    }

    /// The format of `metav1.Time`: whole seconds, `2006-01-02T15:04:05Z`.
    pub const fn rfc3339(self) -> Rfc3339Display {
        Rfc3339Display {
            at: self,
            micros: false,
        }
    }

    /// The format of `metav1.MicroTime`: always six digits, `2006-01-02T15:04:05.000000Z`.
    pub const fn rfc3339_micro(self) -> Rfc3339Display {
        Rfc3339Display {
            at: self,
            micros: true,
        }
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(since) => Timestamp::default().saturating_add(since),
            Err(before) => Timestamp::default().saturating_sub(before.duration()),
        }
    }
}

/// Displays a timestamp in RFC 3339 format.
#[derive(Debug, Clone, Copy)]
pub struct Rfc3339Display {
    at: Timestamp,
    micros: bool,
}

impl fmt::Display for Rfc3339Display {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date_of(self.at.seconds.div_euclid(SECONDS_PER_DAY));
        let second = self.at.seconds.rem_euclid(SECONDS_PER_DAY);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        if !(0..=9999).contains(&year) {
            let sign = if year < 0 { "-" } else { "" };
            let year = year.unsigned_abs();
            write!(
                f,
                "{sign}{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"
            )?;
            if self.micros {
                write!(f, ".{:06}", self.at.nanos / 1000)?;
            }
            return f.write_str("Z");
        }
        // Fast path: every write formats a timestamp, and this takes a tenth of the time of `write!`.
        let mut text = *b"0000-00-00T00:00:00.000000Z";
        put(&mut text[..4], year);
        put(&mut text[5..7], month);
        put(&mut text[8..10], day);
        put(&mut text[11..13], hour);
        put(&mut text[14..16], minute);
        put(&mut text[17..19], second);
        let text = if self.micros {
            put(&mut text[20..26], (self.at.nanos / 1000).into());
            &text[..]
        } else {
            text[19] = b'Z';
            &text[..20]
        };
        f.write_str(str::from_utf8(text).map_err(|_| fmt::Error)?)
    }
}

/// Writes the last `digits.len()` decimal digits of a number.
fn put(digits: &mut [u8], mut number: i64) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

const DAYS_PER_ERA: i64 = 146_097;
/// Days from 0000-03-01, where an era starts, to 1970-01-01.
const EPOCH_DAY: i64 = 719_468;

/// Year, month and day of a day number relative to 1970-01-01.
///
/// The calendar repeats every 400 years (an era). With years that start in March the leap day is the last day, so that
/// month and year can be computed by divisions.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH_DAY;
    let era = days.div_euclid(DAYS_PER_ERA);
    let of_era = days.rem_euclid(DAYS_PER_ERA);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// The inverse of [`civil_date`].
pub(super) fn days_until(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    era * DAYS_PER_ERA + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year
        - EPOCH_DAY
}

pub(super) fn days_in(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn timestamps_are_formatted_as_in_the_api() {
        let table = [
            (0, 0, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z"),
            (
                -1,
                999_999_999,
                "1969-12-31T23:59:59Z",
                "1969-12-31T23:59:59.999999Z",
            ),
            (
                1_136_214_245,
                1_500,
                "2006-01-02T15:04:05Z",
                "2006-01-02T15:04:05.000001Z",
            ),
            (
                951_782_400,
                0,
                "2000-02-29T00:00:00Z",
                "2000-02-29T00:00:00.000000Z",
            ),
            (
                4_107_542_399,
                0,
                "2100-02-28T23:59:59Z",
                "2100-02-28T23:59:59.000000Z",
            ),
            (
                4_107_542_400,
                0,
                "2100-03-01T00:00:00Z",
                "2100-03-01T00:00:00.000000Z",
            ),
            (
                253_402_300_799,
                0,
                "9999-12-31T23:59:59Z",
                "9999-12-31T23:59:59.000000Z",
            ),
            (
                253_402_300_800,
                0,
                "10000-01-01T00:00:00Z",
                "10000-01-01T00:00:00.000000Z",
            ),
            (
                -62_135_596_800,
                0,
                "0001-01-01T00:00:00Z",
                "0001-01-01T00:00:00.000000Z",
            ),
            (
                -62_167_219_201,
                0,
                "-0001-12-31T23:59:59Z",
                "-0001-12-31T23:59:59.000000Z",
            ),
        ];
        for (seconds, nanos, time, micro_time) in table {
            let at = Timestamp::from_unix(seconds, nanos);
            assert_eq!(at.rfc3339().to_string(), time);
            assert_eq!(at.rfc3339_micro().to_string(), micro_time);
        }
    }

    proptest! {
        #![proptest_config(crate::testing::config())]

        #[test]
        fn addition_and_subtraction_are_inverse(
            seconds in -1_000_000_i64..1_000_000, nanos in 0_u32..NANOS_PER_SECOND,
            by in (0_u64..1_000_000, 0_u32..NANOS_PER_SECOND).prop_map(|(s, n)| Duration::new(s, n)),
        ) {
            let at = Timestamp::from_unix(seconds, nanos);
            prop_assert_eq!(at.saturating_add(by).saturating_sub(by), at);
            prop_assert_eq!(at.saturating_add(by).saturating_duration_since(at), by);
            prop_assert_eq!(at.saturating_duration_since(at.saturating_add(by)), Duration::ZERO);
        }
    }
}
