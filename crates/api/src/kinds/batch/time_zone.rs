//! Validation of the time zone of a cron job.

use rhumb_meta::field::ErrorList;

use crate::FieldView;

/// All names of the IANA time zone database.
const NAMES: &str = include_str!("time_zones.txt");

/// Maximum length of one path segment of a name.
const SEGMENT_MAX_BYTES: usize = 14;

pub(super) fn is_known(name: &str) -> bool {
    matches!(name, "" | "UTC" | "Local") || NAMES.split_ascii_whitespace().any(|zone| zone == name)
}

pub(super) fn validate(zone: &FieldView<'_>, errors: &mut ErrorList) {
    let Some(name) = zone.opt_str() else {
        return;
    };
    if name.is_empty() {
        zone.invalid(errors, "timeZone must be nil or non-empty string");
        return;
    }
    let unknown = || format!("unknown time zone {name}");
    if !name.split('/').all(is_valid_segment) {
        zone.invalid(errors, unknown());
        return;
    }
    if name.eq_ignore_ascii_case("Local") {
        zone.invalid(
            errors,
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
        );
    }
    if !is_known(name) {
        zone.invalid(errors, unknown());
    }
}

fn is_valid_segment(part: &str) -> bool {
    let is_allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'+');
    !matches!(part, "" | "." | "..")
        && !part.starts_with('-')
        && part.len() <= SEGMENT_MAX_BYTES
        && part.bytes().all(is_allowed)
}
