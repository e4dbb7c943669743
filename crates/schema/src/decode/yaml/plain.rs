//! What a scalar is: YAML 1.1 has many ways to write a number and a boolean.

use serde_json::Value;

use crate::decode::float;

/// The value of a scalar. Only plain ones can be something else than text, unless a tag says so.
pub(super) fn resolve(text: &str, plain: bool, tag: Option<&str>) -> Result<Value, String> {
    let resolved = match tag {
        Some("str") => return Ok(text.into()),
        None if !plain => return Ok(text.into()),
        _ => resolve_plain(text)?,
    };
    let fits = match tag {
        Some("int") => resolved.is_i64() || resolved.is_u64(),
        Some("float") => resolved.is_number(),
        Some("bool") => resolved.is_boolean(),
        Some("null") => resolved.is_null(),
        _ => true,
    };
    if fits {
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
        Value::Number(number) if number.is_f64() => "!!float",
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
        _ => number(text).unwrap_or_else(|| text.into()),
    })
}

fn number(text: &str) -> Option<Value> {
    let first = text.bytes().next()?;
    if first == b'.' {
        return real(text);
    }
    if !first.is_ascii_digit() && !matches!(first, b'+' | b'-') {
        return None;
    }
    let digits = text.replace('_', "");
    integer(&digits).or_else(|| real(&digits))
}

/// With the prefixes of Go: 0x, 0b, 0o, and 0 for octal.
fn integer(text: &str) -> Option<Value> {
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

fn real(text: &str) -> Option<Value> {
    let is_part =
        |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-');
    if !text.bytes().all(is_part) {
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
    fn plain_scalars_are_read_as_yaml_1_1() {
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
