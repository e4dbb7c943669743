//! Formats with names: `format.dns1123Label().validate('x')`.

use super::{Table, no_overload, url};
use crate::error::Evaluated;
use crate::library::opaque::Opaque;
use crate::run::Machine;
use crate::value::Value;
use rhumb_meta::validation;

/// A way in which a text may be written.
#[derive(Debug)]
pub struct Format {
    pub(crate) name: &'static str,
    /// How long the pattern is that upstream takes it to cost.
    pub(crate) regex_size: u64,
    problems: fn(&str) -> Vec<String>,
}

macro_rules! formats {
    ($($constant:ident $name:literal $size:literal $problems:expr;)*) => {
        $(static $constant: Format = Format {
            name: $name,
            regex_size: $size,
            problems: $problems,
        };)*

        pub(super) const TABLE: Table = &[
            ("validate", validate),
            ("format.named", |_, args| match args {
                [Value::String(name)] => Ok(named(name)),
                _ => no_overload(),
            }),
            $((concat!("format.", $name), |_, _| {
                Ok(Value::Opaque(Opaque::Format(&$constant)))
            }),)*
        ];

        fn named(name: &str) -> Value {
            match name {
                $($name => Value::some(Value::Opaque(Opaque::Format(&$constant))),)*
                _ => Value::NONE,
            }
        }
    };
}

formats! {
    LABEL "dns1123Label" 30 |text| owned(validation::dns1123_label(text));
    SUBDOMAIN "dns1123Subdomain" 60 |text| owned(validation::dns1123_subdomain(text));
    LABEL_1035 "dns1035Label" 30 |text| owned(validation::dns1035_label(text));
    QUALIFIED "qualifiedName" 60 |text| owned(validation::qualified_name(text));
    LABEL_PREFIX "dns1123LabelPrefix" 30 |text| owned(validation::dns1123_label(&prefix(text)));
    SUBDOMAIN_PREFIX "dns1123SubdomainPrefix" 60
        |text| owned(validation::dns1123_subdomain(&prefix(text)));
    LABEL_1035_PREFIX "dns1035LabelPrefix" 30 |text| owned(validation::dns1035_label(&prefix(text)));
    LABEL_VALUE "labelValue" 40 |text| owned(validation::label_value(text));
    URI "uri" 1103 |text| url::problem(text).into_iter().collect();
    UUID "uuid" 72 |text| unless(is_uuid(text), "does not match the UUID format");
    BYTE "byte" 84 |text| unless(is_base64(text), "invalid base64");
    DATE "date" 72 |text| unless(is_date(text), "invalid date");
    DATETIME "datetime" 72 |text| unless(is_datetime(text), "invalid datetime");
}

fn owned(problems: Vec<&'static str>) -> Vec<String> {
    problems.into_iter().map(str::to_owned).collect()
}

fn unless(good: bool, problem: &str) -> Vec<String> {
    match good {
        true => Vec::new(),
        false => vec![problem.to_owned()],
    }
}

/// A prefix of a name may end with a dash: something will follow it.
fn prefix(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if !rest.is_empty() && rest.is_char_boundary(rest.len() - 1) => {
            format!("{}a", &rest[..rest.len() - 1])
        }
        _ => text.to_owned(),
    }
}

fn is_uuid(text: &str) -> bool {
    let mut digits = 0;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'-' if matches!(digits, 8 | 12 | 16 | 20)
                && index > 0
                && text.as_bytes()[index - 1] != b'-' => {}
            _ if byte.is_ascii_hexdigit() => digits += 1,
            _ => return false,
        }
    }
    digits == 32
}

fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && padding <= 2
        && digits
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

fn is_date(text: &str) -> bool {
    text.len() == 10
        && format!("{text}T00:00:00Z")
            .parse::<rhumb_meta::Timestamp>()
            .is_ok()
}

fn is_datetime(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let Some((date, time)) = lower.split_once('t') else {
        return false;
    };
    let Some((clock, rest)) = time.split_at_checked(8) else {
        return false;
    };
    let digits = |from: usize| -> Option<u8> {
        let part = clock.get(from..from + 2)?;
        part.bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| part.parse().ok())?
    };
    let good_clock = clock.as_bytes()[2] == b':'
        && clock.as_bytes()[5] == b':'
        && digits(0).is_some_and(|hours| hours <= 23)
        && digits(3).is_some_and(|minutes| minutes <= 59)
        && digits(6).is_some_and(|seconds| seconds <= 59);
    let zone = match rest.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => rest,
    };
    let zone = zone.as_bytes();
    let good_zone = zone == b"z"
        || zone.len() == 6
            && matches!(zone[0], b'+' | b'-')
            && zone[3] == b':'
            && [1, 2, 4, 5].iter().all(|at| zone[*at].is_ascii_digit());
    is_date(date) && good_clock && good_zone
}

fn validate(machine: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    let [Value::Opaque(Opaque::Format(format)), Value::String(text)] = args else {
        return no_overload();
    };
    machine.budget.look_at_clock()?;
    let problems = (format.problems)(text);
    if problems.is_empty() {
        return Ok(Value::NONE);
    }
    let problems = problems.into_iter().map(Value::from).collect();
    Ok(Value::some(Value::list(problems)))
}
