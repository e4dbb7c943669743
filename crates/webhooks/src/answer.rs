//! The answer of a server, with a limit on its size, and what an answer other than success means.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use rhumb_meta::gotext::quote;
use serde::Deserialize;

use crate::error::CallError;
use crate::texts;

/// How long an answer may be. Upstream has no limit. A patch that replaces all of the largest object that may be
/// sent, 3 MiB, is 4 MiB long in base64.
pub const MAX_ANSWER_BYTES: usize = 7 << 20;
/// How much of the body of a failure is read, and how much of it is shown.
const MAX_FAILURE_BYTES: usize = 64 << 10;
const MAX_SHOWN_BYTES: usize = 2048;

/// The body of a success.
pub(crate) async fn read(response: Response<Incoming>) -> Result<Bytes, CallError> {
    let (head, body) = response.into_parts();
    if !(200..=206).contains(&head.status.as_u16()) {
        return Err(failure(head.status, &head.headers, body).await);
    }
    let body = match Limited::new(body, MAX_ANSWER_BYTES).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            let text = format!("the response body is longer than {MAX_ANSWER_BYTES} bytes");
            return Err(CallError::Body(text));
        }
        Err(error) => {
            return Err(CallError::Body(format!(
                "unexpected error when reading response body. Please retry. Original error: {}",
                texts::cause(&*error)
            )));
        }
    };
    if body.is_empty() {
        return Err(CallError::Body(format!(
            "0-length response with status code: {} and content type: {}",
            head.status.as_u16(),
            content_type(&head.headers).unwrap_or("application/json"),
        )));
    }
    Ok(body)
}

async fn failure(status: StatusCode, headers: &HeaderMap, body: Incoming) -> CallError {
    if status.is_redirection() {
        return redirection(status, headers);
    }
    let body = match Limited::new(body, MAX_FAILURE_BYTES).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => Bytes::new(),
    };
    if let Some(said) = said_itself(&body) {
        return said;
    }
    let code = status.as_u16();
    let text = text_of(status, &shown(headers, &body));
    CallError::Answer { code, text }
}

/// A redirect would let whoever runs the webhook send the server to places that only the server can reach, and
/// show them what was found there in the text of an error (CVE-2020-8561).
fn redirection(status: StatusCode, headers: &HeaderMap) -> CallError {
    let code = status.as_u16();
    let to = headers
        .get(LOCATION)
        .and_then(|location| location.to_str().ok());
    let to = to.map_or(String::new(), |to| {
        format!(" to {}", quote(cut(to, MAX_SHOWN_BYTES)))
    });
    let text = format!(
        "the server responded with a redirect ({code}){to}, and redirects are not followed"
    );
    CallError::Answer { code, text }
}

/// A server that has a Status to show explains itself better than its status code does.
fn said_itself(body: &[u8]) -> Option<CallError> {
    #[derive(Deserialize)]
    struct Said {
        status: String,
        #[serde(default)]
        message: String,
        #[serde(default)]
        code: u16,
    }
    let said: Said = serde_json::from_slice(body).ok()?;
    (said.status == "Failure").then(|| CallError::Answer {
        code: said.code,
        text: cut(&said.message, MAX_SHOWN_BYTES).to_owned(),
    })
}

/// What a person should see of the body: text, and not too much of it.
fn shown(headers: &HeaderMap, body: &[u8]) -> String {
    let is_text = content_type(headers).is_none_or(|media| media.starts_with("text/"));
    if !is_text {
        return "unknown".to_owned();
    }
    let text = String::from_utf8_lossy(body);
    cut(&text, MAX_SHOWN_BYTES).trim().to_owned()
}

fn content_type(headers: &HeaderMap) -> Option<&str> {
    headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
}

fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// What client-go makes of a status code.
fn text_of(status: StatusCode, message: &str) -> String {
    let text = match status.as_u16() {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 | 415 => message,
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        406 if message.is_empty() || message == "unknown" => {
            "the server was unable to respond with a content type that the client supports"
        }
        406 => message,
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        code if code >= 500 => {
            return format!(
                "an error on the server ({}) has prevented the request from succeeding",
                quote(message)
            );
        }
        code => {
            return format!(
                "the server responded with the status code {code} but did not return more information"
            );
        }
    };
    text.to_owned()
}
