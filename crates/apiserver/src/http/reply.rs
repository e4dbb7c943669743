//! An answer on its way out.

use std::any::Any;
use std::collections::HashSet;

use bytes::Bytes;
use http::header::{
    CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, WARNING,
};
use http::{Response, StatusCode};
use rhumb_meta::Status;
use rhumb_schema::{Table, protobuf};
use serde_json::Value;
use tokio::sync::oneshot::Sender;

use super::Body;
use crate::audit::ANSWER_BYTES_MAX;
use crate::request::{ALL_FORMS, Accept, Media};

/// How long all warnings may be together, in characters. If they are longer, each is cut, as upstream cuts them.
const WARNINGS_MAX: usize = 4 * 1024;
const CUT_WARNING_MAX: usize = 256;
/// How many there may be. Upstream has no such limit, but hyper, and with it kube-rs, reads no more than a hundred
/// headers, and would not read the answer at all.
const WARNING_COUNT_MAX: usize = 64;

/// What the audit log shows as the answer, where it is asked to.
#[derive(Debug, Default)]
pub enum Logged {
    /// The body, if that is JSON.
    #[default]
    Body,
    Nothing,
    /// The same in JSON, where the body is something else.
    Json(Bytes),
    TooLong,
}

/// An answer: code, headers, body.
#[derive(Debug)]
pub struct Reply {
    pub code: StatusCode,
    pub headers: HeaderMap,
    pub body: Body,
    /// What failed, for the audit log.
    pub failure: Option<Box<Status>>,
    /// What the audit log is to know beside that.
    pub annotations: Vec<(String, String)>,
    pub logged: Logged,
    /// Takes over what lives as long as the answer, where that is longer than the body: a WebSocket.
    pub keeper: Option<Sender<Box<dyn Any + Send>>>,
}

