//! Bodies in the log: only of requests whose rule asks for them.

use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::Level;
use crate::http::BODY_BYTES_MAX;

/// Longer answers are not logged, and the event says so: lists have no end. No body of a request is longer.
pub const ANSWER_BYTES_MAX: usize = BODY_BYTES_MAX;

/// Keeps what a request sent until its event is written. Only requests whose body is logged have one.
#[derive(Debug)]
pub struct Recorder {
    request: OnceLock<Bytes>,
    wants_answer: bool,
}

impl Recorder {
    /// `None` if no body is logged at this level.
    pub fn of(level: Level) -> Option<Recorder> {
        (level >= Level::Request).then(|| Recorder {
            request: OnceLock::new(),
            wants_answer: level == Level::RequestResponse,
        })
    }

    /// The first that is recorded counts: what came in, and not what was made of it.
    pub fn record(&self, request: impl FnOnce() -> Bytes) {
        self.request.get_or_init(request);
    }

    pub fn wants_answer(&self) -> bool {
        self.wants_answer
    }

    pub fn into_request(self) -> Option<Bytes> {
        self.request.into_inner()
    }
}

/// A body as a part of one line. What is no JSON becomes a text, so that the line is.
pub(super) fn in_line(body: &[u8], omit_managed_fields: bool) -> serde_json::Result<Box<RawValue>> {
    let body = body.trim_ascii();
    // Only between its tokens can JSON have line breaks.
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

/// From an object, the items of a list and the rows of a table.
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
    fn bodies_become_parts_of_one_line() {
        let check = |body: &str, omit: bool, expect: &str| {
            assert_eq!(
                in_line(body.as_bytes(), omit).unwrap().get(),
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
        // A field of that name elsewhere is somebody's data.
        check(
            r#"{"data":{"managedFields":"x"}}"#,
            true,
            r#"{"data":{"managedFields":"x"}}"#,
        );
    }

    #[test]
    fn what_is_kept_depends_on_the_level() {
        assert!(Recorder::of(Level::None).is_none());
        assert!(Recorder::of(Level::Metadata).is_none());
        let recorder = Recorder::of(Level::Request).unwrap();
        assert!(!recorder.wants_answer());
        recorder.record(|| Bytes::from_static(b"first"));
        recorder.record(|| Bytes::from_static(b"second"));
        assert_eq!(recorder.into_request().unwrap(), "first");
        assert!(Recorder::of(Level::RequestResponse).unwrap().wants_answer());
    }
}
