//! Validators of single values, shared by all parts of a pod. An absent string is empty, an absent number zero.

use std::net::IpAddr;

use rhumb_meta::field::{BadValue, Error, ErrorList, Path};
use rhumb_meta::validation::{self, ValidationProblems};
use rhumb_meta::{Quantity, gotext};

use crate::FieldView;
use crate::selectors::push_problems;

pub(crate) const MUST_BE_NON_NEGATIVE: &str = "must be greater than or equal to 0";
const NOT_POSITIVE: &str = "must be greater than zero";
const FILE_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const FILE_MODE_MAX: i64 = 0o777;
const ID_RANGE: &str = "must be between 0 and 2147483647, inclusive";
const PORT_RANGE: &str = "must be between 1 and 65535, inclusive";
const PORT_NAME_MAX_BYTES: usize = 15;
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const HEADER_NAME: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
const ENV_NAME: &str = "a valid environment variable name must consist only of printable ASCII characters other than '='";
const SEARCH_DOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";

pub(crate) fn invalid_text(
    view: &FieldView<'_>,
    errors: &mut ErrorList,
    detail: impl Into<String>,
) {
    errors.push(Error::invalid(view.path(), view.str(), detail));
}

pub(crate) fn invalid_number(
    view: &FieldView<'_>,
    errors: &mut ErrorList,
    detail: impl Into<String>,
) {
    let number = view.int().unwrap_or_default();
    errors.push(Error::invalid(view.path(), number, detail));
}

/// Requires a non-empty value.
pub(crate) fn required(view: &FieldView<'_>, errors: &mut ErrorList) {
    if view.is_empty() {
        view.required(errors, "");
    }
}

