//! `get`: GET of one object, and waiting for a resourceVersion.

use http::StatusCode;
use rhumb_meta::gotext::quote;
use rhumb_meta::{Revision, Status};

use super::ResourceRequest;
use super::render::ResponseFormat;
use crate::http::Reply;
use crate::request::ALL_REPRESENTATIONS;
use rhumb_registry::RequestContext;

pub(super) async fn get(request: &ResourceRequest<'_>) -> Result<Reply, Status> {
    let storage = request.storage()?;
    let format = ResponseFormat::negotiate(request, ALL_REPRESENTATIONS)?;
    let key = request.key()?;
    await_resource_version(request, request.query.text("resourceVersion")).await?;
    let entry = storage
        .cache
        .get(&key)
        .map_err(Status::internal_error)?
        .ok_or_else(|| request.not_found())?;
    format.respond(StatusCode::OK, &entry.json(), request.now)
}

/// Waits until the cache has reached the requested resourceVersion. Absent means a consistent read, "0" means any
/// cached state.
pub(super) async fn await_resource_version(
    context: &RequestContext<'_>,
    version: &str,
) -> Result<(), Status> {
    match version {
        "" => context.registry.await_consistent(context).await,
        "0" => Ok(()),
        version => {
            context
                .registry
                .await_revision(parse_resource_version(version)?)
                .await
        }
    }
}

pub(super) fn parse_resource_version(text: &str) -> Result<Revision, Status> {
    parse_uint(text).map(Revision::new).map_err(|error| {
        Status::bad_request(format!(
            "resourceVersion: Invalid value: {}: {error}",
            quote(text)
        ))
    })
}

/// Parses an unsigned number as Go's `strconv.ParseUint` does, without a sign, and with its error messages.
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
    fn resource_versions_have_no_sign() {
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
