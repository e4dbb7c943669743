//! GET of one object.

use http::StatusCode;
use rhumb_meta::{Revision, Status};

use super::render::Shape;
use super::{Call, Storage};
use crate::http::Reply;
use crate::request::ALL_FORMS;

pub(super) async fn get(call: &Call<'_>) -> Result<Reply, Status> {
    let storage = call.storage()?;
    let shape = Shape::of(call, ALL_FORMS)?;
    let key = call.key()?;
    await_version(call, call.query.text("resourceVersion")).await?;
    let snapshot = storage.cache.snapshot();
    let entry = snapshot
        .get(&key)
        .map_err(|error| unreadable(storage, &error))?
        .ok_or_else(|| call.not_found())?;
    shape.whole(StatusCode::OK, &entry.json(), call.now)
}

pub(super) fn unreadable(_storage: &Storage, error: &rhumb_cache::Unreadable) -> Status {
    Status::internal_error(error)
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
    text.parse::<u64>().map(Revision::new).map_err(|_| {
        let error = if text.bytes().all(|byte| byte.is_ascii_digit()) {
            "value out of range"
        } else {
            "invalid syntax"
        };
        Status::bad_request(format!(
            "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: {error}"
        ))
    })
}
