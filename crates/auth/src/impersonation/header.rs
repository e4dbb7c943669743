//! Decoding and validation of impersonation header values.

use std::collections::BTreeMap;

use rhumb_meta::field::{Error, ErrorList, Path};
use rhumb_meta::gotext::quote;
use rhumb_meta::validation;

use crate::user::User;

/// Validates extra keys and values for the constrained modes.
pub(super) fn validate_extra(extra: &BTreeMap<String, Vec<String>>) -> Result<(), String> {
    for (key, values) in extra {
        if key.is_empty() {
            return Err("impersonating the empty string key in extra is not allowed".to_owned());
        }
        if let Err(problem) = domain_prefixed_path(key) {
            return Err(format!(
                "impersonating an invalid key in extra is not allowed: {problem}"
            ));
        }
        if *key != key.to_lowercase() {
            return Err(format!(
                "impersonating a non-lowercase key in extra is not allowed: {}",
                quote(key)
            ));
        }
        if values.iter().any(String::is_empty) {
            return Err("impersonating the empty string value in extra is not allowed".to_owned());
        }
    }
    Ok(())
}

/// Validates a key such as `acme.io/foo`; upstream's `IsDomainPrefixedPath`.
fn domain_prefixed_path(key: &str) -> Result<(), ErrorList> {
    let extra = Path::new("extra");
    let path = extra.child("key");
    let mut errors = ErrorList::default();
    match key.split_once('/') {
        Some((host, rest)) if !host.is_empty() && !rest.is_empty() => {
            for problem in validation::dns1123_subdomain(host) {
                errors.push(Error::invalid(&path, host, problem));
            }
            if !rest.chars().all(is_path_character) {
                let detail = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
                errors.push(Error::invalid(&path, rest, detail));
            }
        }
        _ => {
            let detail = r#"must be a domain-prefixed path (such as "acme.io/foo")"#;
            errors.push(Error::invalid(&path, key, detail));
        }
    }
    errors.into_result()
}

fn is_path_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(c)
}

/// Decodes a `%`-encoded extra key; a key that cannot be decoded is returned unchanged.
pub(super) fn unescape(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let digits = tail.get(..2).and_then(|it| std::str::from_utf8(it).ok());
        let Some(byte) = digits.and_then(|it| u8::from_str_radix(it, 16).ok()) else {
            return key.to_owned();
        };
        bytes.push(byte);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).unwrap_or_else(|_| key.to_owned())
}

/// The user in Go's `%#v` syntax, which upstream's error message contains.
pub(super) fn go_syntax(user: &User) -> String {
    let list = |values: &[String]| {
        let values: Vec<String> = values.iter().map(|it| quote(it).to_string()).collect();
        format!("[]string{{{}}}", values.join(", "))
    };
    let groups = match user.groups.is_empty() {
        true => "[]string(nil)".to_owned(),
        false => list(&user.groups),
    };
    let extra = match user.extra.is_empty() {
        true => "map[string][]string(nil)".to_owned(),
        false => {
            let entry =
                |(key, values): (&String, &Vec<String>)| format!("{}:{}", quote(key), list(values));
            let entries: Vec<String> = user.extra.iter().map(entry).collect();
            format!("map[string][]string{{{}}}", entries.join(", "))
        }
    };
    format!(
        "&user.DefaultInfo{{Name:{}, UID:{}, Groups:{groups}, Extra:{extra}}}",
        quote(&user.name),
        quote(&user.uid)
    )
}
