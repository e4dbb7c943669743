//! Parsing of timestamps, compatible with upstream.
//!
//! Upstream uses Go's `time.Parse`, which is more lenient than RFC 3339: the hour may have one digit, the fraction may
//! follow a comma, an offset may be 24 hours and 60 minutes. All of this is accepted here too, because clients may rely
//! on it. The only exception: Go also accepts a sign as the first of six digits (`.+12345`).

use std::str::FromStr;

use super::Timestamp;
use super::timestamp::{SECONDS_PER_DAY, days_in, days_until};

/// The number of fraction digits of `metav1.MicroTime`.
const MICRO_DIGITS: usize = 6;

/// Why a string is not a timestamp.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a timestamp: want RFC 3339, such as {example}")]
pub struct ParseTimestampError {
    text: String,
    example: &'static str,
}

impl FromStr for Timestamp {
    type Err = ParseTimestampError;

    /// Parses `metav1.Time`: RFC 3339 with any fraction of a second; digits after the ninth are dropped.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text, any_fraction).ok_or_else(|| ParseTimestampError {
            text: text.to_owned(),
            example: "2006-01-02T15:04:05Z",
        })
    }
}

impl Timestamp {
    /// Parses `metav1.MicroTime`: as [`Timestamp::from_str`], but with a fraction of exactly six digits.
    pub fn from_rfc3339_micro(text: &str) -> Result<Self, ParseTimestampError> {
        parse(text, six_digits).ok_or_else(|| ParseTimestampError {
            text: text.to_owned(),
            example: "2006-01-02T15:04:05.000000Z",
        })
    }
}

/// Consumes a fraction at the start of the text, and returns its nanoseconds.
type FractionParser = fn(&mut &[u8]) -> Option<u32>;

fn parse(text: &str, read_fraction: FractionParser) -> Option<Timestamp> {
    let mut rest = text.as_bytes();
    let year = number(&mut rest, 4)?;
    let month = after(&mut rest, b'-').and_then(|()| number(&mut rest, 2))?;
    let day = after(&mut rest, b'-').and_then(|()| number(&mut rest, 2))?;
    let hour = after(&mut rest, b'T').and_then(|()| hour(&mut rest))?;
    let minute = after(&mut rest, b':').and_then(|()| number(&mut rest, 2))?;
    let second = after(&mut rest, b':').and_then(|()| number(&mut rest, 2))?;
    if !(1..=12).contains(&month) || !(1..=days_in(year, month)).contains(&day) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let nanos = read_fraction(&mut rest)?;
    let offset_seconds = offset(rest)?;
    let of_day = hour * 3600 + minute * 60 + second;
    Some(Timestamp::from_unix(
        days_until(year, month, day) * SECONDS_PER_DAY + of_day - offset_seconds,
        nanos,
    ))
}

fn after(rest: &mut &[u8], expected: u8) -> Option<()> {
    let (&first, tail) = rest.split_first()?;
    *rest = tail;
    (first == expected).then_some(())
}

fn number(rest: &mut &[u8], digits: usize) -> Option<i64> {
    let (head, tail) = rest.split_at_checked(digits)?;
    *rest = tail;
    head.iter().try_fold(0, |sum, byte| {
        byte.is_ascii_digit()
            .then(|| sum * 10 + i64::from(byte - b'0'))
    })
}

fn hour(rest: &mut &[u8]) -> Option<i64> {
    let digits = if rest.get(1) == Some(&b':') { 1 } else { 2 };
    number(rest, digits)
}

/// Consumes a point or comma and the digits after it; returns the digits.
fn fraction<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let [b'.' | b',', tail @ ..] = *rest else {
        return None;
    };
    let digits = tail.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, tail) = tail.split_at(digits);
    *rest = tail;
    Some(digits)
}

fn any_fraction(rest: &mut &[u8]) -> Option<u32> {
    match fraction(rest) {
        None => Some(0),
        Some([]) => None,
        Some(digits) => Some(nanos(digits)),
    }
}

fn six_digits(rest: &mut &[u8]) -> Option<u32> {
    let digits = fraction(rest)?;
    (digits.len() == MICRO_DIGITS).then(|| nanos(digits))
}

fn nanos(digits: &[u8]) -> u32 {
    let padded = digits.iter().copied().chain(std::iter::repeat(b'0'));
    padded
        .take(9)
        .fold(0, |sum, byte| sum * 10 + u32::from(byte - b'0'))
}

