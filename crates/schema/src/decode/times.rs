//! Times, and what Go says of texts that are none.

use rhumb_meta::{Timestamp, gotext};

const TIME: &str = "2006-01-02T15:04:05Z07:00";
const MICRO_TIME: &str = "2006-01-02T15:04:05.000000Z07:00";

/// A time as upstream writes it back: in UTC and whole seconds.
pub(crate) fn canonical_time(text: &str) -> Result<String, String> {
    if is_plainly_canonical_time(text) {
        return Ok(text.to_owned());
    }
    match text.parse::<Timestamp>() {
        Ok(time) => Ok(time.rfc3339().to_string()),
        Err(_) => Err(what_is_wrong(text, TIME)),
    }
}

/// Whether it can be seen at a glance that upstream writes a time back just so. That holds for all that it wrote itself
/// but the last days of months, which may be too many.
pub(crate) fn is_plainly_canonical_time(text: &str) -> bool {
    let &[
        a,
        b,
        c,
        d,
        b'-',
        e,
        f,
        b'-',
        g,
        h,
        b'T',
        i,
        j,
        b':',
        k,
        l,
        b':',
        m,
        n,
        b'Z',
    ] = text.as_bytes()
    else {
        return false;
    };
    let number = |tens: u8, ones: u8| match (tens, ones) {
        (b'0'..=b'9', b'0'..=b'9') => (tens - b'0') * 10 + (ones - b'0'),
        _ => u8::MAX,
    };
    // Years of the first millennium are nobody's, and get another look.
    (10..=99).contains(&number(a, b))
        && number(c, d) <= 99
        && (1..=12).contains(&number(e, f))
        && (1..=28).contains(&number(g, h))
        && number(i, j) < 24
        && number(k, l) < 60
        && number(m, n) < 60
}

/// The same in microseconds, six digits of which must be there.
pub(crate) fn canonical_micro_time(text: &str) -> Result<String, String> {
    match Timestamp::from_rfc3339_micro(text) {
        Ok(time) => Ok(time.rfc3339_micro().to_string()),
        Err(_) => Err(what_is_wrong(text, MICRO_TIME)),
    }
}

fn what_is_wrong(text: &str, layout: &str) -> String {
    let quoted = gotext::quote(text);
    match first_problem(text, layout) {
        Problem::Part { rest, part } => {
            let (layout, rest, part) = (
                gotext::quote(layout),
                gotext::quote(rest),
                gotext::quote(part),
            );
            format!("parsing time {quoted} as {layout}: cannot parse {rest} as {part}")
        }
        Problem::Range(what) => format!("parsing time {quoted}: {what} out of range"),
        Problem::Extra(extra) => {
            format!(
                "parsing time {quoted}: extra text: {}",
                gotext::quote(extra)
            )
        }
    }
}

enum Problem<'t> {
    /// A part of the layout is not what the rest of the text begins with.
    Part {
        rest: &'t str,
        part: &'static str,
    },
    Range(&'static str),
    Extra(&'t str),
}

/// The parts of a layout, and how many digits each has.
const PARTS: [(&str, usize); 11] = [
    ("2006", 4),
    ("-", 0),
    ("01", 2),
    ("-", 0),
    ("02", 2),
    ("T", 0),
    ("15", 2),
    (":", 0),
    ("04", 2),
    (":", 0),
    ("05", 2),
];

fn first_problem<'t>(text: &'t str, layout: &str) -> Problem<'t> {
    let mut rest = text;
    for (part, digits) in PARTS {
        let read = if digits == 0 {
            rest.strip_prefix(part).map(|rest| (0, rest))
        } else if part == "15" {
            number(rest, 2).or_else(|| number(rest, 1))
        } else {
            number(rest, digits)
        };
        let Some((value, left)) = read else {
            return Problem::Part { rest, part };
        };
        if let Some(what) = out_of_range(part, value) {
            return Problem::Range(what);
        }
        rest = left;
    }
    if layout == MICRO_TIME {
        let fraction = rest.strip_prefix('.').and_then(|rest| number(rest, 6));
        match fraction {
            Some((_, left)) => rest = left,
            None => {
                return Problem::Part {
                    rest,
                    part: ".000000",
                };
            }
        }
    } else if let Some(fraction) = rest.strip_prefix(['.', ','])
        && fraction.starts_with(|c: char| c.is_ascii_digit())
    {
        rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    match zone(rest) {
        None => Problem::Part {
            rest,
            part: "Z07:00",
        },
        Some((hours, _, _)) if hours > 24 => Problem::Range("time zone offset hour"),
        Some((_, minutes, _)) if minutes > 60 => Problem::Range("time zone offset minute"),
        Some((_, _, "")) => Problem::Range("day"),
        Some((_, _, extra)) => Problem::Extra(extra),
    }
}

