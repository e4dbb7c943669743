//! Long answers are compressed for clients that can read that.

use std::io::Write;

use bytes::{Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, HeaderValue, VARY};

use super::{Body, Chunks, Reply};

/// Shorter answers are not worth it; upstream draws the line here.
const BYTES_MIN: u64 = 128 * 1024;

/// Compresses the answer if the client accepts it and it is long enough.
pub fn compress_if_long(reply: Reply, accepted: bool) -> Reply {
    let long = reply
        .body
        .bytes_total()
        .is_some_and(|total| total >= BYTES_MIN);
    if !long || reply.headers.contains_key(CONTENT_ENCODING) || !accepted {
        return reply;
    }
    let Reply {
        code,
        mut headers,
        body,
        failure,
        logged,
        keeper,
        annotations,
    } = reply;
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    let compressed = Compressed {
        body,
        // The fastest level: the network is rarely slower.
        encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())),
    };
    Reply {
        code,
        headers,
        body: Body::chunks(compressed, None),
        failure,
        logged,
        keeper,
        annotations,
    }
}

/// Whether a client can read compressed answers.
pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|encoding| {
            let mut parts = encoding.split(';').map(str::trim);
            parts.next() == Some("gzip") && parts.next() != Some("q=0")
        })
}

/// A body that is compressed while it is sent.
struct Compressed {
    body: Body,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Chunks for Compressed {
    fn next(&mut self) -> Option<Bytes> {
        let mut out = BytesMut::new();
        while out.is_empty() {
            let encoder = self.encoder.as_mut()?;
            // Writing to memory cannot fail.
            match self.body.next_chunk() {
                Some(chunk) => {
                    let _ = encoder.write_all(&chunk);
                    out.extend_from_slice(&std::mem::take(encoder.get_mut()));
                }
                None => {
                    let rest = self.encoder.take()?.finish().unwrap_or_default();
                    out.extend_from_slice(&rest);
                }
            }
        }
        Some(out.freeze())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use http::StatusCode;

    use super::*;

    fn reply(bytes: usize) -> Reply {
        Reply::text(StatusCode::OK, "rhumb ".repeat(bytes / 6))
    }

    fn accepting(value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(value))])
    }

    #[test]
    fn a_long_answer_is_compressed_and_can_be_read_again() {
        let mut reply = compress_if_long(reply(600_000), accepts_gzip(&accepting("deflate, gzip")));
        assert_eq!(reply.headers[CONTENT_ENCODING], "gzip");
        let mut sent = Vec::new();
        while let Some(chunk) = reply.body.next_chunk() {
            sent.extend_from_slice(&chunk);
        }
        assert!(sent.len() < 10_000);
        let mut text = String::new();
        flate2::read::GzDecoder::new(sent.as_slice())
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text.len(), 600_000);
    }

    #[test]
    fn short_answers_and_other_clients_are_left_alone() {
        for (bytes, accept) in [(6000, "gzip"), (600_000, "deflate"), (600_000, "gzip;q=0")] {
            let reply = compress_if_long(reply(bytes), accepts_gzip(&accepting(accept)));
            assert!(
                !reply.headers.contains_key(CONTENT_ENCODING),
                "{bytes} {accept}"
            );
        }
    }
}
