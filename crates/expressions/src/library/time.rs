//! Accessors, parsing and formatting of timestamps and durations.

use super::time_zones::utc_offset;
use super::{FunctionTable, fail, no_overload};
use crate::error::EvaluationResult;
use crate::value::Value;

pub(super) const FUNCTIONS: FunctionTable = &[
    ("getFullYear", |_, args| {
        timestamp_field(args, |time| time.year)
    }),
    ("getMonth", |_, args| {
        timestamp_field(args, |time| time.month - 1)
    }),
    ("getDayOfYear", |_, args| {
        timestamp_field(args, |time| time.day_of_year)
    }),
    ("getDayOfMonth", |_, args| {
        timestamp_field(args, |time| time.day - 1)
    }),
    ("getDate", |_, args| timestamp_field(args, |time| time.day)),
    ("getDayOfWeek", |_, args| {
        timestamp_field(args, |time| time.day_of_week)
    }),
    ("getHours", |_, args| {
        timestamp_or_duration_field(args, 3600 * NANOS_PER_SECOND, |time| {
            time.second_of_day / 3600
        })
    }),
    ("getMinutes", |_, args| {
        timestamp_or_duration_field(args, 60 * NANOS_PER_SECOND, |time| {
            time.second_of_day / 60 % 60
        })
    }),
    ("getSeconds", |_, args| {
        timestamp_or_duration_field(args, NANOS_PER_SECOND, |time| time.second_of_day % 60)
    }),
    ("getMilliseconds", |_, args| match args {
        [Value::Duration(nanos)] => Ok(Value::Int(nanos / 1_000_000)),
        _ => timestamp_field(args, |time| time.nanos / 1_000_000),
    }),
];

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
/// The first second of the year 1 and the last of the year 9999.
const TIMESTAMP_SECONDS_MIN: i64 = -62_135_596_800;
const TIMESTAMP_SECONDS_MAX: i64 = 253_402_300_799;

/// A timestamp as calendar date and time of day.
struct CivilDateTime {
    year: i64,
    month: i64,
    day: i64,
    day_of_year: i64,
    day_of_week: i64,
    second_of_day: i64,
    nanos: i64,
}

fn timestamp_field(args: &[Value], get: fn(&CivilDateTime) -> i64) -> EvaluationResult<Value> {
    let (seconds, nanos, offset) = match args {
        [Value::Timestamp(seconds, nanos)] => (*seconds, *nanos, 0),
        [Value::Timestamp(seconds, nanos), Value::String(zone)] => {
            (*seconds, *nanos, utc_offset(zone, *seconds)?)
        }
        _ => return no_overload(),
    };
    Ok(Value::Int(get(&civil_date_time(seconds + offset, nanos))))
}

/// A field of a timestamp, or a duration in this unit.
fn timestamp_or_duration_field(
    args: &[Value],
    unit: i64,
    get: fn(&CivilDateTime) -> i64,
) -> EvaluationResult<Value> {
    match args {
        [Value::Duration(nanos)] => Ok(Value::Int(nanos / unit)),
        _ => timestamp_field(args, get),
    }
}

fn civil_date_time(seconds: i64, nanos: u32) -> CivilDateTime {
    let days = seconds.div_euclid(SECONDS_PER_DAY);
    let (year, month, day) = civil_from_days(days);
    CivilDateTime {
        year,
        month,
        day,
        day_of_year: days - days_from_civil(year, 1, 1),
        // 1970-01-01 was a Thursday.
        day_of_week: (days + 4).rem_euclid(7),
        second_of_day: seconds.rem_euclid(SECONDS_PER_DAY),
        nanos: i64::from(nanos),
    }
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the leap day is the last day.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

pub(crate) fn is_in_range(seconds: i64) -> bool {
    (TIMESTAMP_SECONDS_MIN..=TIMESTAMP_SECONDS_MAX).contains(&seconds)
}

pub(super) fn nanos_since_epoch(seconds: i64, nanos: u32) -> i128 {
    i128::from(seconds) * i128::from(NANOS_PER_SECOND) + i128::from(nanos)
}

pub(super) fn add_nanos(seconds: i64, nanos: u32, by: i128) -> EvaluationResult<Value> {
    let sum = nanos_since_epoch(seconds, nanos) + by;
    let nanos_per_second = i128::from(NANOS_PER_SECOND);
    let seconds = i64::try_from(sum.div_euclid(nanos_per_second));
    let nanos = u32::try_from(sum.rem_euclid(nanos_per_second));
    match (seconds, nanos) {
        (Ok(seconds), Ok(nanos)) if is_in_range(seconds) => Ok(Value::Timestamp(seconds, nanos)),
        _ => fail("timestamp overflow"),
    }
}

/// Parses RFC 3339.
pub(crate) fn parse_timestamp(text: &str) -> Option<(i64, u32)> {
    let time: rhumb_meta::Timestamp = text.parse().ok()?;
    let seconds = time.unix_seconds();
    is_in_range(seconds).then_some((seconds, time.subsec_nanos()))
}

pub(crate) fn format_timestamp(seconds: i64, nanos: u32) -> String {
    let time = civil_date_time(seconds, nanos);
    let (hour, minute, second) = (
        time.second_of_day / 3600,
        time.second_of_day / 60 % 60,
        time.second_of_day % 60,
    );
    let fraction = match nanos {
        0 => String::new(),
        _ => format!(".{nanos:09}").trim_end_matches('0').to_owned(),
    };
    let (year, month, day) = (time.year, time.month, time.day);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// The format of `string(duration)`: seconds.
pub(crate) fn format_duration(nanos: i64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "upstream converts to a float")]
    let seconds = (nanos / NANOS_PER_SECOND) as f64 + (nanos % NANOS_PER_SECOND) as f64 / 1e9;
    format!("{seconds}s")
}

/// Parses a Go duration: `1h2m3.5s`.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let whole = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (whole_digits, after) = rest.split_at(whole);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => after.split_at(after.bytes().take_while(u8::is_ascii_digit).count()),
            None => ("", after),
        };
        if whole_digits.is_empty() && fraction.is_empty() {
            return None;
        }
        let length = after
            .bytes()
            .take_while(|b| *b != b'.' && !b.is_ascii_digit())
            .count();
        let (unit, after) = after.split_at(length);
        let unit = unit_nanos(unit)?;
        let whole: i128 = match whole_digits {
            "" => 0,
            digits => digits.parse().ok()?,
        };
        total = total.checked_add(whole.checked_mul(unit)?)?;
        total = total.checked_add(fraction_nanos(fraction, unit)?)?;
        rest = after;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

fn fraction_nanos(digits: &str, unit: i128) -> Option<i128> {
    // Further digits are below the resolution.
    let digits = digits.get(..digits.len().min(18))?;
    if digits.is_empty() {
        return Some(0);
    }
    let number: i128 = digits.parse().ok()?;
    let scale = 10_i128.checked_pow(u32::try_from(digits.len()).ok()?)?;
    Some(number.checked_mul(unit)? / scale)
}

fn unit_nanos(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60 * 1_000_000_000,
        "h" => 3600 * 1_000_000_000,
        _ => return None,
    })
}
