//! GET of one object.

use http::StatusCode;
use rhumb_meta::gotext::quote;
use rhumb_meta::{Revision, Status};

use super::Call;
use super::render::Shape;
use crate::http::Reply;
use crate::request::ALL_FORMS;

pub(super) async fn get(call: &Call<'_>) -> Result<Reply, Status> {
    let storage = call.storage()?;
    let shape = Shape::of(call, ALL_FORMS)?;
    let key = call.key()?;
    await_version(call, call.query.text("resourceVersion")).await?;
    let entry = storage
        .cache
        .get(&key)
        .map_err(Status::internal_error)?
        .ok_or_else(|| call.not_found())?;
    shape.whole(StatusCode::OK, &entry.json(), call.now)
}

/// Waits until the cache is as new as the client asks: absent means everything that was written, "0" anything.
pub(super) async fn await_version(call: &Call<'_>, version: &str) -> Result<(), Status> {
    match version {
        "" => call.api.fresh(call).await,
        "0" => Ok(()),
        version => call.api.not_older_than(parse_version(version)?).await,
    }
}

pub(super) fn parse_version(text: &str) -> Result<Revision, Status> {
    parse_uint(text).map(Revision::new).map_err(|error| {
        Status::bad_request(format!(
            "resourceVersion: Invalid value: {}: {error}",
            quote(text)
        ))
    })
}

/// A whole number as Go's `strconv.ParseUint` reads it, which knows no sign, or its error.
pub(super) fn parse_uint(text: &str) -> Result<u64, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let error = match text.parse() {
        Ok(number) if is_number => return Ok(number),
        _ if is_number => "value out of range",
        _ => "invalid syntax",
    };
    Err(format!(
        "strconv.ParseUint: parsing {}: {error}",
        quote(text)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_no_sign() {
        for (text, expect) in [
            ("0", Ok(0)),
            ("05", Ok(5)),
            ("18446744073709551615", Ok(u64::MAX)),
            ("18446744073709551616", Err("value out of range")),
            ("+5", Err("invalid syntax")),
            ("-5", Err("invalid syntax")),
            ("", Err("invalid syntax")),
            ("x", Err("invalid syntax")),
        ] {
            let expect =
                expect.map_err(|error| format!("strconv.ParseUint: parsing \"{text}\": {error}"));
            assert_eq!(parse_uint(text), expect);
        }
    }
}
