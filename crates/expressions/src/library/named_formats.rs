//! The format library: `format.dns1123Label().validate('x')` (upstream: `library.Format`).

use super::{FunctionTable, no_overload, url};
use crate::error::EvaluationResult;
use crate::interpreter::Interpreter;
use crate::library::opaque_value::OpaqueValue;
use crate::value::Value;
use rhumb_meta::validation;

/// A named string format, such as `dns1123Label` (`format.named`).
#[derive(Debug)]
pub struct NamedFormat {
    pub(crate) name: &'static str,
    /// The regex length from which upstream computes the cost.
    pub(crate) regex_size: u64,
    validate: fn(&str) -> Vec<String>,
}

macro_rules! formats {
    ($($constant:ident $name:literal $size:literal $validate:expr;)*) => {
        $(static $constant: NamedFormat = NamedFormat {
            name: $name,
            regex_size: $size,
            validate: $validate,
        };)*

        pub(super) const FUNCTIONS: FunctionTable = &[
            ("validate", validate),
            ("format.named", |_, args| match args {
                [Value::String(name)] => Ok(find_format(name)),
                _ => no_overload(),
            }),
            $((concat!("format.", $name), |_, _| {
                Ok(Value::Opaque(OpaqueValue::NamedFormat(&$constant)))
            }),)*
        ];

        fn find_format(name: &str) -> Value {
            match name {
                $($name => Value::some(Value::Opaque(OpaqueValue::NamedFormat(&$constant))),)*
                _ => Value::NONE,
            }
        }
    };
}

formats! {
    LABEL "dns1123Label" 30 |text| to_strings(validation::dns1123_label(text));
    SUBDOMAIN "dns1123Subdomain" 60 |text| to_strings(validation::dns1123_subdomain(text));
    LABEL_1035 "dns1035Label" 30 |text| to_strings(validation::dns1035_label(text));
    QUALIFIED "qualifiedName" 60 |text| to_strings(validation::qualified_name(text));
    LABEL_PREFIX "dns1123LabelPrefix" 30 |text| to_strings(validation::dns1123_label(&replace_trailing_dash(text)));
    SUBDOMAIN_PREFIX "dns1123SubdomainPrefix" 60
        |text| to_strings(validation::dns1123_subdomain(&replace_trailing_dash(text)));
    LABEL_1035_PREFIX "dns1035LabelPrefix" 30 |text| to_strings(validation::dns1035_label(&replace_trailing_dash(text)));
    LABEL_VALUE "labelValue" 40 |text| to_strings(validation::label_value(text));
    URI "uri" 1103 |text| url::parse_error(text).into_iter().collect();
    UUID "uuid" 72 |text| error_unless(is_uuid(text), "does not match the UUID format");
    BYTE "byte" 84 |text| error_unless(is_base64(text), "invalid base64");
    DATE "date" 72 |text| error_unless(is_date(text), "invalid date");
    DATETIME "datetime" 72 |text| error_unless(is_datetime(text), "invalid datetime");
}

fn to_strings(messages: Vec<&'static str>) -> Vec<String> {
    messages.into_iter().map(str::to_owned).collect()
}

fn error_unless(valid: bool, message: &str) -> Vec<String> {
    match valid {
        true => Vec::new(),
        false => vec![message.to_owned()],
    }
}

/// Replaces a trailing dash, which a prefix of a name may have, so that the rest is validated as a name.
fn replace_trailing_dash(text: &str) -> String {
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

fn validate(interpreter: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    let [
        Value::Opaque(OpaqueValue::NamedFormat(format)),
        Value::String(text),
    ] = args
    else {
        return no_overload();
    };
    interpreter.budget.check_deadline()?;
    let messages = (format.validate)(text);
    if messages.is_empty() {
        return Ok(Value::NONE);
    }
    let messages = messages.into_iter().map(Value::from).collect();
    Ok(Value::some(Value::list(messages)))
}
