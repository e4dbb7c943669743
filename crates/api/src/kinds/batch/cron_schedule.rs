//! Validation of cron schedules: five fields, or a descriptor such as `@daily`. Error texts are those of
//! `robfig/cron`, the parser that upstream uses.

use rhumb_meta::gotext;

use super::time_zone;

/// Allowed values of one field of a schedule.
struct CronFieldBounds {
    min: u64,
    max: u64,
    /// Names of the values, from `min` on.
    names: &'static [&'static str],
}

const MINUTES: CronFieldBounds = CronFieldBounds {
    min: 0,
    max: 59,
    names: &[],
};
const HOURS: CronFieldBounds = CronFieldBounds {
    min: 0,
    max: 23,
    names: &[],
};
const DAYS: CronFieldBounds = CronFieldBounds {
    min: 1,
    max: 31,
    names: &[],
};
const MONTHS: CronFieldBounds = CronFieldBounds {
    min: 1,
    max: 12,
    names: &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
};
const WEEKDAYS: CronFieldBounds = CronFieldBounds {
    min: 0,
    max: 6,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

/// The fields of a schedule, in order.
const FIELDS: [CronFieldBounds; 5] = [MINUTES, HOURS, DAYS, MONTHS, WEEKDAYS];

/// Validates a non-empty schedule.
pub(super) fn validate_schedule(schedule: &str) -> Result<(), String> {
    let schedule = strip_time_zone(schedule)?;
    if schedule.starts_with('@') {
        return check_descriptor(schedule);
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let found = fields.len();
        let fields = fields.join(" ");
        return Err(format!(
            "expected exactly 5 fields, found {found}: [{fields}]"
        ));
    }
    for (field, bounds) in fields.iter().zip(&FIELDS) {
        for range in field.split(',').filter(|range| !range.is_empty()) {
            check_range(range, bounds)?;
        }
    }
    Ok(())
}

/// Strips a leading time zone, which parses here although validation rejects it elsewhere.
fn strip_time_zone(schedule: &str) -> Result<&str, String> {
    let zone = schedule
        .strip_prefix("TZ=")
        .or_else(|| schedule.strip_prefix("CRON_TZ="));
    let Some(zone) = zone else {
        return Ok(schedule);
    };
    // Upstream's parser panics here and recovers.
    let Some((zone, rest)) = zone.split_once(' ') else {
        let crash = "runtime error: slice bounds out of range [:-1]";
        return Err(format!("invalid schedule format: {crash}"));
    };
    if zone.contains("..") || zone.starts_with(['/', '\\']) {
        return Err(format!(
            "provided bad location {zone}: time: invalid location name"
        ));
    }
    if !time_zone::is_known(zone) {
        return Err(format!(
            "provided bad location {zone}: unknown time zone {zone}"
        ));
    }
    Ok(rest.trim())
}

fn check_descriptor(descriptor: &str) -> Result<(), String> {
    match descriptor {
        "@yearly" | "@annually" | "@monthly" | "@weekly" | "@daily" | "@midnight" | "@hourly" => {
            Ok(())
        }
        _ => match descriptor.strip_prefix("@every ") {
            Some(duration) => check_duration(duration)
                .map_err(|error| format!("failed to parse duration {descriptor}: time: {error}")),
            None => Err(format!("unrecognized descriptor: {descriptor}")),
        },
    }
}

/// Checks `*`, a number or a range, with an optional step.
fn check_range(text: &str, bounds: &CronFieldBounds) -> Result<(), String> {
    let mut parts = text.split('/');
    let ends: Vec<&str> = parts.next().unwrap_or_default().split('-').collect();
    let steps: Vec<&str> = parts.collect();
    let (start, mut end) = match ends.as_slice() {
        ["*" | "?", ..] => (bounds.min, bounds.max),
        [only] => {
            let number = number_or_name(only, bounds)?;
            (number, number)
        }
        [first, last] => (
            number_or_name(first, bounds)?,
            number_or_name(last, bounds)?,
        ),
        [first, ..] => {
            number_or_name(first, bounds)?;
            return Err(format!("too many hyphens: {text}"));
        }
        [] => return Ok(()),
    };
    let step = match steps.as_slice() {
        [] => 1,
        [step] => {
            if ends.len() == 1 {
                end = bounds.max;
            }
            number(step)?
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    let (min, max) = (bounds.min, bounds.max);
    if start < min {
        return Err(format!(
            "beginning of range ({start}) below minimum ({min}): {text}"
        ));
    }
    if end > max {
        return Err(format!(
            "end of range ({end}) above maximum ({max}): {text}"
        ));
    }
    if start > end {
        return Err(format!(
            "beginning of range ({start}) beyond end of range ({end}): {text}"
        ));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

fn number_or_name(text: &str, bounds: &CronFieldBounds) -> Result<u64, String> {
    let name = text.to_lowercase();
    let position = bounds.names.iter().position(|known| *known == name);
    match position {
        Some(position) => Ok(bounds.min.saturating_add(position as u64)),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u64, String> {
    let number: i64 = text.parse().map_err(|_| {
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let reason = if is_number {
            "value out of range"
        } else {
            "invalid syntax"
        };
        let quoted = gotext::quote(text);
        format!("failed to parse int from {text}: strconv.Atoi: parsing {quoted}: {reason}")
    })?;
    u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
}

/// Checks a Go duration, such as `1h30m`.
fn check_duration(text: &str) -> Result<(), String> {
    let invalid = || format!("invalid duration {}", gotext::quote(text));
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(());
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total_ns = 0.0;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(number_len(rest));
        let value: f64 = number.parse().map_err(|_| invalid())?;
        let end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        total_ns += value * unit_ns(unit, text)?;
        rest = after;
    }
    // Overflows Go's 64-bit nanoseconds.
    if total_ns > 9_223_372_036_854_775_807.0 {
        return Err(invalid());
    }
    Ok(())
}

/// Returns the length in bytes of the leading number: digits with at most one decimal point.
fn number_len(text: &str) -> usize {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(text);
    match text[whole..].strip_prefix('.') {
        Some(fraction) => whole + 1 + digits(fraction),
        None => whole,
    }
}

fn unit_ns(unit: &str, duration: &str) -> Result<f64, String> {
    let quoted = gotext::quote(duration);
    Ok(match unit {
        "ns" => 1.0,
        "us" | "µs" | "μs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        "h" => 3600e9,
        "" => return Err(format!("missing unit in duration {quoted}")),
        _ => {
            let unit = gotext::quote(unit);
            return Err(format!("unknown unit {unit} in duration {quoted}"));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::validate_schedule;

    #[test]
    fn schedules_are_parsed_like_upstream() {
        let right = [
            "* * * * *",
            "*/15 0-23/2 1,15 jan-MAR ?",
            "5/10 1 1 1 sun",
            "  0  0 * * 1-5 ",
            "@hourly",
            "@every 1h30m",
            "@every 0",
            "TZ=Europe/Berlin 0 0 * * *",
        ];
        for schedule in right {
            let got = validate_schedule(schedule);
            assert_eq!(got, Ok(()), "{schedule}");
        }
    }

    #[test]
    fn errors_have_upstreams_texts() {
        let table = [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            (
                "5-1 * * * *",
                "beginning of range (5) beyond end of range (1): 5-1",
            ),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            (
                "*/0 * * * *",
                "step of range should be a positive number: */0",
            ),
            (
                "a * * * *",
                "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax",
            ),
            (
                "-1 * * * *",
                "failed to parse int from : strconv.Atoi: parsing \"\": invalid syntax",
            ),
            ("@never", "unrecognized descriptor: @never"),
            (
                "@every 1.5.5h",
                "failed to parse duration @every 1.5.5h: time: missing unit in duration \"1.5.5h\"",
            ),
            (
                "TZ=../etc * * * * *",
                "provided bad location ../etc: time: invalid location name",
            ),
            (
                "@every soon",
                "failed to parse duration @every soon: time: invalid duration \"soon\"",
            ),
            (
                "@every 5",
                "failed to parse duration @every 5: time: missing unit in duration \"5\"",
            ),
            (
                "TZ=0",
                "invalid schedule format: runtime error: slice bounds out of range [:-1]",
            ),
            (
                "TZ=Moon/Base * * * * *",
                "provided bad location Moon/Base: unknown time zone Moon/Base",
            ),
        ];
        for (schedule, expect) in table {
            assert_eq!(
                validate_schedule(schedule).unwrap_err(),
                expect,
                "{schedule}"
            );
        }
    }
}
