//! An HTTP response of the API server, before it is sent: code, headers, body, and what the audit log records of it.

use std::any::Any;
use std::collections::HashSet;

use bytes::Bytes;
use http::header::{
    CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, WARNING,
};
use http::{Response, StatusCode};
use rhumb_meta::Status;
use rhumb_schema::{SchemaRef, Table, protobuf};
use serde_json::Value;
use tokio::sync::oneshot::Sender;

use super::ResponseBody;
use crate::audit_body::RESPONSE_BYTES_MAX;
use crate::request::{ALL_REPRESENTATIONS, MediaType, NegotiatedAccept};

/// The maximum length of all warnings together, in characters. Above it, each is truncated, as upstream does.
const WARNINGS_MAX: usize = 4 * 1024;
const CUT_WARNING_MAX: usize = 256;
/// The maximum number of warnings. Upstream has no such limit, but hyper, and thus kube-rs, rejects responses with more
/// than a hundred headers.
const WARNING_COUNT_MAX: usize = 64;

/// What the audit log records as the response object, if the policy asks for it.
#[derive(Debug, Default)]
pub enum AuditedBody {
    /// The body, if that is JSON.
    #[default]
    Body,
    Nothing,
    /// The response as JSON, if the body has another media type.
    Json(Bytes),
    TooLong,
}

/// An HTTP response and its audit data.
#[derive(Debug)]
pub struct Reply {
    pub code: StatusCode,
    pub headers: HeaderMap,
    pub body: ResponseBody,
    /// The error Status, for the audit log.
    pub failure: Option<Box<Status>>,
    /// Audit annotations.
    pub annotations: Vec<(String, String)>,
    pub audited_body: AuditedBody,
    /// Receives the guards that must live as long as the response, if it outlives its body: a WebSocket.
    pub guard_sender: Option<Sender<Box<dyn Any + Send>>>,
}

impl Reply {
    pub fn new(code: StatusCode, content_type: &'static str, body: ResponseBody) -> Reply {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        Reply {
            code,
            headers,
            body,
            failure: None,
            annotations: Vec::new(),
            audited_body: AuditedBody::Body,
            guard_sender: None,
        }
    }

    /// As upstream writes it, the JSON ends with a newline.
    pub fn json(code: StatusCode, value: &impl serde::Serialize) -> Reply {
        match to_json_line(value) {
            Ok(line) => Reply::new(code, "application/json", ResponseBody::full(line)),
            Err(error) => Reply::status(&Status::internal_error(error)),
        }
    }

    pub fn empty(code: StatusCode) -> Reply {
        let mut reply = Reply::text(code, "");
        reply.headers.clear();
        reply
    }

    pub fn text(code: StatusCode, text: impl Into<String>) -> Reply {
        Reply::new(
            code,
            "text/plain; charset=utf-8",
            ResponseBody::full(text.into()),
        )
    }

    /// The response with an error Status, as JSON.
    pub fn status(status: &Status) -> Reply {
        let code = u16::try_from(status.code)
            .ok()
            .and_then(|code| StatusCode::from_u16(code).ok())
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = to_json_line(status).unwrap_or_default();
        let mut reply = Reply::new(code, MediaType::Json.name(), ResponseBody::full(body));
        reply.failure = Some(Box::new(status.clone()));
        if let Some(seconds) = status.retry_after_seconds() {
            reply
                .headers
                .insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        reply
    }

    /// The response with an error Status, in the media type of the Accept header.
    pub fn status_for(status: &Status, accept: Option<&HeaderValue>) -> Reply {
        let mut reply = Reply::status(status);
        let header = accept.and_then(|accept| accept.to_str().ok());
        let media = NegotiatedAccept::negotiate(header, ALL_REPRESENTATIONS)
            .map_or(MediaType::Json, |accept| accept.media);
        let body = match media {
            MediaType::Json => None,
            MediaType::Yaml => serde_json::to_value(status)
                .ok()
                .and_then(|value| rhumb_schema::write_yaml(&value).ok())
                .map(String::into_bytes),
            MediaType::Protobuf => protobuf_status(status),
        };
        if let Some(body) = body {
            let media = HeaderValue::from_static(media.name());
            reply.headers.insert(CONTENT_TYPE, media);
            reply.body = ResponseBody::full(body);
        }
        reply
    }

    pub fn header(mut self, name: HeaderName, value: &str) -> Reply {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }

    /// Adds `Warning: 299` headers, without duplicates, up to the limits.
    pub fn with_warnings<'a>(mut self, warnings: impl IntoIterator<Item = &'a str>) -> Reply {
        let mut seen = HashSet::new();
        let mut texts: Vec<&str> = warnings.into_iter().collect();
        texts.retain(|text| seen.insert(*text));
        texts.truncate(WARNING_COUNT_MAX);
        let length = |text: &str| text.chars().count();
        let mut remaining = WARNINGS_MAX;
        let must_truncate = texts.iter().map(|text| length(text)).sum::<usize>() > remaining;
        for text in texts {
            let text: String = match must_truncate {
                true => text.chars().take(CUT_WARNING_MAX).collect(),
                false => text.to_owned(),
            };
            let Some(left_after) = remaining.checked_sub(length(&text)) else {
                break;
            };
            if let Ok(value) = HeaderValue::from_str(&format!("299 - {}", quote_header_text(&text)))
            {
                remaining = left_after;
                self.headers.append(WARNING, value);
            }
        }
        self
    }

    /// The response for the audit log: an object or a Status, but nothing for streams.
    pub fn take_audited_body(&mut self) -> AuditedBody {
        if self.is_long_running() {
            return AuditedBody::Nothing;
        }
        if let Some(status) = &self.failure {
            let json = serde_json::to_vec(status);
            return json.map_or(AuditedBody::Nothing, |json| AuditedBody::Json(json.into()));
        }
        match std::mem::take(&mut self.audited_body) {
            AuditedBody::Body if self.is_json() => match self.body.bytes_total() {
                Some(total) if total <= RESPONSE_BYTES_MAX as u64 => self
                    .body
                    .collect()
                    .map_or(AuditedBody::Nothing, AuditedBody::Json),
                _ => AuditedBody::TooLong,
            },
            AuditedBody::Body => AuditedBody::Nothing,
            AuditedBody::Json(json) if json.len() > RESPONSE_BYTES_MAX => AuditedBody::TooLong,
            logged => logged,
        }
    }

    fn is_json(&self) -> bool {
        let content_type = self.headers.get(CONTENT_TYPE);
        content_type.is_some_and(|value| {
            value
                .as_bytes()
                .starts_with(MediaType::Json.name().as_bytes())
        }) && !self.headers.contains_key(CONTENT_ENCODING)
    }

    /// Whether the response is a stream, such as a watch or a WebSocket.
    pub fn is_long_running(&self) -> bool {
        self.body.is_stream() || self.guard_sender.is_some()
    }

    /// Keeps a value alive until the response is complete.
    pub fn with_guard(mut self, held: impl Any + Send) -> Reply {
        let held = Box::new(held);
        match self.guard_sender.take() {
            // If the receiver is dropped, the response is over already.
            Some(keeper) => drop(keeper.send(held)),
            None => self.body = self.body.with_guard(held),
        }
        self
    }

    pub fn into_response(self) -> Response<ResponseBody> {
        let mut response = Response::new(self.body);
        *response.status_mut() = self.code;
        *response.headers_mut() = self.headers;
        response
    }
}

