//! Parsing of Go duration strings (`time.ParseDuration`).

use std::time::Duration;

/// Digits of the fraction that are evaluated; more than any unit has nanosecond digits.
const FRACTION_DIGITS: usize = 18;

/// Why a text is not a duration, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    #[error("time: invalid duration {}", quote(.0))]
    Invalid(String),
    #[error("time: missing unit in duration {}", quote(.0))]
    MissingUnit(String),
    #[error("time: unknown unit {} in duration {}", quote(unit), quote(text))]
    UnknownUnit { unit: String, text: String },
}

/// Parses `1h`, `1m30s`, `1.5s`, `500ms` or `0`. `None` for invalid or negative durations, and for those that exceed
/// Go's maximum.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let duration_ns = parse_nanoseconds(text).ok()?;
    Some(Duration::from_nanos(u64::try_from(duration_ns).ok()?))
}

/// Parses a duration, which may be negative, into nanoseconds.
pub fn parse_nanoseconds(text: &str) -> Result<i64, DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let (is_negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total_ns: u64 = 0;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(number_len(rest));
        if !number.contains(|c: char| c.is_ascii_digit()) {
            return Err(invalid());
        }
        let unit_len = after.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, after) = after.split_at(unit_len.unwrap_or(after.len()));
        if unit.is_empty() {
            return Err(DurationError::MissingUnit(text.to_owned()));
        }
        let unit_ns = unit_ns(unit).ok_or_else(|| DurationError::UnknownUnit {
            unit: unit.to_owned(),
            text: text.to_owned(),
        })?;
        let part_ns = nanoseconds(number, unit_ns).ok_or_else(invalid)?;
        total_ns = total_ns.checked_add(part_ns).ok_or_else(invalid)?;
        rest = after;
    }
    let total_ns = i128::from(total_ns) * if is_negative { -1 } else { 1 };
    i64::try_from(total_ns).map_err(|_| invalid())
}

/// Length of the digits, with a decimal point, at the start of a text.
fn number_len(text: &str) -> usize {
    let digits_len = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_digit());
        end.unwrap_or(text.len())
    };
    let whole_len = digits_len(text);
    match text[whole_len..].strip_prefix('.') {
        Some(fraction) => whole_len + 1 + digits_len(fraction),
        None => whole_len,
    }
}

/// A text as Go's package `time` quotes it: the bytes of control and non-ASCII characters are escaped.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            ' '..='\u{7f}' => quoted.push(c),
            _ => {
                let mut buffer = [0; 4];
                for byte in c.encode_utf8(&mut buffer).bytes() {
                    quoted.push_str(&format!("\\x{byte:02x}"));
                }
            }
        }
    }
    quoted.push('"');
    quoted
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
            ("9223372036854775807ns", Some(i64::MAX.unsigned_abs())),
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

    #[test]
    fn errors_are_those_of_go() {
        for (text, expected) in [
            ("", "time: invalid duration \"\""),
            ("-", "time: invalid duration \"-\""),
            ("soon", "time: invalid duration \"soon\""),
            (".s", "time: invalid duration \".s\""),
            ("60", "time: missing unit in duration \"60\""),
            ("1.2.3s", "time: missing unit in duration \"1.2.3s\""),
            ("1d", "time: unknown unit \"d\" in duration \"1d\""),
            ("1 s", "time: unknown unit \" s\" in duration \"1 s\""),
            (
                "1\"\n\u{e4}",
                "time: unknown unit \"\\\"\\x0a\\xc3\\xa4\" in duration \"1\\\"\\x0a\\xc3\\xa4\"",
            ),
            ("2562048h", "time: invalid duration \"2562048h\""),
        ] {
            let error = parse_nanoseconds(text).expect_err(text);
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn durations_may_be_negative() {
        assert_eq!(parse_nanoseconds("-1.5us"), Ok(-1500));
        assert_eq!(parse_nanoseconds("-0"), Ok(0));
        assert_eq!(parse_nanoseconds("-9223372036854775808ns"), Ok(i64::MIN));
        assert!(parse_nanoseconds("-9223372036854775809ns").is_err());
    }
}
