//! Human-readable durations such as `5m30s` and `2d3h` (upstream: `apimachinery/pkg/util/duration`).

use rhumb_meta::Timestamp;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// Formats a duration with two or three significant digits, like upstream's `HumanDuration`.
///
/// Up to one second in the future counts as now, to tolerate clock skew.
pub(super) fn duration(seconds: i64) -> String {
    match seconds {
        ..-1 => "<invalid>".to_string(),
        -1 => "0s".to_string(),
        _ if seconds < 2 * MINUTE => format!("{seconds}s"),
        _ if seconds < 10 * MINUTE => two_units(seconds, (MINUTE, "m"), (1, "s")),
        _ if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        _ if seconds < 8 * HOUR => two_units(seconds, (HOUR, "h"), (MINUTE, "m")),
        _ if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        _ if seconds < 8 * DAY => two_units(seconds, (DAY, "d"), (HOUR, "h")),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => two_units(seconds, (YEAR, "y"), (DAY, "d")),
        _ => format!("{}y", seconds / YEAR),
    }
}

fn two_units(
    seconds: i64,
    (long, long_name): (i64, &str),
    (short, short_name): (i64, &str),
) -> String {
    let whole = seconds / long;
    match seconds % long / short {
        0 => format!("{whole}{long_name}"),
        rest => format!("{whole}{long_name}{rest}{short_name}"),
    }
}

/// The time since a timestamp string; `<unknown>` if absent or malformed.
pub(super) fn since(text: &str, now: Timestamp) -> String {
    match parse(text) {
        Some(then) => duration(seconds_between(then, now)),
        None => "<unknown>".to_string(),
    }
}

pub(super) fn parse(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// Whole seconds, rounded towards zero.
pub(super) fn seconds_between(then: Timestamp, now: Timestamp) -> i64 {
    let forward = now.saturating_duration_since(then).as_secs();
    let backward = then.saturating_duration_since(now).as_secs();
    i64::try_from(forward).unwrap_or(i64::MAX) - i64::try_from(backward).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_or_three_digits() {
        for (seconds, expected) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (1, "1s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (599, "9m59s"),
            (600, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 61, "3h1m"),
            (8 * HOUR - 1, "7h59m"),
            (8 * HOUR, "8h"),
            (48 * HOUR - 1, "47h"),
            (2 * DAY, "2d"),
            (5 * DAY + 3 * HOUR, "5d3h"),
            (8 * DAY, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + DAY, "2y1d"),
            (8 * YEAR - 1, "7y364d"),
            (9 * YEAR + DAY, "9y"),
        ] {
            assert_eq!(duration(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn timestamps_are_printed_as_age() {
        let now = "2026-01-01T00:10:00Z".parse().unwrap();
        for (text, expected) in [
            ("2026-01-01T00:00:00Z", "10m"),
            ("2026-01-01T00:09:59.900000Z", "0s"),
            ("2026-01-01T00:10:01.500000Z", "0s"),
            ("2026-01-01T00:10:02Z", "<invalid>"),
            ("", "<unknown>"),
            ("yesterday", "<unknown>"),
        ] {
            assert_eq!(since(text, now), expected, "{text}");
        }
    }
}
