//! Times, and what Go says of texts that are none.

use rhumb_meta::{Timestamp, gotext};

const TIME: &str = "2006-01-02T15:04:05Z07:00";
const MICRO_TIME: &str = "2006-01-02T15:04:05.000000Z07:00";

/// A time as upstream writes it back: in UTC and whole seconds.
pub(crate) fn canonical_time(text: &str) -> Result<String, String> {
    match text.parse::<Timestamp>() {
        Ok(time) => Ok(time.rfc3339().to_string()),
        Err(_) => Err(what_is_wrong(text, TIME)),
    }
}

/// The same in microseconds, six digits of which must be there.
pub(crate) fn canonical_micro_time(text: &str) -> Result<String, String> {
    match Timestamp::from_rfc3339_micro(text) {
        Ok(time) => Ok(time.rfc3339_micro().to_string()),
        Err(_) => Err(what_is_wrong(text, MICRO_TIME)),
    }
}

fn what_is_wrong(text: &str, layout: &str) -> String {
    let problem = first_problem(text, layout);
    let text = gotext::quote(text);
    format!("parsing time {text} as {}{problem}", gotext::quote(layout))
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

fn first_problem(text: &str, layout: &str) -> String {
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
            return cannot_parse(rest, part);
        };
        if let Some(what) = out_of_range(part, value) {
            return format!(": {what} out of range");
        }
        rest = left;
    }
    if layout == MICRO_TIME {
        let fraction = rest.strip_prefix('.').and_then(|rest| number(rest, 6));
        match fraction {
            Some((_, left)) => rest = left,
            None => return cannot_parse(rest, ".000000"),
        }
    } else if let Some(fraction) = rest.strip_prefix(['.', ','])
        && fraction.starts_with(|c: char| c.is_ascii_digit())
    {
        rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    match after_zone(rest) {
        None => cannot_parse(rest, "Z07:00"),
        Some("") => ": day out of range".to_owned(),
        Some(extra) => format!(": extra text: {}", gotext::quote(extra)),
    }
}

fn cannot_parse(rest: &str, part: &str) -> String {
    let (rest, part) = (gotext::quote(rest), gotext::quote(part));
    format!(": cannot parse {rest} as {part}")
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

fn after_zone(text: &str) -> Option<&str> {
    if let Some(rest) = text.strip_prefix('Z') {
        return Some(rest);
    }
    let rest = text.strip_prefix(['+', '-'])?;
    let (_, rest) = number(rest, 2)?;
    let (_, rest) = number(rest.strip_prefix(':')?, 2)?;
    Some(rest)
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
    fn what_is_wrong_is_said_as_in_go() {
        let check = |text: &str, expect: &str| {
            let error = canonical_time(text).expect_err(text);
            let prefix = format!("parsing time {text:?} as \"{TIME}\"");
            assert_eq!(error.strip_prefix(&prefix), Some(expect));
        };
        check("yesterday", ": cannot parse \"yesterday\" as \"2006\"");
        check("", ": cannot parse \"\" as \"2006\"");
        check("2024/05", ": cannot parse \"/05\" as \"-\"");
        check("2024-13-01T00:00:00Z", ": month out of range");
        check("2024-02-30T00:00:00Z", ": day out of range");
        check("2024-02-03T25:00:00Z", ": hour out of range");
        check("2024-02-03T00:00:00", ": cannot parse \"\" as \"Z07:00\"");
        check("2024-02-03T00:00:00Zzz", ": extra text: \"zz\"");
    }
}