impl Reply {
    pub fn new(code: StatusCode, content_type: &'static str, body: Body) -> Reply {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        Reply {
            code,
            headers,
            body,
            failure: None,
            annotations: Vec::new(),
            logged: Logged::Body,
            keeper: None,
        }
    }

    pub fn json(code: StatusCode, value: &impl serde::Serialize) -> Reply {
        match serde_json::to_vec(value) {
            Ok(bytes) => Reply::new(code, "application/json", Body::full(bytes)),
            Err(error) => Reply::status(&Status::internal_error(error)),
        }
    }

    pub fn empty(code: StatusCode) -> Reply {
        let mut reply = Reply::text(code, "");
        reply.headers.clear();
        reply
    }

    pub fn text(code: StatusCode, text: impl Into<String>) -> Reply {
        Reply::new(code, "text/plain; charset=utf-8", Body::full(text.into()))
    }

    /// A failure as its Status object.
    pub fn status(status: &Status) -> Reply {
        let code = u16::try_from(status.code)
            .ok()
            .and_then(|code| StatusCode::from_u16(code).ok())
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(status).unwrap_or_default();
        let mut reply = Reply::new(code, Media::Json.name(), Body::full(body));
        reply.failure = Some(Box::new(status.clone()));
        if let Some(seconds) = status.retry_after_seconds() {
            reply
                .headers
                .insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        reply
    }

    /// A failure, in the form that the client likes best.
    pub fn status_for(status: &Status, accept: Option<&HeaderValue>) -> Reply {
        let mut reply = Reply::status(status);
        let header = accept.and_then(|accept| accept.to_str().ok());
        let media = Accept::negotiate(header, ALL_FORMS).map_or(Media::Json, |accept| accept.media);
        let body = match media {
            Media::Json => None,
            Media::Yaml => serde_json::to_value(status)
                .ok()
                .and_then(|value| rhumb_schema::write_yaml(&value).ok())
                .map(String::into_bytes),
            Media::Protobuf => protobuf_status(status),
        };
        if let Some(body) = body {
            let media = HeaderValue::from_static(media.name());
            reply.headers.insert(CONTENT_TYPE, media);
            reply.body = Body::full(body);
        }
        reply
    }

    pub fn header(mut self, name: HeaderName, value: &str) -> Reply {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }

    /// Adds `299` warnings, each text once, until the limit is reached.
    pub fn warn<'a>(mut self, warnings: impl IntoIterator<Item = &'a str>) -> Reply {
        let mut known = HashSet::new();
        let mut texts: Vec<&str> = warnings.into_iter().collect();
        texts.retain(|text| known.insert(*text));
        texts.truncate(WARNING_COUNT_MAX);
        let length = |text: &str| text.chars().count();
        let mut room = WARNINGS_MAX;
        let cut = texts.iter().map(|text| length(text)).sum::<usize>() > room;
        for text in texts {
            let text: String = match cut {
                true => text.chars().take(CUT_WARNING_MAX).collect(),
                false => text.to_owned(),
            };
            let Some(left) = room.checked_sub(length(&text)) else {
                break;
            };
            if let Ok(value) = HeaderValue::from_str(&format!("299 - {}", quoted(&text))) {
                room = left;
                self.headers.append(WARNING, value);
            }
        }
        self
    }

    /// The answer as the audit log shows it: an object or a Status, and nothing of a stream.
    pub fn take_logged(&mut self) -> Logged {
        if self.is_long_running() {
            return Logged::Nothing;
        }
        if let Some(status) = &self.failure {
            let json = serde_json::to_vec(status);
            return json.map_or(Logged::Nothing, |json| Logged::Json(json.into()));
        }
        match std::mem::take(&mut self.logged) {
            Logged::Body if self.has_json() => match self.body.bytes_total() {
                Some(total) if total <= ANSWER_BYTES_MAX as u64 => {
                    self.body.whole().map_or(Logged::Nothing, Logged::Json)
                }
                _ => Logged::TooLong,
            },
            Logged::Body => Logged::Nothing,
            Logged::Json(json) if json.len() > ANSWER_BYTES_MAX => Logged::TooLong,
            logged => logged,
        }
    }

    fn has_json(&self) -> bool {
        let content_type = self.headers.get(CONTENT_TYPE);
        content_type.is_some_and(|it| it.as_bytes().starts_with(Media::Json.name().as_bytes()))
            && !self.headers.contains_key(CONTENT_ENCODING)
    }

    /// Whether it is a stream, which ends when its source or its reader does.
    pub fn is_long_running(&self) -> bool {
        self.body.is_stream() || self.keeper.is_some()
    }

    /// Keeps something until the answer is over.
    pub fn holding(mut self, held: impl Any + Send) -> Reply {
        let held = Box::new(held);
        match self.keeper.take() {
            // A keeper that is gone has ended already.
            Some(keeper) => drop(keeper.send(held)),
            None => self.body = self.body.holding(held),
        }
        self
    }

    pub fn into_response(self) -> Response<Body> {
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

/// A Status as protobuf, with its envelope.
pub fn protobuf_status(status: &Status) -> Option<Vec<u8>> {
    let table = Table::builtin();
    let of = table.named(protobuf::STATUS)?;
    match serde_json::to_value(status) {
        Ok(Value::Object(object)) => protobuf::seal(table, of, &object).ok(),
        _ => None,
    }
}

/// A text in quotes as headers write it; control characters become spaces.
fn quoted(text: &str) -> String {
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
        let reply = Reply::text(StatusCode::OK, "").warn(warnings);
        reply.headers.get_all(WARNING).iter().cloned().collect()
    }

    #[test]
    fn warnings_are_quoted_and_told_once() {
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
    fn warnings_are_cut_only_if_they_are_too_long_together() {
        let long = "x".repeat(WARNINGS_MAX - 5);
        assert_eq!(warnings_of([&*long, "short"]).len(), 2);
        assert_eq!(warnings_of([&*long])[0].len(), long.len() + 8);
        let cut = format!("299 - \"{}\"", &long[..CUT_WARNING_MAX]);
        assert_eq!(warnings_of([&*long, "longer"]), [&*cut, "299 - \"longer\""]);

        let many: Vec<String> = (0..10_000).map(|number| format!("{number:0256}")).collect();
        let told = warnings_of(many.iter().map(String::as_str));
        assert_eq!(told.len(), WARNINGS_MAX / CUT_WARNING_MAX);

        let short: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        let told = warnings_of(short.iter().map(String::as_str));
        assert_eq!(told.len(), WARNING_COUNT_MAX);
    }

    #[test]
    fn failures_are_told_in_the_form_that_a_client_likes_best() {
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
