//! Parses timestamps and writes them in canonical form, with the errors of Go's `time.Parse`.

use rhumb_meta::{Timestamp, gotext};

const TIME_LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
const MICRO_TIME_LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";

/// A `metav1.Time` as upstream writes it: in UTC and whole seconds.
pub(crate) fn canonical_time(text: &str) -> Result<String, String> {
    if is_plainly_canonical_time(text) {
        return Ok(text.to_owned());
    }
    match text.parse::<Timestamp>() {
        Ok(time) => Ok(time.rfc3339().to_string()),
        Err(_) => Err(parse_error_message(text, TIME_LAYOUT)),
    }
}

/// Fast path: whether the text is certainly a valid time in canonical form. False for days after the 28th, whose
/// validity depends on the month.
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
    let two_digits = |tens: u8, ones: u8| match (tens, ones) {
        (b'0'..=b'9', b'0'..=b'9') => (tens - b'0') * 10 + (ones - b'0'),
        _ => u8::MAX,
    };
    // Years before 1000 are left to the parser.
    (10..=99).contains(&two_digits(a, b))
        && two_digits(c, d) <= 99
        && (1..=12).contains(&two_digits(e, f))
        && (1..=28).contains(&two_digits(g, h))
        && two_digits(i, j) < 24
        && two_digits(k, l) < 60
        && two_digits(m, n) < 60
}

/// A `metav1.MicroTime` as upstream writes it. The input must have six digits of microseconds.
pub(crate) fn canonical_micro_time(text: &str) -> Result<String, String> {
    match Timestamp::from_rfc3339_micro(text) {
        Ok(time) => Ok(time.rfc3339_micro().to_string()),
        Err(_) => Err(parse_error_message(text, MICRO_TIME_LAYOUT)),
    }
}

fn parse_error_message(text: &str, layout: &str) -> String {
    let quoted = gotext::quote(text);
    match find_parse_error(text, layout) {
        TimeParseError::Element { rest, element } => {
            let (layout, rest, element) = (
                gotext::quote(layout),
                gotext::quote(rest),
                gotext::quote(element),
            );
            format!("parsing time {quoted} as {layout}: cannot parse {rest} as {element}")
        }
        TimeParseError::OutOfRange(name) => format!("parsing time {quoted}: {name} out of range"),
        TimeParseError::ExtraText(extra) => {
            format!(
                "parsing time {quoted}: extra text: {}",
                gotext::quote(extra)
            )
        }
    }
}

/// Counterpart of Go's `time.ParseError`.
enum TimeParseError<'t> {
    /// The rest of the text does not start with this layout element.
    Element {
        rest: &'t str,
        element: &'static str,
    },
    OutOfRange(&'static str),
    ExtraText(&'t str),
}

/// Layout elements with their number of digits; 0 for literals.
const LAYOUT_ELEMENTS: [(&str, usize); 11] = [
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

fn find_parse_error<'t>(text: &'t str, layout: &str) -> TimeParseError<'t> {
    let mut rest = text;
    for (element, digits) in LAYOUT_ELEMENTS {
        let parsed = if digits == 0 {
            rest.strip_prefix(element).map(|rest| (0, rest))
        } else if element == "15" {
            leading_number(rest, 2).or_else(|| leading_number(rest, 1))
        } else {
            leading_number(rest, digits)
        };
        let Some((value, remaining)) = parsed else {
            return TimeParseError::Element { rest, element };
        };
        if let Some(name) = out_of_range(element, value) {
            return TimeParseError::OutOfRange(name);
        }
        rest = remaining;
    }
    if layout == MICRO_TIME_LAYOUT {
        let fraction = rest
            .strip_prefix('.')
            .and_then(|rest| leading_number(rest, 6));
        match fraction {
            Some((_, remaining)) => rest = remaining,
            None => {
                return TimeParseError::Element {
                    rest,
                    element: ".000000",
                };
            }
        }
    } else if let Some(fraction) = rest.strip_prefix(['.', ','])
        && fraction.starts_with(|c: char| c.is_ascii_digit())
    {
        rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    match zone(rest) {
        None => TimeParseError::Element {
            rest,
            element: "Z07:00",
        },
        Some((hours, _, _)) if hours > 24 => TimeParseError::OutOfRange("time zone offset hour"),
        Some((_, minutes, _)) if minutes > 60 => {
            TimeParseError::OutOfRange("time zone offset minute")
        }
        Some((_, _, "")) => TimeParseError::OutOfRange("day"),
        Some((_, _, extra)) => TimeParseError::ExtraText(extra),
    }
}

fn out_of_range(element: &str, value: u32) -> Option<&'static str> {
    match element {
        "01" if !(1..=12).contains(&value) => Some("month"),
        "15" if value > 23 => Some("hour"),
        "04" if value > 59 => Some("minute"),
        "05" if value > 59 => Some("second"),
        _ => None,
    }
}

fn leading_number(text: &str, digits: usize) -> Option<(u32, &str)> {
    let (number, rest) = text.split_at_checked(digits)?;
    let all_digits = number.bytes().all(|byte| byte.is_ascii_digit());
    Some((number.parse().ok().filter(|_| all_digits)?, rest))
}

/// Parses a zone offset: hours, minutes, and the rest of the text.
fn zone(text: &str) -> Option<(u32, u32, &str)> {
    if let Some(rest) = text.strip_prefix('Z') {
        return Some((0, 0, rest));
    }
    let rest = text.strip_prefix(['+', '-'])?;
    let (hours, rest) = leading_number(rest, 2)?;
    let (minutes, rest) = leading_number(rest.strip_prefix(':')?, 2)?;
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
    fn plainly_canonical_times_are_printed_unchanged() {
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
    fn errors_are_those_of_go() {
        let check = |text: &str, expect: &str| {
            let error = canonical_time(text).expect_err(text);
            let prefix = format!("parsing time {text:?}");
            assert_eq!(error.strip_prefix(&prefix), Some(expect));
        };
        let cannot_parse = |expect: &str| format!(" as \"{TIME_LAYOUT}\": cannot parse {expect}");
        check("yesterday", &cannot_parse("\"yesterday\" as \"2006\""));
        check("", &cannot_parse("\"\" as \"2006\""));
        check("2024/05", &cannot_parse("\"/05\" as \"-\""));
        check("2024-02-03T00:00:00", &cannot_parse("\"\" as \"Z07:00\""));
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
