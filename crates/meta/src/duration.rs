//! Parsing of Go duration strings (`time.ParseDuration`).

use std::time::Duration;

/// The maximum of Go's `time.Duration`.
const NANOSECONDS_MAX: u64 = i64::MAX.unsigned_abs();

/// Digits of the fraction that are evaluated; more than any unit has nanosecond digits.
const FRACTION_DIGITS: usize = 18;

/// Parses `1h`, `1m30s`, `1.5s`, `500ms` or `0`. `None` for invalid or negative durations, and for those that exceed
/// Go's maximum.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total_ns: u64 = 0;
    while !rest.is_empty() {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let (number, after) = rest.split_at(rest.find(|c| !is_number(c))?);
        let (unit, after) = after.split_at(after.find(is_number).unwrap_or(after.len()));
        let part_ns = nanoseconds(number, unit_ns(unit)?)?;
        total_ns = total_ns.checked_add(part_ns)?;
        rest = after;
    }
    (total_ns <= NANOSECONDS_MAX).then(|| Duration::from_nanos(total_ns))
}

fn unit_ns(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // U+00B5 is the micro sign, U+03BC the Greek letter mu.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// Requires a digit on at least one side of the point. Fractions of a nanosecond are truncated.
fn nanoseconds(number: &str, unit_ns: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: u64 = match whole {
        "" => 0,
        whole => whole.parse().ok()?,
    };
    let (mut part, mut parts): (u128, u128) = (0, 1);
    for (place, digit) in fraction.chars().enumerate() {
        let digit = digit.to_digit(10)?;
        if place < FRACTION_DIGITS {
            part = part * 10 + u128::from(digit);
            parts *= 10;
        }
    }
    let part_ns = u64::try_from(part * u128::from(unit_ns) / parts).ok()?;
    whole.checked_mul(unit_ns)?.checked_add(part_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_as_in_go() {
        const MS: u64 = 1_000_000;
        for (text, want_ns) in [
            ("60s", Some(60_000 * MS)),
            ("1m0s", Some(60_000 * MS)),
            ("1m30s", Some(90_000 * MS)),
            ("1h30m", Some(5_400_000 * MS)),
            ("500ms", Some(500 * MS)),
            ("+250ms", Some(250 * MS)),
            ("1.5s", Some(1500 * MS)),
            ("1.5h0.25m", Some(5_415_000 * MS)),
            (".5s", Some(500 * MS)),
            ("5.s", Some(5000 * MS)),
            ("0.3333333333333333333h", Some(1_199_999_999_999)),
            ("7ns", Some(7)),
            ("0.5ns", Some(0)),
            ("2us", Some(2000)),
            ("2\u{b5}s", Some(2000)),
            ("2\u{3bc}s", Some(2000)),
            ("0", Some(0)),
            ("+0", Some(0)),
            ("0s", Some(0)),
            ("9223372036854775807ns", Some(NANOSECONDS_MAX)),
            ("9223372036854775808ns", None),
            ("2562048h", None),
            ("99999999999999999999h", None),
            ("", None),
            ("+", None),
            (".", None),
            (".s", None),
            ("s", None),
            ("60", None),
            ("1.2.3s", None),
            ("1 s", None),
            ("-1s", None),
            ("1d", None),
            ("1S", None),
        ] {
            let want = want_ns.map(Duration::from_nanos);
            assert_eq!(parse_duration(text), want, "{text:?}");
        }
    }
}
