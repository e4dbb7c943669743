//! Resolves scalars by the rules of YAML 1.1, which has many notations for numbers and booleans.

use serde_json::Value;

use crate::decode::float;

/// The value of a scalar. Without a tag, only a plain (unquoted) scalar can be anything but a string.
pub(super) fn resolve(text: &str, is_plain: bool, tag: Option<&str>) -> Result<Value, String> {
    let resolved = match tag {
        Some("str") => return Ok(text.into()),
        None if !is_plain => return Ok(text.into()),
        _ => resolve_plain(text)?,
    };
    let matches_tag = match tag {
        Some("int") => resolved.is_i64() || resolved.is_u64(),
        Some("float") => resolved.is_number(),
        Some("bool") => resolved.is_boolean(),
        Some("null") => resolved.is_null(),
        _ => true,
    };
    if matches_tag {
        Ok(resolved)
    } else {
        let tag = tag.unwrap_or_default();
        Err(format!(
            "yaml: cannot decode {} `{text}` as a !!{tag}",
            tag_of(&resolved)
        ))
    }
}

fn tag_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "!!null",
        Value::Bool(_) => "!!bool",
        Value::Number(parse_number) if parse_number.is_f64() => "!!float",
        Value::Number(_) => "!!int",
        _ => "!!str",
    }
}

fn resolve_plain(text: &str) -> Result<Value, String> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            true.into()
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            false.into()
        }
        ".nan" | ".NaN" | ".NAN" => return Err("json: unsupported value: NaN".to_owned()),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Err("json: unsupported value: +Inf".to_owned());
        }
        "-.inf" | "-.Inf" | "-.INF" => {
            return Err("json: unsupported value: -Inf".to_owned());
        }
        _ => parse_number(text).unwrap_or_else(|| text.into()),
    })
}

fn parse_number(text: &str) -> Option<Value> {
    let first = text.bytes().next()?;
    if first == b'.' {
        return parse_float(text);
    }
    if !first.is_ascii_digit() && !matches!(first, b'+' | b'-') {
        return None;
    }
    let digits = text.replace('_', "");
    parse_integer(&digits).or_else(|| parse_float(&digits))
}

/// Parses an integer with Go's prefixes: 0x, 0b, 0o, and 0 for octal.
fn parse_integer(text: &str) -> Option<Value> {
    let (negative, magnitude) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (base, digits) = match magnitude.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &magnitude[2..]),
        [b'0', b'b' | b'B', ..] => (2, &magnitude[2..]),
        [b'0', b'o' | b'O', ..] => (8, &magnitude[2..]),
        [b'0', _, ..] => (8, &magnitude[1..]),
        _ => (10, magnitude),
    };
    if !digits.bytes().next()?.is_ascii_alphanumeric() {
        return None;
    }
    let value = u64::from_str_radix(digits, base).ok()?;
    if negative {
        return 0_i64.checked_sub_unsigned(value).map(Value::from);
    }
    match i64::try_from(value) {
        Ok(value) => Some(value.into()),
        Err(_) => (!text.starts_with('+')).then(|| value.into()),
    }
}

fn parse_float(text: &str) -> Option<Value> {
    let is_float_byte =
        |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-');
    if !text.bytes().all(is_float_byte) {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    value.is_finite().then(|| float(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn plain_scalars_are_resolved_by_yaml_1_1_rules() {
        for (text, expect) in [
            ("yes", json!(true)),
            ("Off", json!(false)),
            ("~", json!(null)),
            ("", json!(null)),
            ("12", json!(12)),
            ("-12", json!(-12)),
            ("+12", json!(12)),
            ("0644", json!(420)),
            ("0o644", json!(420)),
            ("0x1F", json!(31)),
            ("0b101", json!(5)),
            ("1_000", json!(1000)),
            ("08", json!(8)),
            ("1.5", json!(1.5)),
            (".5", json!(0.5)),
            ("1e3", json!(1000)),
            ("1.0", json!(1)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("18446744073709551615", json!(u64::MAX)),
            ("1.2.3", json!("1.2.3")),
            ("0x", json!("0x")),
            ("-", json!("-")),
            ("--1", json!("--1")),
            ("1e", json!("1e")),
            ("2001-01-01", json!("2001-01-01")),
            ("12:30", json!("12:30")),
            ("web", json!("web")),
            ("None", json!("None")),
        ] {
            assert_eq!(resolve(text, true, None), Ok(expect), "{text}");
        }
        assert_eq!(resolve("12", false, None), Ok(json!("12")));
        assert_eq!(resolve("12", true, Some("str")), Ok(json!("12")));
        assert!(resolve("web", true, Some("int")).is_err());
        assert!(resolve(".inf", true, None).is_err());
    }
}
