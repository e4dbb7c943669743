//! Writes JSON, byte for byte as serde_json does, but faster: strings that need no escaping are copied.

use std::io::Write as _;

use serde_json::{Map, Number, Value};

use super::special_bytes::needs_no_escaping;

/// Appends a value.
pub fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_text(text, out),
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(item, out);
            }
            out.push(b']');
        }
        Value::Object(fields) => write_object(fields, out),
    }
}

pub(crate) fn write_object(fields: &Map<String, Value>, out: &mut Vec<u8>) {
    out.push(b'{');
    for (index, (name, value)) in fields.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_field(name, value, out);
    }
    out.push(b'}');
}

/// Appends one field: `"name":value`.
pub fn write_field(name: &str, value: &Value, out: &mut Vec<u8>) {
    write_text(name, out);
    out.push(b':');
    write(value, out);
}

fn write_number(number: &Number, out: &mut Vec<u8>) {
    match number.as_u64() {
        Some(number) => write_digits(number, out),
        // Writing to memory does not fail.
        None => _ = write!(out, "{number}"),
    }
}

fn write_digits(mut number: u64, out: &mut Vec<u8>) {
    const DIGITS_MAX: usize = 20;
    let mut digits = [b'0'; DIGITS_MAX];
    let mut begin = DIGITS_MAX;
    loop {
        begin -= 1;
        digits[begin] += (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[begin..]);
}

pub(crate) fn write_text(text: &str, out: &mut Vec<u8>) {
    if !needs_no_escaping(text.as_bytes()) {
        // Writing to memory does not fail.
        _ = serde_json::to_writer(out, text);
        return;
    }
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn check(value: &Value) {
        let mut written = Vec::new();
        write(value, &mut written);
        let written = String::from_utf8(written).expect("JSON is text");
        assert_eq!(written, value.to_string());
    }

    #[test]
    fn output_equals_that_of_serde_json() {
        check(&json!({
            "null": null, "yes": true, "no": false, "text": "a", "empty": "", "é\u{1F600}": "\u{7f}\u{2028}",
            "numbers": [0, 7, 10, 1_234_567_890, -1, i64::MIN, u64::MAX, 1.5, -0.0, 1e300, 5e-324],
            "nested": {"list": [[], {}, [{"a": [1, 2]}]], "object": {}},
        }));
        for code in 0..0x100_u32 {
            let text: String = char::from_u32(code).into_iter().collect();
            check(&Value::String(format!("before{text}after")));
            check(&json!({ text: 1 }));
        }
    }

    proptest! {
        #[test]
        fn any_string_is_written_as_by_serde_json(text in any::<String>()) {
            check(&Value::String(text));
        }
    }
}
