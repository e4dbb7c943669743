//! Semantic versions, with the parser and errors of upstream's library (`github.com/blang/semver`).

use rhumb_meta::gotext::quote;
use std::cmp::Ordering;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Semver {
    pub(crate) major: u64,
    pub(crate) minor: u64,
    pub(crate) patch: u64,
    prerelease: Vec<PrereleaseIdentifier>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PrereleaseIdentifier {
    Number(u64),
    Text(String),
}

impl Semver {
    pub(crate) fn cmp(&self, other: &Semver) -> Ordering {
        let numbers = |version: &Semver| (version.major, version.minor, version.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| {
            // A release is greater than its prereleases.
            match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => self.prerelease.cmp(&other.prerelease),
            }
        })
    }
}

pub(super) fn parse(text: &str) -> Result<Semver, String> {
    if text.is_empty() {
        return Err("Version string empty".to_owned());
    }
    let parts: Vec<&str> = text.splitn(3, '.').collect();
    let [major, minor, rest] = parts[..] else {
        return Err("No Major.Minor.Patch elements found".to_owned());
    };
    let major = parse_number(major, "major", "Major")?;
    let minor = parse_number(minor, "minor", "Minor")?;
    let (rest, build) = match rest.split_once('+') {
        Some((rest, build)) => (rest, Some(build)),
        None => (rest, None),
    };
    let (patch, prerelease) = match rest.split_once('-') {
        Some((patch, prerelease)) => (patch, Some(prerelease)),
        None => (rest, None),
    };
    let patch = parse_number(patch, "patch", "Patch")?;
    let prerelease: Result<Vec<PrereleaseIdentifier>, String> = prerelease
        .into_iter()
        .flat_map(|text| text.split('.'))
        .map(parse_prerelease_identifier)
        .collect();
    let prerelease = prerelease?;
    for part in build.into_iter().flat_map(|text| text.split('.')) {
        if part.is_empty() {
            return Err("Build meta data is empty".to_owned());
        }
        if !part.chars().all(is_identifier_char) {
            return Err(format!(
                "Invalid character(s) found in build meta data {}",
                quote(part)
            ));
        }
    }
    Ok(Semver {
        major,
        minor,
        patch,
        prerelease,
    })
}

fn is_identifier_char(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '-'
}

fn parse_number(text: &str, name: &str, capitalized_name: &str) -> Result<u64, String> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "Invalid character(s) found in {name} number {}",
            quote(text)
        ));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!(
            "{capitalized_name} number must not contain leading zeroes {}",
            quote(text)
        ));
    }
    text.parse().map_err(|_| {
        let reason = if text.is_empty() {
            "invalid syntax"
        } else {
            "value out of range"
        };
        format!("strconv.ParseUint: parsing {}: {reason}", quote(text))
    })
}

fn parse_prerelease_identifier(text: &str) -> Result<PrereleaseIdentifier, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {}",
                quote(text)
            ));
        }
        return text.parse().map(PrereleaseIdentifier::Number).map_err(|_| {
            format!(
                "strconv.ParseUint: parsing {}: value out of range",
                quote(text)
            )
        });
    }
    match text.chars().all(is_identifier_char) {
        true => Ok(PrereleaseIdentifier::Text(text.to_owned())),
        false => Err(format!(
            "Invalid character(s) found in prerelease {}",
            quote(text)
        )),
    }
}

/// Also accepts `v1.02`: a prefix `v`, missing components and leading zeros.
pub(super) fn parse_tolerant(text: &str) -> Result<Semver, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text
        .splitn(3, '.')
        .map(|part| {
            if part.len() <= 1 {
                return part.to_owned();
            }
            let trimmed = part.trim_start_matches('0');
            match trimmed.starts_with(|c: char| c.is_ascii_digit()) {
                true => trimmed.to_owned(),
                false => format!("0{trimmed}"),
            }
        })
        .collect();
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        return Err("short version cannot contain PreRelease/Build meta data".to_owned());
    }
    while parts.len() < 3 {
        parts.push("0".to_owned());
    }
    parse(&parts.join("."))
}
