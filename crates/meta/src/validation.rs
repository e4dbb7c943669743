//! Validation of names, label keys and label values, with upstream's messages (upstream: `util/validation`).
//!
//! Each function returns the problems of a value; an empty list means that it is valid. The messages are static, so
//! that validation of a valid value does not allocate. Hand-written matchers replace upstream's regular expressions;
//! each is one pass over the bytes.

/// The messages about an invalid value; empty if the value is valid.
pub type ValidationProblems = Vec<&'static str>;

pub const DNS1123_LABEL_MAX_BYTES: usize = 63;
pub const DNS1123_SUBDOMAIN_MAX_BYTES: usize = 253;
pub const DNS1035_LABEL_MAX_BYTES: usize = 63;
pub const LABEL_NAME_MAX_BYTES: usize = 63;
pub const LABEL_VALUE_MAX_BYTES: usize = 63;

macro_rules! label_regex {
    () => {
        "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    };
}

macro_rules! subdomain_text {
    () => {
        concat!(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', ",
            "and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '",
            label_regex!(),
            "(\\.",
            label_regex!(),
            ")*')"
        )
    };
}

macro_rules! name_regex {
    () => {
        "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
    };
}

macro_rules! label_name_text {
    () => {
        concat!(
            "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric ",
            "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '",
            name_regex!(),
            "')"
        )
    };
}

const LABEL_TEXT: &str = concat!(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end ",
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '",
    label_regex!(),
    "')"
);
const SUBDOMAIN_TEXT: &str = subdomain_text!();
const DNS1035_TEXT: &str = concat!(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, ",
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is ",
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
);
const LABEL_VALUE_TEXT: &str = concat!(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start ",
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation ",
    "is '(",
    name_regex!(),
    ")?')"
);

/// Validates a DNS label (RFC 1123): names of namespaces, containers, volumes.
pub fn dns1123_label(value: &str) -> ValidationProblems {
    let mut problems = ValidationProblems::new();
    if value.len() > DNS1123_LABEL_MAX_BYTES {
        problems.push("must be no more than 63 characters");
    }
    if !matches_dns1123_label(value.as_bytes()) {
        let only_dots = matches_dns1123_subdomain(value.as_bytes());
        problems.push(if only_dots {
            "must not contain dots"
        } else {
            LABEL_TEXT
        });
    }
    problems
}

/// Validates a DNS subdomain (RFC 1123): names of most objects.
pub fn dns1123_subdomain(value: &str) -> ValidationProblems {
    let mut problems = ValidationProblems::new();
    if value.len() > DNS1123_SUBDOMAIN_MAX_BYTES {
        problems.push("must be no more than 253 characters");
    }
    if !matches_dns1123_subdomain(value.as_bytes()) {
        problems.push(SUBDOMAIN_TEXT);
    }
    problems
}

/// Validates a DNS label (RFC 1035), which starts with a letter: names of services.
pub fn dns1035_label(value: &str) -> ValidationProblems {
    let mut problems = ValidationProblems::new();
    if value.len() > DNS1035_LABEL_MAX_BYTES {
        problems.push("must be no more than 63 characters");
    }
    let bytes = value.as_bytes();
    if !(bytes.first().is_some_and(u8::is_ascii_lowercase) && matches_dns1123_label(bytes)) {
        problems.push(DNS1035_TEXT);
    }
    problems
}

/// Validates a label key: a name with an optional prefix, a DNS subdomain and `/`.
pub fn qualified_name(value: &str) -> ValidationProblems {
    let mut problems = ValidationProblems::new();
    if value.len() <= LABEL_NAME_MAX_BYTES && matches_name(value.as_bytes()) {
        return problems;
    }
    let name = match value.split_once('/') {
        None => value,
        Some((_, name)) if name.contains('/') => {
            problems.push(concat!(
                "a valid label key ",
                label_name_text!(),
                " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
            return problems;
        }
        Some((prefix, name)) => {
            check_prefix(prefix, &mut problems);
            name
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty");
    } else if name.len() > LABEL_NAME_MAX_BYTES {
        problems.push("name part must be no more than 63 bytes");
    }
    if !matches_name(name.as_bytes()) {
        problems.push(concat!("name part ", label_name_text!()));
    }
    problems
}

fn check_prefix(prefix: &str, problems: &mut ValidationProblems) {
    if prefix.is_empty() {
        problems.push("prefix part must be non-empty");
        return;
    }
    if prefix.len() > DNS1123_SUBDOMAIN_MAX_BYTES {
        problems.push("prefix part must be no more than 253 bytes");
    }
    if !matches_dns1123_subdomain(prefix.as_bytes()) {
        problems.push(concat!("prefix part ", subdomain_text!()));
    }
}

/// Validates a label value, which may be empty.
pub fn label_value(value: &str) -> ValidationProblems {
    let mut problems = ValidationProblems::new();
    if value.len() > LABEL_VALUE_MAX_BYTES {
        problems.push("must be no more than 63 bytes");
    }
    if !value.is_empty() && !matches_name(value.as_bytes()) {
        problems.push(LABEL_VALUE_TEXT);
    }
    problems
}

/// Validates a name as a path segment of a URL or storage key.
///
/// As upstream, the empty name is valid here; the check for a required name is elsewhere.
pub fn path_segment_name(name: &str) -> ValidationProblems {
    match name {
        "." => vec!["may not be '.'"],
        ".." => vec!["may not be '..'"],
        _ => path_segment_prefix(name),
    }
}

/// Validates a prefix of a name (`generateName`) as part of a path segment.
pub fn path_segment_prefix(name: &str) -> ValidationProblems {
    let mut problems = ValidationProblems::new();
    if name.contains('/') {
        problems.push("may not contain '/'");
    }
    if name.contains('%') {
        problems.push("may not contain '%'");
    }
    problems
}

/// Character classes of bytes in names, one bit each.
mod class {
    pub(super) const LOWER: u8 = 1;
    pub(super) const UPPER: u8 = 2;
    pub(super) const DASH: u8 = 4;
    pub(super) const DOT: u8 = 8;
    pub(super) const UNDERSCORE: u8 = 16;
    pub(super) const ALPHANUMERIC: u8 = LOWER | UPPER;
    pub(super) const NAME: u8 = ALPHANUMERIC | DASH | DOT | UNDERSCORE;

    const fn of(byte: u8) -> u8 {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' => LOWER,
            b'A'..=b'Z' => UPPER,
            b'-' => DASH,
            b'.' => DOT,
            b'_' => UNDERSCORE,
            _ => 0,
        }
    }

    pub(super) const ALL: [u8; 256] = {
        let mut all = [0; 256];
        let mut byte = 0;
        while byte < all.len() {
            all[byte] = of(byte as u8);
            byte += 1;
        }
        all
    };
}

/// The class of each byte; a table lookup is faster than range comparisons.
static CLASSES: [u8; 256] = class::ALL;

fn is(byte: u8, class: u8) -> bool {
    CLASSES[usize::from(byte)] & class != 0
}

fn matches_dns1123_label(value: &[u8]) -> bool {
    starts_and_ends(value, class::LOWER) && value.iter().all(|&b| is(b, class::LOWER | class::DASH))
}

/// Matches DNS labels separated by dots.
fn matches_dns1123_subdomain(value: &[u8]) -> bool {
    let mut before = class::DOT;
    for &byte in value {
        let class = CLASSES[usize::from(byte)];
        let fits = match class {
            class::LOWER => true,
            class::DASH => before != class::DOT,
            class::DOT => before == class::LOWER,
            _ => false,
        };
        if !fits {
            return false;
        }
        before = class;
    }
    before == class::LOWER
}

fn matches_name(value: &[u8]) -> bool {
    starts_and_ends(value, class::ALPHANUMERIC) && value.iter().all(|&b| is(b, class::NAME))
}

fn starts_and_ends(value: &[u8], with: u8) -> bool {
    match (value.first(), value.last()) {
        (Some(&first), Some(&last)) => is(first, with) && is(last, with),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type ValidateFn = fn(&str) -> ValidationProblems;

    fn check(validate: ValidateFn, good: &[&str], bad: &[(&str, &[&str])]) {
        for value in good {
            assert_eq!(validate(value), ValidationProblems::new(), "{value:?}");
        }
        for (value, want) in bad {
            assert_eq!(&validate(value), want, "{value:?}");
        }
    }

    #[test]
    fn dns_names_are_checked_as_upstream() {
        let long = "a".repeat(64);
        let good = ["a", "0", "a-b", "a--1", &long[..63]];
        let bad: &[(&str, &[&str])] = &[
            ("", &[LABEL_TEXT]),
            ("-a", &[LABEL_TEXT]),
            ("a-", &[LABEL_TEXT]),
            ("A", &[LABEL_TEXT]),
            ("a\n", &[LABEL_TEXT]),
            ("é", &[LABEL_TEXT]),
            ("a.b", &["must not contain dots"]),
            (&long, &["must be no more than 63 characters"]),
        ];
        check(dns1123_label, &good, bad);
        let bad: &[(&str, &[&str])] = &[
            ("", &[SUBDOMAIN_TEXT]),
            ("a..b", &[SUBDOMAIN_TEXT]),
            (".a", &[SUBDOMAIN_TEXT]),
            ("a.", &[SUBDOMAIN_TEXT]),
            ("a-.b", &[SUBDOMAIN_TEXT]),
            ("a-", &[SUBDOMAIN_TEXT]),
            ("a_b", &[SUBDOMAIN_TEXT]),
            ("a.B", &[SUBDOMAIN_TEXT]),
            ("a.-b", &[SUBDOMAIN_TEXT]),
        ];
        check(
            dns1123_subdomain,
            &["a", "a.b", "0.1.2", "a-b.c--d", &long],
            bad,
        );
        let bad: &[(&str, &[&str])] = &[
            ("0a", &[DNS1035_TEXT]),
            ("a.b", &[DNS1035_TEXT]),
            ("", &[DNS1035_TEXT]),
        ];
        check(dns1035_label, &["a", "a0", "a-0"], bad);
    }

    #[test]
    fn label_keys_and_values_are_checked_as_upstream() {
        let name_text = concat!("name part ", label_name_text!());
        let bad: &[(&str, &[&str])] = &[
            ("", &["name part must be non-empty", name_text]),
            ("/a", &["prefix part must be non-empty"]),
            ("a/", &["name part must be non-empty", name_text]),
            ("A/b", &[concat!("prefix part ", subdomain_text!())]),
            ("a b", &[name_text]),
        ];
        check(qualified_name, &["a", "A_b.c-d", "example.com/x", "0"], bad);
        assert!(qualified_name("a/b/c")[0].starts_with("a valid label key must consist of"));
        check(
            label_value,
            &["", "a", "A-b_c.d", "1"],
            &[("-", &[LABEL_VALUE_TEXT]), ("a b", &[LABEL_VALUE_TEXT])],
        );
    }

    #[test]
    fn every_format_has_a_maximum_length() {
        let table: [(ValidateFn, usize); 5] = [
            (dns1123_label, DNS1123_LABEL_MAX_BYTES),
            (dns1123_subdomain, DNS1123_SUBDOMAIN_MAX_BYTES),
            (dns1035_label, DNS1035_LABEL_MAX_BYTES),
            (qualified_name, LABEL_NAME_MAX_BYTES),
            (label_value, LABEL_VALUE_MAX_BYTES),
        ];
        for (validate, bytes_max) in table {
            assert_eq!(validate(&"a".repeat(bytes_max)), ValidationProblems::new());
            assert_eq!(validate(&"a".repeat(bytes_max + 1)).len(), 1);
        }
        assert!(qualified_name(&format!("{}/a", "a".repeat(253))).is_empty());
        assert!(!qualified_name(&format!("{}/a", "a".repeat(254))).is_empty());
    }

    #[test]
    fn path_segments_are_checked_as_upstream() {
        let bad: &[(&str, &[&str])] = &[
            (".", &["may not be '.'"]),
            ("..", &["may not be '..'"]),
            ("a/b%", &["may not contain '/'", "may not contain '%'"]),
        ];
        check(path_segment_name, &["", "a", "...", "system:x"], bad);
        check(path_segment_prefix, &[".", ".."], &[]);
    }
}
