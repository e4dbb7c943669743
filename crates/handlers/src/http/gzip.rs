//! Gzip compression of long responses.

use std::io::Write;

use bytes::{Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, HeaderValue, VARY};

use super::{BodyChunks, Reply, ResponseBody};

/// The minimum size of a response to compress, as upstream has it.
const BYTES_MIN: u64 = 128 * 1024;

/// Compresses the response if the client accepts gzip and the response is long enough.
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
        audited_body: logged,
        guard_sender: keeper,
        annotations,
    } = reply;
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    let compressed = GzipChunks {
        body,
        // The fastest level: CPU time is usually scarcer than bandwidth.
        encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())),
    };
    Reply {
        code,
        headers,
        body: ResponseBody::chunks(compressed, None),
        failure,
        audited_body: logged,
        guard_sender: keeper,
        annotations,
    }
}

/// Whether the Accept-Encoding header allows gzip.
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

/// Compresses the chunks of a body as they are sent.
struct GzipChunks {
    body: ResponseBody,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl BodyChunks for GzipChunks {
    fn next_chunk(&mut self) -> Option<Bytes> {
        let mut compressed = BytesMut::new();
        while compressed.is_empty() {
            let encoder = self.encoder.as_mut()?;
            // Writing to memory cannot fail.
            match self.body.next_chunk() {
                Some(chunk) => {
                    let _ = encoder.write_all(&chunk);
                    compressed.extend_from_slice(&std::mem::take(encoder.get_mut()));
                }
                None => {
                    let trailer = self.encoder.take()?.finish().unwrap_or_default();
                    compressed.extend_from_slice(&trailer);
                }
            }
        }
        Some(compressed.freeze())
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
    fn a_long_response_is_compressed_and_decompresses() {
        let mut reply = compress_if_long(reply(600_000), accepts_gzip(&accepting("deflate, gzip")));
        assert_eq!(reply.headers[CONTENT_ENCODING], "gzip");
        let mut body_bytes = Vec::new();
        while let Some(chunk) = reply.body.next_chunk() {
            body_bytes.extend_from_slice(&chunk);
        }
        assert!(body_bytes.len() < 10_000);
        let mut text = String::new();
        flate2::read::GzDecoder::new(body_bytes.as_slice())
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text.len(), 600_000);
    }

    #[test]
    fn short_responses_and_clients_without_gzip_are_not_compressed() {
        for (bytes, accept) in [(6000, "gzip"), (600_000, "deflate"), (600_000, "gzip;q=0")] {
            let reply = compress_if_long(reply(bytes), accepts_gzip(&accepting(accept)));
            assert!(
                !reply.headers.contains_key(CONTENT_ENCODING),
                "{bytes} {accept}"
            );
        }
    }
}