fn out_of_range(part: &str, value: u32) -> Option<&'static str> {
    match part {
        "01" if !(1..=12).contains(&value) => Some("month"),
        "15" if value > 23 => Some("hour"),
        "04" if value > 59 => Some("minute"),
        "05" if value > 59 => Some("second"),
        _ => None,
    }
}

fn number(text: &str, digits: usize) -> Option<(u32, &str)> {
    let (number, rest) = text.split_at_checked(digits)?;
    let all_digits = number.bytes().all(|byte| byte.is_ascii_digit());
    Some((number.parse().ok().filter(|_| all_digits)?, rest))
}

/// Hours and minutes of an offset, and what comes after it.
fn zone(text: &str) -> Option<(u32, u32, &str)> {
    if let Some(rest) = text.strip_prefix('Z') {
        return Some((0, 0, rest));
    }
    let rest = text.strip_prefix(['+', '-'])?;
    let (hours, rest) = number(rest, 2)?;
    let (minutes, rest) = number(rest.strip_prefix(':')?, 2)?;
    Some((hours, minutes, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        let check = |text: &str, expect: &str| {
            assert_eq!(canonical_time(text).as_deref(), Ok(expect));
        };
        check("2024-05-01T12:00:00Z", "2024-05-01T12:00:00Z");
        check("2024-05-01T12:00:00.987+02:00", "2024-05-01T10:00:00Z");
        assert_eq!(
            canonical_micro_time("2024-05-01T12:00:00.123456+02:00").as_deref(),
            Ok("2024-05-01T10:00:00.123456Z")
        );
    }

    #[test]
    fn what_is_plainly_canonical_is_written_just_so() {
        let plain = "2024-05-28T23:59:59Z";
        assert!(is_plainly_canonical_time(plain));
        let mut found = 0;
        for at in 0..plain.len() {
            for byte in 0..128_u8 {
                let mut bytes = plain.as_bytes().to_vec();
                bytes[at] = byte;
                let text = String::from_utf8(bytes).expect("ASCII");
                if is_plainly_canonical_time(&text) {
                    let time: Timestamp = text.parse().expect("a time");
                    assert_eq!(time.rfc3339().to_string(), text);
                    found += 1;
                }
            }
        }
        assert!(found > 60, "{found}");
        for other in [
            "",
            "2024-05-28T23:59:59",
            "2024-05-29T00:00:00Z",
            "0999-01-01T00:00:00Z",
        ] {
            assert!(!is_plainly_canonical_time(other), "{other}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_as_in_go() {
        let check = |text: &str, expect: &str| {
            let error = canonical_time(text).expect_err(text);
            let prefix = format!("parsing time {text:?}");
            assert_eq!(error.strip_prefix(&prefix), Some(expect));
        };
        let part = |expect: &str| format!(" as \"{TIME}\": cannot parse {expect}");
        check("yesterday", &part("\"yesterday\" as \"2006\""));
        check("", &part("\"\" as \"2006\""));
        check("2024/05", &part("\"/05\" as \"-\""));
        check("2024-02-03T00:00:00", &part("\"\" as \"Z07:00\""));
        check("2024-13-01T00:00:00Z", ": month out of range");
        check("2024-02-30T00:00:00Z", ": day out of range");
        check("2024-02-03T25:00:00Z", ": hour out of range");
        check(
            "2024-02-03T00:00:00+25:00",
            ": time zone offset hour out of range",
        );
        check("2024-02-03T00:00:00Zzz", ": extra text: \"zz\"");
    }
}
