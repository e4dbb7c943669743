//! Request and response bodies in audit events, for the levels `Request` and `RequestResponse`.

use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::http::BODY_BYTES_MAX;

/// Longer response bodies (lists) are omitted, and the event is marked as truncated. Request bodies are limited to the
/// same size.
pub const RESPONSE_BYTES_MAX: usize = BODY_BYTES_MAX;

/// Keeps the body of a request until its event is written. Exists only for requests whose body is logged.
#[derive(Debug)]
pub struct AuditRequestRecorder {
    request: OnceLock<Bytes>,
    records_response: bool,
}

impl AuditRequestRecorder {
    pub fn new(records_response: bool) -> AuditRequestRecorder {
        AuditRequestRecorder {
            request: OnceLock::new(),
            records_response,
        }
    }

    /// Only the first call counts: the body with defaults, before admission.
    pub fn record(&self, request: impl FnOnce() -> Bytes) {
        self.request.get_or_init(request);
    }

    pub fn records_response(&self) -> bool {
        self.records_response
    }

    pub fn into_request(self) -> Option<Bytes> {
        self.request.into_inner()
    }
}

/// A body as JSON without line breaks. A body that is not JSON becomes a JSON string.
pub fn to_single_line_json(
    body: &[u8],
    omit_managed_fields: bool,
) -> serde_json::Result<Box<RawValue>> {
    let body = body.trim_ascii();
    // In JSON, line breaks occur only between tokens.
    let is_one_line = !body.iter().any(|byte| matches!(byte, b'\n' | b'\r'));
    if is_one_line
        && !omit_managed_fields
        && let Ok(raw) = serde_json::from_slice(body)
    {
        return Ok(raw);
    }
    let mut value = serde_json::from_slice(body)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(body).into_owned()));
    if omit_managed_fields {
        drop_managed_fields(&mut value);
    }
    to_raw_value(&value)
}

/// Removes `metadata.managedFields` from an object, the items of a list or the rows of a table.
fn drop_managed_fields(value: &mut Value) {
    if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    for item in list_mut(value, "items") {
        drop_managed_fields(item);
    }
    for row in list_mut(value, "rows") {
        if let Some(object) = row.get_mut("object") {
            drop_managed_fields(object);
        }
    }
}

fn list_mut<'v>(value: &'v mut Value, name: &str) -> impl Iterator<Item = &'v mut Value> {
    value
        .get_mut(name)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_embedded_in_the_event_line() {
        let check = |body: &str, omit: bool, expect: &str| {
            assert_eq!(
                to_single_line_json(body.as_bytes(), omit).unwrap().get(),
                expect,
                "{body}"
            );
        };
        check("{\"b\": 1.50,\"a\":2}\n", false, "{\"b\": 1.50,\"a\":2}");
        check("{\n  \"a\": \"x\\ny\"\r\n}", false, "{\"a\":\"x\\ny\"}");
        check("- a\n- b", false, "\"- a\\n- b\"");
        check("{\"a\":", true, "\"{\\\"a\\\":\"");
        check(
            r#"{"metadata":{"managedFields":[{}],"name":"x"}}"#,
            true,
            r#"{"metadata":{"name":"x"}}"#,
        );
        check(
            r#"{"items":[{"metadata":{"managedFields":[]}},7],"rows":[{"object":{"metadata":{"managedFields":[]}}},{"object":null}]}"#,
            true,
            r#"{"items":[{"metadata":{}},7],"rows":[{"object":{"metadata":{}}},{"object":null}]}"#,
        );
        // A field of that name elsewhere is user data.
        check(
            r#"{"data":{"managedFields":"x"}}"#,
            true,
            r#"{"data":{"managedFields":"x"}}"#,
        );
    }

    #[test]
    fn only_the_first_request_body_is_recorded() {
        let recorder = AuditRequestRecorder::new(false);
        recorder.record(|| Bytes::from_static(b"first"));
        recorder.record(|| Bytes::from_static(b"second"));
        assert_eq!(recorder.into_request().unwrap(), "first");
    }
}