impl From<Status> for Reply {
    fn from(status: Status) -> Reply {
        Reply::status(&status)
    }
}

fn to_json_line(value: &impl serde::Serialize) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

/// Encodes a Status as protobuf, with its envelope.
pub fn protobuf_status(status: &Status) -> Option<Vec<u8>> {
    let schema = SchemaRef::find(Table::builtin(), protobuf::STATUS_TYPE)?;
    match serde_json::to_value(status) {
        Ok(Value::Object(object)) => {
            protobuf::encode_with_envelope(schema.table(), schema.id(), &object).ok()
        }
        _ => None,
    }
}

/// Quotes a text as an HTTP quoted-string; control characters become spaces.
fn quote_header_text(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(character);
            }
            character if character.is_control() => quoted.push(' '),
            character => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings_of<'a>(warnings: impl IntoIterator<Item = &'a str>) -> Vec<HeaderValue> {
        let reply = Reply::text(StatusCode::OK, "").with_warnings(warnings);
        reply.headers.get_all(WARNING).iter().cloned().collect()
    }

    #[test]
    fn warnings_are_quoted_and_deduplicated() {
        let field = "unknown field \"spec.a\"";
        assert_eq!(
            warnings_of([field, field, "two\nlines"]),
            [
                r#"299 - "unknown field \"spec.a\"""#,
                r#"299 - "two lines""#
            ]
        );
    }

    #[test]
    fn warnings_are_truncated_only_above_the_total_limit() {
        let long = "x".repeat(WARNINGS_MAX - 5);
        assert_eq!(warnings_of([&*long, "short"]).len(), 2);
        assert_eq!(warnings_of([&*long])[0].len(), long.len() + 8);
        let truncated = format!("299 - \"{}\"", &long[..CUT_WARNING_MAX]);
        assert_eq!(
            warnings_of([&*long, "longer"]),
            [&*truncated, "299 - \"longer\""]
        );

        let many: Vec<String> = (0..10_000).map(|number| format!("{number:0256}")).collect();
        let warnings = warnings_of(many.iter().map(String::as_str));
        assert_eq!(warnings.len(), WARNINGS_MAX / CUT_WARNING_MAX);

        let short: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        let warnings = warnings_of(short.iter().map(String::as_str));
        assert_eq!(warnings.len(), WARNING_COUNT_MAX);
    }

    #[test]
    fn errors_are_encoded_in_the_negotiated_media_type() {
        let check = |accept: &str, expect: &str| {
            let accept = HeaderValue::from_str(accept).unwrap();
            let mut reply = Reply::status_for(&Status::bad_request("no"), Some(&accept));
            assert_eq!(reply.headers[CONTENT_TYPE], expect);
            let body = reply.body.next_chunk().unwrap();
            assert_eq!(
                body.starts_with(protobuf::MAGIC),
                expect.ends_with("protobuf")
            );
        };
        check("application/json", "application/json");
        check("text/html", "application/json");
        check(
            "application/vnd.kubernetes.protobuf,application/json",
            "application/vnd.kubernetes.protobuf",
        );
        check(
            "application/json,application/vnd.kubernetes.protobuf",
            "application/json",
        );
    }
}
