//! Reads a webhook's HTTP response with a size limit, and turns non-success responses into [`WebhookCallError`].

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use rhumb_meta::gotext::quote;
use serde::Deserialize;

use crate::error::WebhookCallError;
use crate::error_texts;

/// Maximum length of a response body; upstream has no limit. A patch that replaces the largest accepted object (3 MiB)
/// is 4 MiB long in base64.
pub const MAX_RESPONSE_BYTES: usize = 7 << 20;
/// How many bytes of an error response are read, and how many of them are shown in the error text.
const MAX_ERROR_BODY_BYTES: usize = 64 << 10;
const MAX_ERROR_TEXT_BYTES: usize = 2048;

/// Returns the body of a successful response.
pub(crate) async fn read_response(response: Response<Incoming>) -> Result<Bytes, WebhookCallError> {
    let (head, body) = response.into_parts();
    if !(200..=206).contains(&head.status.as_u16()) {
        return Err(error_from_response(head.status, &head.headers, body).await);
    }
    let body = match Limited::new(body, MAX_RESPONSE_BYTES).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            let text = format!("the response body is longer than {MAX_RESPONSE_BYTES} bytes");
            return Err(WebhookCallError::InvalidBody(text));
        }
        Err(error) => {
            return Err(WebhookCallError::InvalidBody(format!(
                "unexpected error when reading response body. Please retry. Original error: {}",
                error_texts::error_message(&*error)
            )));
        }
    };
    if body.is_empty() {
        return Err(WebhookCallError::InvalidBody(format!(
            "0-length response with status code: {} and content type: {}",
            head.status.as_u16(),
            content_type(&head.headers).unwrap_or("application/json"),
        )));
    }
    Ok(body)
}

async fn error_from_response(
    status: StatusCode,
    headers: &HeaderMap,
    body: Incoming,
) -> WebhookCallError {
    if status.is_redirection() {
        return redirect_error(status, headers);
    }
    let body = match Limited::new(body, MAX_ERROR_BODY_BYTES).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => Bytes::new(),
    };
    if let Some(error) = error_from_status(&body) {
        return error;
    }
    let code = status.as_u16();
    let text = client_go_message(status, &error_body_text(headers, &body));
    WebhookCallError::ErrorResponse { code, text }
}

/// Following a redirect would let the webhook's owner direct the API server to addresses that only the API server can
/// reach, and read what was found there in the error text (CVE-2020-8561).
fn redirect_error(status: StatusCode, headers: &HeaderMap) -> WebhookCallError {
    let code = status.as_u16();
    let to = headers
        .get(LOCATION)
        .and_then(|location| location.to_str().ok());
    let to = to.map_or(String::new(), |to| {
        format!(" to {}", quote(truncate(to, MAX_ERROR_TEXT_BYTES)))
    });
    let text = format!(
        "the server responded with a redirect ({code}){to}, and redirects are not followed"
    );
    WebhookCallError::ErrorResponse { code, text }
}

/// If the body is a `Status` with `status: Failure`, its message explains the error better than the status code does.
fn error_from_status(body: &[u8]) -> Option<WebhookCallError> {
    #[derive(Deserialize)]
    struct FailureStatus {
        status: String,
        #[serde(default)]
        message: String,
        #[serde(default)]
        code: u16,
    }
    let status: FailureStatus = serde_json::from_slice(body).ok()?;
    (status.status == "Failure").then(|| WebhookCallError::ErrorResponse {
        code: status.code,
        text: truncate(&status.message, MAX_ERROR_TEXT_BYTES).to_owned(),
    })
}

/// The part of an error body to show in the error text: text only, and truncated.
fn error_body_text(headers: &HeaderMap, body: &[u8]) -> String {
    let is_text = content_type(headers).is_none_or(|media| media.starts_with("text/"));
    if !is_text {
        return "unknown".to_owned();
    }
    let text = String::from_utf8_lossy(body);
    truncate(&text, MAX_ERROR_TEXT_BYTES).trim().to_owned()
}

fn content_type(headers: &HeaderMap) -> Option<&str> {
    headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
}

fn truncate(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// The error message that client-go derives from a status code.
fn client_go_message(status: StatusCode, message: &str) -> String {
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