/// A field of a Go struct as rendered in errors: Go name, JSON name, and text if absent.
pub(crate) type GoStructField = (&'static str, &'static str, &'static str);

/// Renders an object as the Go struct that errors show.
pub(crate) fn go_struct(view: &FieldView<'_>, fields: &[GoStructField]) -> String {
    let fields = fields.iter().map(|(shown, field, absent)| {
        let value = view.get(field).map(gotext::json);
        format!("\"{shown}\":{}", value.as_deref().unwrap_or(absent))
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

/// Renders a list of objects as errors show it.
pub(crate) fn go_list(list: &FieldView<'_>, shown: impl Fn(&FieldView<'_>) -> String) -> BadValue {
    let items: Vec<String> = list.items().map(|item| shown(&item)).collect();
    BadValue::Rendered(format!("[{}]", items.join(",")))
}

/// Requires one of the supported strings; an empty one is reported as missing.
pub(crate) fn required_one_of(view: &FieldView<'_>, supported: &[&str], errors: &mut ErrorList) {
    if view.str().is_empty() {
        view.required(errors, "");
    } else {
        one_of(view, supported, errors);
    }
}

/// Requires one of the supported strings.
pub(crate) fn one_of(view: &FieldView<'_>, supported: &[&str], errors: &mut ErrorList) {
    if !supported.contains(&view.str()) {
        let shown = BadValue::json(view.str());
        errors.push(Error::not_supported(view.path(), shown, supported));
    }
}

pub(crate) fn optional_one_of(view: &FieldView<'_>, supported: &[&str], errors: &mut ErrorList) {
    if view.exists() {
        one_of(view, supported, errors);
    }
}

fn format(view: &FieldView<'_>, errors: &mut ErrorList, problems: fn(&str) -> ValidationProblems) {
    push_problems(errors, view.path(), view.str(), problems(view.str()));
}

pub(crate) fn dns_label(view: &FieldView<'_>, errors: &mut ErrorList) {
    format(view, errors, validation::dns1123_label);
}

pub(crate) fn dns_subdomain(view: &FieldView<'_>, errors: &mut ErrorList) {
    format(view, errors, validation::dns1123_subdomain);
}

pub(crate) fn qualified_name(view: &FieldView<'_>, errors: &mut ErrorList) {
    format(view, errors, validation::qualified_name);
}

pub(crate) fn required_dns_label(view: &FieldView<'_>, errors: &mut ErrorList) {
    if view.str().is_empty() {
        view.required(errors, "");
    } else {
        dns_label(view, errors);
    }
}

pub(crate) fn required_dns_subdomain(view: &FieldView<'_>, errors: &mut ErrorList) {
    if view.str().is_empty() {
        view.required(errors, "");
    } else {
        dns_subdomain(view, errors);
    }
}

/// Validates the name, if set.
pub(crate) fn optional_dns_subdomain(view: &FieldView<'_>, errors: &mut ErrorList) {
    if !view.str().is_empty() {
        dns_subdomain(view, errors);
    }
}

pub(crate) fn non_negative(view: &FieldView<'_>, errors: &mut ErrorList) {
    if view.int().is_some_and(|number| number < 0) {
        invalid_number(view, errors, MUST_BE_NON_NEGATIVE);
    }
}

pub(crate) fn positive(view: &FieldView<'_>, errors: &mut ErrorList) {
    if view.int().unwrap_or_default() <= 0 {
        invalid_number(view, errors, NOT_POSITIVE);
    }
}

/// Validates a user or group id.
pub(crate) fn id(view: &FieldView<'_>, errors: &mut ErrorList) {
    if view
        .int()
        .is_some_and(|id| !(0..=i64::from(i32::MAX)).contains(&id))
    {
        invalid_number(view, errors, ID_RANGE);
    }
}

pub(crate) fn file_mode(view: &FieldView<'_>, errors: &mut ErrorList) {
    if view
        .int()
        .is_some_and(|mode| !(0..=FILE_MODE_MAX).contains(&mode))
    {
        invalid_number(view, errors, FILE_MODE);
    }
}

pub(crate) fn port_number(view: &FieldView<'_>, errors: &mut ErrorList) {
    if !(1..=65535).contains(&view.int().unwrap_or_default()) {
        invalid_number(view, errors, PORT_RANGE);
    }
}

pub(crate) fn port_name(view: &FieldView<'_>, errors: &mut ErrorList) {
    format(view, errors, port_name_problems);
}

pub(crate) fn port_name_problems(name: &str) -> ValidationProblems {
    let mut problems = ValidationProblems::new();
    if name.len() > PORT_NAME_MAX_BYTES {
        problems.push("must be no more than 15 characters");
    }
    let is_known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || !name.bytes().all(is_known) {
        problems.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        problems.push("must contain at least one letter (a-z)");
    }
    if name.contains("--") {
        problems.push("must not contain consecutive hyphens");
    }
    if name.starts_with('-') || name.ends_with('-') {
        problems.push("must not begin or end with a hyphen");
    }
    problems
}

/// Validates a port given by number or by name.
pub(crate) fn port(view: &FieldView<'_>, errors: &mut ErrorList) {
    if view.opt_str().is_some() {
        port_name(view, errors);
    } else {
        port_number(view, errors);
    }
}

pub(crate) fn config_key(view: &FieldView<'_>, errors: &mut ErrorList) {
    format(view, errors, config_key_problems);
}

fn config_key_problems(key: &str) -> ValidationProblems {
    let mut problems = ValidationProblems::new();
    if key.len() > validation::DNS1123_SUBDOMAIN_MAX_BYTES {
        problems.push("must be no more than 253 characters");
    }
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if key.is_empty() || !key.bytes().all(is_known) {
        problems.push(CONFIG_KEY);
    }
    match key {
        "." => problems.push("must not be '.'"),
        ".." => problems.push("must not be '..'"),
        _ if key.starts_with("..") => problems.push("must not start with '..'"),
        _ => {}
    }
    problems
}

pub(crate) fn header_name(path: &Path<'_>, name: &str, errors: &mut ErrorList) {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if name.is_empty() || !name.bytes().all(is_known) {
        errors.push(Error::invalid(path, name, HEADER_NAME));
    }
}

pub(crate) fn env_name(view: &FieldView<'_>, errors: &mut ErrorList) {
    let name = view.str();
    if !name
        .bytes()
        .all(|byte| matches!(byte, b' '..=b'<' | b'>'..=b'~'))
    {
        invalid_text(view, errors, ENV_NAME);
    }
}

/// Validates a DNS search domain, which may have underscores.
pub(crate) fn search_domain(path: &Path<'_>, domain: &str, errors: &mut ErrorList) {
    if domain.len() > validation::DNS1123_SUBDOMAIN_MAX_BYTES {
        errors.push(Error::invalid(
            path,
            domain,
            "must be no more than 253 characters",
        ));
    }
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.strip_prefix('_').unwrap_or(label).as_bytes();
        bytes.first().is_some_and(|&byte| is_word(byte))
            && bytes.last().is_some_and(|&byte| is_word(byte))
            && bytes
                .iter()
                .all(|&byte| is_word(byte) || b"-_".contains(&byte))
    };
    if !domain.split('.').all(is_label) {
        errors.push(Error::invalid(path, domain, SEARCH_DOMAIN));
    }
}

/// Rejects a path with a `..` segment.
pub(crate) fn no_backsteps(view: &FieldView<'_>, errors: &mut ErrorList) {
    if has_backsteps(view.str()) {
        invalid_text(view, errors, "must not contain '..'");
    }
}

pub(crate) fn has_backsteps(path: &str) -> bool {
    path.split('/').any(|step| step == "..")
}

/// Requires a relative path without a `..` segment.
pub(crate) fn local_descending_path(view: &FieldView<'_>, errors: &mut ErrorList) {
    if view.str().starts_with('/') {
        invalid_text(view, errors, "must be a relative path");
    }
    no_backsteps(view, errors);
}

/// Requires a relative path without a `..` segment that does not begin with the reserved `..`.
pub(crate) fn local_non_reserved_path(view: &FieldView<'_>, errors: &mut ErrorList) {
    local_descending_path(view, errors);
    if view.str().starts_with("..") && !view.str().starts_with("../") {
        invalid_text(view, errors, "must not start with '..'");
    }
}

pub(crate) fn is_local_non_reserved_path(path: &str) -> bool {
    !path.starts_with('/') && !has_backsteps(path) && !path.starts_with("..")
}

/// Validates an IP address.
pub(crate) fn ip(path: &Path<'_>, address: &str, errors: &mut ErrorList) {
    match (address.parse::<IpAddr>(), sloppy_ip(address)) {
        (Ok(IpAddr::V6(parsed)), _) if parsed.to_ipv4_mapped().is_some() => errors.push(
            Error::invalid(path, address, "must not be an IPv4-mapped IPv6 address"),
        ),
        (Ok(_), _) => {}
        (Err(_), Some(_)) => {
            errors.push(Error::invalid(path, address, "must not have leading 0s"));
        }
        (Err(_), None) => errors.push(Error::invalid(
            path,
            address,
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        )),
    }
}

/// Parses an IP address; IPv4 octets may have leading zeros (Go's `ParseIPSloppy`).
pub(crate) fn sloppy_ip(address: &str) -> Option<IpAddr> {
    if let Ok(parsed) = address.parse() {
        return Some(parsed);
    }
    let mut octets = [0_u8; 4];
    let mut parts = address.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || part.len() > 16 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let number: u64 = part.parse().ok()?;
        *octet = u8::try_from(number).ok()?;
    }
    parts.next().is_none().then(|| IpAddr::from(octets))
}

