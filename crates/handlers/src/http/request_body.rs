//! Reads request bodies up to the maximum size.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use rhumb_meta::Status;

/// The maximum size of a request body, as upstream has it.
pub const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// How much of a too long body is read and discarded before the response is sent.
const DISCARDED_BYTES_MAX: usize = 4 * BODY_BYTES_MAX;

/// How long a client may pause while the rest of its body is discarded.
const DISCARD_PAUSE_MAX: Duration = Duration::from_millis(500);

/// Reads the whole body; fails if it is too long or incomplete.
pub async fn read_body<B>(mut body: B) -> Result<Bytes, Status>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let announced = body.size_hint().lower();
    if announced > BODY_BYTES_MAX as u64 {
        if announced <= DISCARDED_BYTES_MAX as u64 {
            discard(body).await;
        }
        return Err(too_large());
    }
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            Status::bad_request(format!("failed to read the request body: {error}"))
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let length = first.as_ref().map_or(0, Bytes::len) + rest.len();
        if length + data.len() > BODY_BYTES_MAX {
            discard(body).await;
            return Err(too_large());
        }
        match &first {
            None => first = Some(data),
            Some(_) => rest.extend_from_slice(&data),
        }
    }
    Ok(match first {
        None => Bytes::new(),
        Some(first) if rest.is_empty() => first,
        Some(first) => {
            let mut whole = BytesMut::with_capacity(first.len() + rest.len());
            whole.extend_from_slice(&first);
            whole.extend_from_slice(&rest);
            whole.freeze()
        }
    })
}

/// Reads and discards the rest of a body, within limits. A client whose connection is closed while it is still sending
/// often reports only that, and never reads the error response.
async fn discard<B>(mut body: B)
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    let mut bytes = 0;
    while bytes <= DISCARDED_BYTES_MAX {
        match tokio::time::timeout(DISCARD_PAUSE_MAX, body.frame()).await {
            Ok(Some(Ok(frame))) => bytes += frame.data_ref().map_or(0, Bytes::len),
            _ => return,
        }
    }
}

fn too_large() -> Status {
    Status::request_entity_too_large(format!("limit is {BODY_BYTES_MAX}"))
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    #[tokio::test]
    async fn bodies_larger_than_the_limit_are_rejected() {
        let at_limit = read_body(Full::new(Bytes::from(vec![0; BODY_BYTES_MAX])))
            .await
            .unwrap();
        assert_eq!(at_limit.len(), BODY_BYTES_MAX);
        let above_limit = read_body(Full::new(Bytes::from(vec![0; BODY_BYTES_MAX + 1])))
            .await
            .unwrap_err();
        assert_eq!(above_limit.code, 413);
    }
}