/// The UTC offset in seconds: `Z` or `±hh:mm`.
fn offset(rest: &[u8]) -> Option<i64> {
    let (sign, mut rest) = match rest {
        b"Z" => return Some(0),
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    };
    let hours = number(&mut rest, 2)?;
    let minutes = after(&mut rest, b':').and_then(|()| number(&mut rest, 2))?;
    (rest.is_empty() && hours <= 24 && minutes <= 60)
        .then_some(sign * (hours * 3600 + minutes * 60))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2006-01-02T15:04:05Z.
    const LAYOUT: i64 = 1_136_214_245;

    #[test]
    fn times_are_parsed_as_upstream() {
        let table = [
            ("2006-01-02T15:04:05Z", Some((LAYOUT, 0))),
            ("2006-01-02T16:34:05+01:30", Some((LAYOUT, 0))),
            ("2006-01-02T15:04:05.25-00:00", Some((LAYOUT, 250_000_000))),
            (
                "2006-01-02T15:04:05.1234567891Z",
                Some((LAYOUT, 123_456_789)),
            ),
            ("2006-01-02T15:04:05,5Z", Some((LAYOUT, 500_000_000))),
            ("2006-01-02T5:04:05Z", Some((LAYOUT - 36_000, 0))),
            ("2006-01-02T15:04:05+24:00", Some((LAYOUT - 86_400, 0))),
            ("2006-01-02T15:04:05-24:60", Some((LAYOUT + 90_000, 0))),
            ("2006-01-02T15:04:05+25:00", None),
            ("2006-01-02T15:04:05+23:61", None),
            ("2006-02-29T00:00:00Z", None),
            ("2006-13-01T00:00:00Z", None),
            ("2006-00-01T00:00:00Z", None),
            ("2006-01-00T00:00:00Z", None),
            ("2006-01-02T24:00:00Z", None),
            ("2006-01-02T15:60:00Z", None),
            ("2006-01-02T15:04:60Z", None),
            ("2006-01-02T15:04:05", None),
            ("2006-01-02T15:04:05.Z", None),
            ("2006-01-02T15:04:05Z ", None),
            ("2006-01-02 15:04:05Z", None),
            ("2006-01-02t15:04:05z", None),
            ("2006-01-02T15:04:05+0100", None),
            ("2006-01-02T15:4:05Z", None),
            ("+006-01-02T15:04:05Z", None),
            ("2006-01-02T:04:05Z", None),
            ("", None),
        ];
        for (text, want) in table {
            let want = want.map(|(seconds, nanos)| Timestamp::from_unix(seconds, nanos));
            assert_eq!(text.parse::<Timestamp>().ok(), want, "{text:?}");
        }
    }

    #[test]
    fn micro_times_have_six_digits() {
        let at = Timestamp::from_unix(LAYOUT, 120_000_000);
        for good in [
            "2006-01-02T15:04:05.120000Z",
            "2006-01-02T15:04:05,120000Z",
            "2006-01-02T16:04:05.120000+01:00",
        ] {
            assert_eq!(Timestamp::from_rfc3339_micro(good), Ok(at), "{good:?}");
        }
        for bad in [
            "2006-01-02T15:04:05Z",
            "2006-01-02T15:04:05.12000Z",
            "2006-01-02T15:04:05.1200000Z",
            "2006-01-02T15:04:05.+12000Z",
        ] {
            let error = Timestamp::from_rfc3339_micro(bad).expect_err(bad);
            assert!(error.to_string().contains("05.000000Z"), "{error}");
        }
    }

    proptest! {
        #![proptest_config(crate::testing::config())]

        #[test]
        fn a_timestamp_round_trips(seconds in -62_135_596_800_i64..=253_402_300_799, micros in 0_u32..1_000_000) {
            let at = Timestamp::from_unix(seconds, micros * 1000);
            let micro = at.rfc3339_micro().to_string();
            prop_assert_eq!(micro.parse(), Ok(at));
            prop_assert_eq!(Timestamp::from_rfc3339_micro(&micro), Ok(at));
            prop_assert_eq!(at.rfc3339().to_string().parse(), Ok(Timestamp::from_unix(seconds, 0)));
        }

        #[test]
        fn parsing_a_timestamp_never_panics(text in ".{0,40}|[0-9TZ:.+-]{0,40}") {
            let _ = text.parse::<Timestamp>();
            let _ = Timestamp::from_rfc3339_micro(&text);
        }
    }
}