/// Returns whether the list has addresses of both families, or the index of an invalid address as the error.
pub(crate) fn is_dual_stack<'a>(addresses: impl Iterator<Item = &'a str>) -> Result<bool, usize> {
    let (mut v4, mut v6) = (false, false);
    for (index, address) in addresses.enumerate() {
        match sloppy_ip(address) {
            Some(IpAddr::V4(_)) => v4 = true,
            Some(IpAddr::V6(parsed)) if parsed.to_ipv4_mapped().is_some() => v4 = true,
            Some(IpAddr::V6(_)) => v6 = true,
            None => return Err(index),
        }
    }
    Ok(v4 && v6)
}

/// Parses a quantity; a malformed one is reported as an error.
pub(crate) fn quantity(view: &FieldView<'_>, errors: &mut ErrorList) -> Option<Quantity> {
    match Quantity::from_json(view.value()?) {
        Ok(quantity) => Some(quantity),
        Err(error) => {
            view.invalid(errors, error.to_string());
            None
        }
    }
}

pub(crate) fn non_negative_quantity(path: &Path<'_>, quantity: &Quantity, errors: &mut ErrorList) {
    if quantity.is_negative() {
        errors.push(Error::invalid(
            path,
            quantity.to_string(),
            MUST_BE_NON_NEGATIVE,
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ip_addresses_are_validated_strictly() {
        let table = [
            ("10.0.0.1", ""),
            ("2001:db8::1", ""),
            (
                "010.0.0.1",
                "a: Invalid value: \"010.0.0.1\": must not have leading 0s",
            ),
            (
                "::ffff:10.0.0.1",
                "a: Invalid value: \"::ffff:10.0.0.1\": must not be an IPv4-mapped IPv6 address",
            ),
            (
                "nope",
                "a: Invalid value: \"nope\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            ),
            (
                "1.2.3",
                "a: Invalid value: \"1.2.3\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            ),
        ];
        for (address, want) in table {
            let mut errors = ErrorList::new();
            ip(&Path::new("a"), address, &mut errors);
            assert_eq!(errors.to_string(), want);
        }
    }

    #[test]
    fn port_names_need_a_letter_and_at_most_15_characters() {
        let table = [
            ("http", 0),
            ("a-1", 0),
            ("", 2),
            ("80", 1),
            ("Http", 1),
            ("a--b", 1),
            ("-a", 1),
            ("abcdefghijklmnop", 1),
        ];
        for (name, problems) in table {
            assert_eq!(port_name_problems(name).len(), problems, "{name}");
        }
    }

    #[test]
    fn volume_paths_must_not_leave_the_volume() {
        let table = [
            ("a/b", true),
            ("..a", false),
            ("a/..b", true),
            ("/a", false),
            ("../a", false),
            ("a/../b", false),
            ("", true),
        ];
        for (path, want) in table {
            assert_eq!(is_local_non_reserved_path(path), want, "{path}");
        }
    }
}
